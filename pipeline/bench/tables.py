"""The results as tables for a terminal."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table

from pipeline.bench.curves import CurvePoint
from pipeline.bench.estimates import DOCUMENT_TOKENS, ESTIMATES, Measured
from pipeline.bench.results import LimitResult, Results, Setting, SpeedResult, WorkResult
from pipeline.bench.work import KINDS

_LETTERS = {"position": "P", "sample": "S", "loss": "L"}
MAX_BODY_TOKENS, MAX_HEAD_ROWS = 4500, 800  # what this system set itself, for 129 tokens


def tables(results: Results) -> Iterator[RenderableType]:
    """What was measured, on what, in the order it was."""
    yield _headline(results.setting)
    yield _work_table(results.work)
    yield _speed_table(results.speed, results.setting)
    yield _limit_table(results.limits, results.speed)
    yield _curve_table("length of a document", results.length_curve)
    yield _curve_table("samples of a document", results.samples_curve)
    if results.tools_measured:
        yield _tool_table(results.tools_measured, results.setting.device_name)


def _headline(setting: Setting) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in setting.versions.items())
    return (
        f"{setting.shape}: {setting.parameters / 1e6:,.1f} M parameters, {setting.dtype}, "
        f"{setting.device_name}, {setting.threads} threads; {versions}; seed {setting.seed}"
        + ("; quick: figures mean nothing" if setting.quick else "")
    )


def _table(title: str, first: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column(first)
    for column in columns:
        table.add_column(column, justify="right")
    return table


def _work_table(work: WorkResult) -> Table:
    table = _table(
        f"work of a document of {work.work_document_tokens} tokens, counted (demo model, "
        f"Calculator, k = {work.work_k}, m = {work.work_m}, {work.work_new_tokens} new tokens)",
        "", "body tokens", "baseline", "head rows", "baseline", "MFLOP", "baseline", "CPU time x",
    )  # fmt: skip
    for kind in KINDS:
        table.add_row(
            _LETTERS[kind],
            _number(work.body_tokens_per_document_by_kind[kind]),
            _number(work.naive_body_tokens_per_document_by_kind.get(kind)),
            _number(work.head_rows_per_document_by_kind[kind]),
            _number(work.naive_head_rows_per_document_by_kind.get(kind)),
            _number(work.flops_per_document_by_kind[kind], 1e6),
            _number(work.naive_flops_per_document_by_kind.get(kind), 1e6),
            _times(work.demo_speedup_by_kind.get(kind)),
        )
    table.add_row(
        "all",
        _number(work.body_tokens_per_document),
        _number(work.naive_body_tokens_per_document),
        _number(work.head_rows_per_document),
        _number(work.naive_head_rows_per_document),
        _number(work.flops_per_document, 1e6),
        _number(work.naive_flops_per_document, 1e6),
        _times(work.demo_speedup_total),
    )
    table.caption = (
        f"aims: {MAX_BODY_TOKENS:,} body tokens, {MAX_HEAD_ROWS} head rows; CPU time of P, S and L "
        "inside the model, of all with what is around it"
    )
    return table


def _speed_table(speed: SpeedResult, setting: Setting) -> Table:
    if setting.device == "cpu":
        unit = "CPU seconds"
        fast, naive = speed.cpu_s_per_document_by_kind, speed.naive_cpu_s_per_document_by_kind
        with_prefill = speed.sample_with_prefill_cpu_s_per_document
    else:
        unit = "seconds"
        fast, naive = speed.wall_s_per_document_by_kind, speed.naive_wall_s_per_document_by_kind
        with_prefill = speed.sample_with_prefill_wall_s_per_document
    table = _table(
        f"{unit} a document ({speed.documents_timed} documents, {speed.naive_documents_timed} "
        "with the baseline)",
        "", "fast path", "baseline", "times faster",
    )  # fmt: skip
    ratio = {
        "position": speed.speedup_position,
        "sample": speed.speedup_sample,
        "loss": speed.speedup_loss,
    }
    for kind in KINDS:
        table.add_row(
            _LETTERS[kind], _seconds(fast[kind]), _seconds(naive.get(kind)), _times(ratio[kind])
        )
    table.add_row(
        "S, nothing kept of P",
        _seconds(with_prefill),
        _seconds(naive.get("sample")),
        _times(speed.speedup_sample_with_prefill),
    )
    table.add_row(
        "P + S + L",
        _seconds(sum(fast.values())),
        _seconds(sum(naive.values()) if naive else None),
        _times(speed.speedup_total),
    )
    table.caption = _agreement(speed)
    return table


def _agreement(speed: SpeedResult) -> str | None:
    if speed.max_abs_dloss_nats is None:
        return None
    same = "identical" if speed.greedy_samples_identical else "not identical"
    return (
        f"largest differences: {speed.max_abs_dp:.1e} in p, {speed.max_abs_dloss_nats:.1e} "
        f"nats in L; greedy samples {same}"
    )


def _limit_table(limit: LimitResult, speed: SpeedResult) -> Table:
    table = _table("limits", "", "measured", "of the limit")
    table.add_row("matrix product, GFLOP/s", _number(limit.matmul_peak_flops_per_s, 1e9), "")
    table.add_row("P, GFLOP/s", _number(limit.prefill_flops_per_s, 1e9), f"{limit.mfu_prefill:.0%}")
    table.add_row("L, GFLOP/s", _number(limit.loss_flops_per_s, 1e9), f"{limit.mfu_loss:.0%}")
    if limit.decode_bandwidth_share is not None:
        table.add_row(
            "S, GB/s of the copy bandwidth",
            _number(limit.copy_bandwidth_bytes_per_s, 1e9),
            f"{limit.decode_bandwidth_share:.0%}",
        )
    table.add_row("memory it takes, MB", _number(speed.memory_peak_bytes, 1e6), "")
    table.add_row("memory of the baseline, MB", _number(speed.naive_memory_peak_bytes, 1e6), "")
    return table


def _curve_table(title: str, points: list[CurvePoint]) -> Table:
    table = _table(
        title, "tokens, k x m", "body tokens", "head rows", "CPU s", "s", "CPU ms a body token"
    )
    for point in points:
        table.add_row(
            f"{point.document_tokens}, {point.k} x {point.m}",
            _number(point.body_tokens),
            _number(point.head_rows),
            _seconds(point.cpu_s),
            _seconds(point.wall_s),
            f"{1000 * point.cpu_s / point.body_tokens:.2f}",
        )
    return table


def _tool_table(measured: list[Measured], device_name: str) -> Table:
    table = _table(
        f"documents of {DOCUMENT_TOKENS} tokens a second", "", "P", "S", "L", "P + S + L"
    )
    for row in measured:
        for guess in (e for e in ESTIMATES if e.tool == row.tool):
            table.add_row(
                f"{guess.tool}, estimated for an {guess.gpu}",
                f"{1000 / guess.position_ms:.1f}",
                f"{1000 / guess.sample_ms:.1f}",
                f"{1000 / guess.loss_ms:.2f}",
                f"{guess.documents_per_s:.2f}",
            )
        table.add_row(
            f"{row.tool}, measured on {device_name}",
            f"{row.position_per_s:.1f}",
            f"{row.sample_per_s:.1f}",
            f"{row.loss_per_s:.2f}",
            f"{row.documents_per_s:.2f}",
        )
    return table


def _number(value: float | None, unit: float = 1.0) -> str:
    return "-" if value is None else f"{value / unit:,.0f}"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _times(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"
