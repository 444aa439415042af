"""Memory that a run takes."""

from pathlib import Path

import numpy as np
import pytest

from pipeline.bench.measuring import memory_peak

MIB = 2**20


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux resets a peak")
def test_a_peak_is_what_a_run_took_beyond_what_there_was() -> None:
    there_before = np.ones(64 * MIB, dtype=np.uint8)
    peak = memory_peak("cpu", lambda: np.ones(128 * MIB, dtype=np.uint8).sum())
    assert 120 * MIB < peak < 160 * MIB
    assert memory_peak("cpu", lambda: there_before[0]) < 32 * MIB  # the peak before is forgotten
