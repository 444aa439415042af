"""`python -m pipeline bench` as a user types it."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

from tests.pipeline.demo_runs import ROOT, pipeline_here


def bench(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pipeline", "bench", *map(str, arguments)],
        cwd=ROOT, env=os.environ | {"NO_COLOR": "1", "COLUMNS": "200"}, capture_output=True,
        text=True, timeout=300,
    )  # fmt: skip


def test_the_readmes_command_is_the_one_below() -> None:
    section = (ROOT / "README.md").read_text().split("\n## How fast\n")[1]
    assert section.split("```bash\n")[1].split("```")[0] == "python -m pipeline bench --quick\n"


def test_a_quick_run_writes_every_figure_to_the_json_file(tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    done = bench("--quick", "--json", path)
    assert done.returncode == 0, done.stderr
    for line in ("work of a document of 129 tokens", "times faster", "length of a document"):
        assert line in done.stdout
    found = json.loads(path.read_text())
    for name in (
        "body_tokens_per_document", "head_rows_per_document", "flops_per_document",
        "naive_body_tokens_per_document", "naive_head_rows_per_document", "speedup_total",
        "speedup_position", "speedup_sample", "speedup_loss", "mfu_prefill",
        "matmul_peak_flops_per_s",
    ):  # fmt: skip
        assert math.isfinite(found[name]) and found[name] > 0, name
    # What a run of so small a model takes, not what the process holds (test_measuring.py).
    assert 0 <= found["memory_peak_bytes"] < 100e6
    assert found["decode_bandwidth_share"] is None  # there is none on a CPU
    assert set(found["head_rows_per_document_by_kind"]) == {"position", "sample", "loss"}
    assert [point["document_tokens"] for point in found["length_curve"]] == [32, 64]
    assert (found["shape"], found["device"], found["threads"]) == ("32,2,2,128", "cpu", 1)
    assert found["greedy_samples_identical"] is True and found["max_abs_dloss_nats"] < 1e-4
    assert list(found) == sorted(found)


def test_a_wrong_shape_is_one_line(tmp_path: Path) -> None:
    done = pipeline_here("bench", "--shape", "huge", check=False)
    assert done.returncode == 1
    assert "--shape: got 'huge', expected demo, small, gpt-j-6b" in done.stderr
    assert "Traceback" not in done.stderr and len(done.stderr.strip().splitlines()) == 1
