"""What a benchmark found, as it stands in the JSON file: one object, units in the names.

"by kind" is an object with the keys position, sample and loss (P, S and L).
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pipeline.bench.curves import CurvePoint
from pipeline.bench.estimates import Measured
from tools.atomic import write_text_atomically

ByKind = dict[str, float]


@dataclass(slots=True, kw_only=True)
class Setting:
    """What was measured, on what."""

    shape: str
    parameters: int
    dtype: str
    device: str
    device_name: str
    threads: int
    seed: int
    quick: bool
    versions: dict[str, str]


@dataclass(slots=True, kw_only=True)
class WorkResult:
    """Counted on the demo model; nothing here depends on the machine but the speedups.

    Those by kind are of CPU seconds inside the model, the total of all from tokens to losses.
    """

    work_documents: int
    work_document_tokens: int
    work_k: int
    work_m: int
    work_new_tokens: int
    body_tokens_per_document: float
    body_tokens_per_document_by_kind: ByKind
    padding_tokens_per_document: float
    head_rows_per_document: float
    head_rows_per_document_by_kind: ByKind
    flops_per_document: float
    flops_per_document_by_kind: ByKind
    scored_calls_per_document: float
    naive_body_tokens_per_document: float | None = None
    naive_body_tokens_per_document_by_kind: ByKind = field(default_factory=dict)
    naive_head_rows_per_document: float | None = None
    naive_head_rows_per_document_by_kind: ByKind = field(default_factory=dict)
    naive_flops_per_document: float | None = None
    naive_flops_per_document_by_kind: ByKind = field(default_factory=dict)
    naive_scored_calls_per_document: float | None = None
    demo_speedup_total: float | None = None
    demo_speedup_by_kind: ByKind = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class SpeedResult:
    """On the shape: CPU seconds decide on a CPU, seconds on the clock on a GPU."""

    documents_timed: int
    naive_documents_timed: int
    cpu_s_per_document_by_kind: ByKind
    wall_s_per_document_by_kind: ByKind
    sample_with_prefill_cpu_s_per_document: float
    sample_with_prefill_wall_s_per_document: float
    memory_peak_bytes: int
    naive_cpu_s_per_document_by_kind: ByKind = field(default_factory=dict)
    naive_wall_s_per_document_by_kind: ByKind = field(default_factory=dict)
    naive_memory_peak_bytes: int | None = None
    speedup_total: float | None = None
    speedup_position: float | None = None
    speedup_sample: float | None = None
    speedup_sample_with_prefill: float | None = None
    speedup_loss: float | None = None
    speedup_total_wall: float | None = None
    max_abs_dp: float | None = None
    max_abs_dloss_nats: float | None = None
    greedy_samples_identical: bool | None = None


@dataclass(slots=True, kw_only=True)
class LimitResult:
    """Shares of the hardware's limits; those of a GPU's memory are null on a CPU."""

    mfu_prefill: float
    mfu_loss: float
    prefill_flops_per_s: float
    loss_flops_per_s: float
    matmul_peak_flops_per_s: float
    decode_bandwidth_share: float | None = None
    copy_bandwidth_bytes_per_s: float | None = None


@dataclass(slots=True, kw_only=True)
class Results:
    """Everything; `tools_measured` is empty on a CPU."""

    setting: Setting
    work: WorkResult
    speed: SpeedResult
    limits: LimitResult
    length_curve: list[CurvePoint]
    samples_curve: list[CurvePoint]
    tools_measured: list[Measured]

    def flat(self) -> dict[str, Any]:
        """One object: the parts joined, the curves as lists."""
        everything = asdict(self)
        parts = [everything.pop(name) for name in ("setting", "work", "speed", "limits")]
        for part in parts:
            everything |= part
        return everything


def write_json(results: Results, path: Path) -> None:
    """Raises OutputError where the file cannot be written."""
    write_text_atomically(path, json.dumps(results.flat(), indent=2, sort_keys=True) + "\n")
