"""The fast path over arrays: the engine, with the exact reductions above it.

What sampling.py and scoring.py do with documents is done here with arrays: L(eps) once for each
document, equal calls once, calls with equal prefixes in one pass whatever their positions, and
L(e(c, eps)) only where L+ leaves it open.

Shape suffixes: n tokens of the document, C candidates.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from pipeline.bench.workload import OPEN_ID, Call, Document, Ids
from pipeline.engines.protocol import LMEngine, LossRequest, Sample, SamplingParams
from pipeline.losses import WINDOW, weighted_loss
from tools.base import ConfigError

_Answer = TypeVar("_Answer")
_NO_IDS: Ids = np.zeros(0, dtype=np.int32)


def positions(engine: LMEngine, documents: Sequence[Document]) -> list[NDArray[np.float64]]:
    """P: p_i of every place of each document, float64 [n]."""
    answers = engine.position_logprobs([d.position_request() for d in documents], [OPEN_ID])
    return [np.exp(_fitted(logprobs_n1)[:, 0].astype(np.float64)) for logprobs_n1 in answers]


def samples(
    engine: LMEngine, documents: Sequence[Document], *, new_tokens: int, greedy: bool = False
) -> list[list[list[Sample]]]:
    """S: [document][K][m] samples of exactly `new_tokens` tokens."""
    params = SamplingParams(
        stop_ids=frozenset(), max_new_tokens=new_tokens, temperature=0.0 if greedy else 1.0
    )
    answers = engine.sample([d.sample_request() for d in documents], params)
    return [_fitted(samples_Km) for samples_Km in answers]


def losses_without(engine: LMEngine, documents: Sequence[Document]) -> list[dict[int, float]]:
    """L(eps) in nats by position, of each document in one pass."""
    requests = [LossRequest(z_ids=_NO_IDS, x_ids=d.x_ids, positions=d.positions) for d in documents]
    answers = engine.window_logprobs(requests, WINDOW)
    return [
        dict(zip(d.positions.tolist(), weighted_loss(_fitted(logprobs_QW)).tolist(), strict=True))
        for d, logprobs_QW in zip(documents, answers, strict=True)
    ]


def losses_with(engine: LMEngine, documents: Sequence[Document]) -> list[NDArray[np.float64]]:
    """L(e(c, eps)) and L(e(c, r)) in nats of every candidate of each document, [C, 2].

    NaN where L(e(c, eps)) cannot matter.
    """
    plus = _stage(engine, documents, with_result=True)
    call = _stage(engine, documents, with_result=False)
    return [
        np.array(
            [
                [calls.get((c.position, c.call), np.nan), pluses[c.position, c.call]]
                for c in document.candidates
            ]
        )
        for document, calls, pluses in zip(documents, call, plus, strict=True)
    ]


def _stage(
    engine: LMEngine, documents: Sequence[Document], *, with_result: bool
) -> list[dict[tuple[int, int], float]]:
    """The loss of every distinct (position, call) of each document."""
    groups: dict[tuple[int, int], set[int]] = defaultdict(set)  # positions by document and call
    for index, document in enumerate(documents):
        for candidate in document.candidates:
            if with_result or candidate.needs_call:
                groups[index, candidate.call].add(candidate.position)
    requests = [
        LossRequest(
            z_ids=_prefix(documents[index].calls[call], with_result=with_result),
            x_ids=documents[index].x_ids,
            positions=np.array(sorted(at), dtype=np.int32),
        )
        for (index, call), at in groups.items()
    ]
    losses: list[dict[tuple[int, int], float]] = [{} for _ in documents]
    answers = engine.window_logprobs(requests, WINDOW)
    for (index, call), request, logprobs_QW in zip(groups, requests, answers, strict=True):
        of_positions = weighted_loss(_fitted(logprobs_QW)).tolist()
        for position, loss in zip(request.positions.tolist(), of_positions, strict=True):
            losses[index][position, call] = loss
    return losses


def _prefix(call: Call, *, with_result: bool) -> Ids:
    return call.plus_ids if with_result else call.call_ids


def _fitted(answer: _Answer | None) -> _Answer:
    """What the engine answered.

    Raises:
        ConfigError: it had not the memory to.
    """
    if answer is None:
        raise ConfigError("--shape: a document of this workload does not fit into memory")
    return answer
