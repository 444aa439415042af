"""The fast path against the baseline: the same arrays, the same model, the same process.

Shape suffixes: n tokens of the document, C candidates.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pipeline.bench import fast
from pipeline.bench.measuring import Seconds, memory_peak, timed
from pipeline.bench.metered import MeteredEngine
from pipeline.bench.naive import NaiveBaseline, PrefixPair
from pipeline.bench.work import KINDS
from pipeline.bench.workload import OPEN_ID, Candidate, Document, Ids
from tools.base import ContractError

_LARGEST_DIFFERENCE = 1e-3  # in float32; otherwise the two do not compute the same

Spent = dict[str, Seconds]  # by kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """How far the numbers of the two paths are apart."""

    max_abs_dp: float
    max_abs_dloss_nats: float
    greedy_samples_identical: bool


@dataclass(slots=True, kw_only=True)
class Throughput:
    """Seconds a document takes, by kind, and bytes as in measuring.memory_peak."""

    documents: int
    naive_documents: int
    fast: Spent
    fast_memory_bytes: int
    sample_with_prefill: Seconds  # S when nothing of P was kept
    naive: Spent = field(default_factory=dict)  # empty where the baseline was skipped
    naive_memory_bytes: int | None = None


def agreement(
    engine: MeteredEngine, baseline: NaiveBaseline, document: Document, *, new_tokens: int
) -> Agreement:
    """Both paths on one document, S greedy.

    Raises:
        ContractError: in float32 they do not give the same numbers.
    """
    [p_n] = fast.positions(engine, [document])
    [empty] = fast.losses_without(engine, [document])
    [drawn] = fast.samples(engine, [document], new_tokens=new_tokens, greedy=True)
    [losses_C2] = fast.losses_with(engine, [document])
    expected_p_n = baseline.positions(document.prompt_ids, document.x_ids, OPEN_ID)
    identical = all(
        list(samples_m[0].token_ids)
        == baseline.samples(prefix, m=1, max_new_tokens=new_tokens, greedy=True)[0]
        for samples_m, prefix in zip(drawn, _prefixes(document), strict=True)
    )
    losses_C3 = np.column_stack([[empty[c.position] for c in document.candidates], losses_C2])
    expected_C3 = _naive_losses(baseline, document)
    found = Agreement(
        max_abs_dp=float(np.abs(p_n - expected_p_n).max()),
        max_abs_dloss_nats=float(np.nanmax(np.abs(losses_C3 - expected_C3))),
        greedy_samples_identical=identical,
    )
    if engine.info.dtype == "float32" and not (
        max(found.max_abs_dp, found.max_abs_dloss_nats) < _LARGEST_DIFFERENCE
        and found.greedy_samples_identical
    ):
        raise ContractError(
            stage="bench", doc_id="(random tokens)", got=found, expected="the same numbers"
        )
    return found


def measure(
    engine: MeteredEngine,
    baseline: NaiveBaseline | None,
    documents: Sequence[Document],
    *,
    naive_documents: int,
    new_tokens: int,
    told: Callable[[str], None],
) -> Throughput:
    """The fast path over all documents before and after every document of the baseline, so that
    whatever else the machine does slows both down."""
    device = engine.info.device
    spent = _FastSpent()
    fast_memory = memory_peak(device, lambda: spent.add_round(engine, documents, new_tokens))
    naive, naive_memory = _nothing(), 0
    for number, document in enumerate(documents[:naive_documents], start=1):
        assert baseline is not None
        told(f"baseline, document {number} of {naive_documents}")
        run = _naive_run(baseline, document, new_tokens=new_tokens, device=device, spent=naive)
        naive_memory = max(naive_memory, memory_peak(device, run))
        spent.add_round(engine, documents, new_tokens)
    runs = spent.rounds * len(documents)
    result = Throughput(
        documents=len(documents),
        naive_documents=naive_documents,
        fast={kind: _over(spent.by_kind[kind], runs) for kind in KINDS},
        fast_memory_bytes=fast_memory,
        sample_with_prefill=_over(spent.sample_with_prefill, runs),
    )
    if baseline is not None:
        result.naive = {kind: _over(naive[kind], naive_documents) for kind in KINDS}
        result.naive_memory_bytes = naive_memory
    return result


class _FastSpent:
    """Seconds of the fast path, summed over rounds."""

    def __init__(self) -> None:
        self.rounds = 0
        self.by_kind = _nothing()
        self.sample_with_prefill = Seconds()

    def add_round(
        self, engine: MeteredEngine, documents: Sequence[Document], new_tokens: int
    ) -> None:
        """The whole annotation, then S again: what P had kept for it is gone by then."""
        engine.reset()
        run_fast(engine, documents, new_tokens=new_tokens)
        for kind in KINDS:
            self.by_kind[kind] += engine.seconds[kind]
        engine.reset()
        fast.samples(engine, documents, new_tokens=new_tokens)
        self.sample_with_prefill += engine.seconds["sample"]
        self.rounds += 1


def run_fast(engine: MeteredEngine, documents: Sequence[Document], *, new_tokens: int) -> None:
    """The whole annotation but for the tools, in the order of sampling.py and scoring.py."""
    fast.positions(engine, documents)
    fast.losses_without(engine, documents)
    fast.samples(engine, documents, new_tokens=new_tokens)
    fast.losses_with(engine, documents)


def _naive_run(
    baseline: NaiveBaseline, document: Document, *, new_tokens: int, device: str, spent: Spent
) -> Callable[[], None]:
    m = document.seeds_Km.shape[1]

    def run() -> None:
        with timed(device) as seconds:
            baseline.positions(document.prompt_ids, document.x_ids, OPEN_ID)
        spent["position"] += seconds
        with timed(device) as seconds:
            for prefix in _prefixes(document):
                baseline.samples(prefix, m=m, max_new_tokens=new_tokens)
        spent["sample"] += seconds
        with timed(device) as seconds:
            _naive_losses(baseline, document)
        spent["loss"] += seconds

    return run


def _naive_losses(baseline: NaiveBaseline, document: Document) -> NDArray[np.float64]:
    """[C, 3] in the order of the candidates, which are sorted by position."""
    return np.concatenate(
        [
            baseline.losses(document.x_ids, position, _pairs(document, candidates))
            for position, candidates in _by_position(document)
        ]
    )


def _by_position(document: Document) -> Iterator[tuple[int, list[Candidate]]]:
    for position in document.positions.tolist():
        yield position, [c for c in document.candidates if c.position == position]


def _pairs(document: Document, candidates: Sequence[Candidate]) -> list[PrefixPair]:
    calls = [document.calls[candidate.call] for candidate in candidates]
    return [PrefixPair(call_ids=call.call_ids, plus_ids=call.plus_ids) for call in calls]


def _prefixes(document: Document) -> list[Ids]:
    """What S continues at each position."""
    return [
        np.concatenate([document.prompt_ids, document.x_ids[:i], [OPEN_ID]]).astype(np.int32)
        for i in document.positions.tolist()
    ]


def _nothing() -> Spent:
    return {kind: Seconds() for kind in KINDS}


def _over(seconds: Seconds, count: int) -> Seconds:
    return Seconds(cpu_s=seconds.cpu_s / count, wall_s=seconds.wall_s / count)
