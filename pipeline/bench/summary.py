"""What was measured, as the figures of the result: per document, and as ratios."""

from collections.abc import Callable

from pipeline.bench.demo_work import DOCUMENT_TOKENS, CountedWork
from pipeline.bench.measuring import Seconds
from pipeline.bench.results import ByKind, SpeedResult, WorkResult
from pipeline.bench.throughput import Agreement, Spent, Throughput
from pipeline.bench.work import KINDS, ModelCost, Work
from pipeline.bench.workload import Sizes


def work_result(
    fast: CountedWork, naive: CountedWork | None, cost: ModelCost, sizes: Sizes
) -> WorkResult:
    total = fast.total()
    result = WorkResult(
        work_documents=fast.documents,
        work_document_tokens=DOCUMENT_TOKENS,
        work_k=sizes.k,
        work_m=sizes.m,
        work_new_tokens=sizes.new_tokens,
        body_tokens_per_document=total.tokens / fast.documents,
        body_tokens_per_document_by_kind=_per_document(fast, _tokens),
        padding_tokens_per_document=total.padding / fast.documents,
        head_rows_per_document=total.rows / fast.documents,
        head_rows_per_document_by_kind=_per_document(fast, _rows),
        flops_per_document=cost.flops(total) / fast.documents,
        flops_per_document_by_kind=_per_document(fast, cost.flops),
        scored_calls_per_document=fast.calls / fast.documents,
    )
    if naive is None:
        return result
    total = naive.total()
    result.naive_body_tokens_per_document = total.tokens / naive.documents
    result.naive_body_tokens_per_document_by_kind = _per_document(naive, _tokens)
    result.naive_head_rows_per_document = total.rows / naive.documents
    result.naive_head_rows_per_document_by_kind = _per_document(naive, _rows)
    result.naive_flops_per_document = cost.flops(total) / naive.documents
    result.naive_flops_per_document_by_kind = _per_document(naive, cost.flops)
    result.naive_scored_calls_per_document = naive.calls / naive.documents
    result.demo_speedup_total = naive.all_seconds.cpu_s / fast.all_seconds.cpu_s
    result.demo_speedup_by_kind = {
        kind: naive.seconds[kind].cpu_s / fast.seconds[kind].cpu_s for kind in KINDS
    }
    return result


def speed_result(measured: Throughput, agreed: Agreement | None, device: str) -> SpeedResult:
    """Ratios are of CPU seconds on a CPU, of seconds on the clock on a GPU."""
    fast, naive = measured.fast, measured.naive
    result = SpeedResult(
        documents_timed=measured.documents,
        naive_documents_timed=measured.naive_documents,
        cpu_s_per_document_by_kind={kind: fast[kind].cpu_s for kind in KINDS},
        wall_s_per_document_by_kind={kind: fast[kind].wall_s for kind in KINDS},
        sample_with_prefill_cpu_s_per_document=measured.sample_with_prefill.cpu_s,
        sample_with_prefill_wall_s_per_document=measured.sample_with_prefill.wall_s,
        memory_peak_bytes=measured.fast_memory_bytes,
        naive_memory_peak_bytes=measured.naive_memory_bytes,
    )
    if agreed is None:
        return result
    result.max_abs_dp = agreed.max_abs_dp
    result.max_abs_dloss_nats = agreed.max_abs_dloss_nats
    result.greedy_samples_identical = agreed.greedy_samples_identical
    result.naive_cpu_s_per_document_by_kind = {kind: naive[kind].cpu_s for kind in KINDS}
    result.naive_wall_s_per_document_by_kind = {kind: naive[kind].wall_s for kind in KINDS}
    faster = {kind: naive[kind].on(device) / fast[kind].on(device) for kind in KINDS}
    result.speedup_position = faster["position"]
    result.speedup_sample = faster["sample"]
    result.speedup_loss = faster["loss"]
    cold = measured.sample_with_prefill.on(device)
    result.speedup_sample_with_prefill = naive["sample"].on(device) / cold
    result.speedup_total = _total(naive).on(device) / _total(fast).on(device)
    result.speedup_total_wall = _total(naive).wall_s / _total(fast).wall_s
    return result


def _per_document(counted: CountedWork, measure: Callable[[Work], float]) -> ByKind:
    return {kind: measure(counted.work[kind]) / counted.documents for kind in KINDS}


def _tokens(work: Work) -> float:
    return work.tokens


def _rows(work: Work) -> float:
    return work.rows


def _total(spent: Spent) -> Seconds:
    return sum((spent[kind] for kind in KINDS), Seconds())
