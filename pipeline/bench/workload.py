"""Documents as arrays of random tokens: a workload for models that write no calls.

Random weights never write a call, so positions, samples and candidates are given: `positions` are
fixed, samples have a fixed length, and the candidates of L come in the shares that engines were
studied with, where 25 samples are 19 distinct calls at their positions and 17 distinct calls.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.engines.protocol import PositionRequest, SampleRequest

_DISTINCT_AT_POSITIONS = 19 / 25
_DISTINCT = 17 / 25
_NEEDS_CALL = 0.10  # share of distinct candidates whose L+ leaves L(e(c, eps)) to be computed
_CALL_TOKENS = (16, 24)
_RESULT_TOKENS = (3, 5)
_SEPARATOR_TOKENS = 4  # between x and "Output:" in a prompt
OPEN_ID, _ARROW_ID, _CLOSE_ID = 1, 2, 3
_FIRST_ORDINARY_ID = 4

Ids = NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A distinct call as the two prefixes of x it is scored with."""

    call_ids: Ids  # e(c, eps)
    plus_ids: Ids  # e(c, r)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """What one sample became: a call at one of the positions."""

    position: int
    call: int  # which of the document's calls
    needs_call: bool  # L(eps) - L+ reaches the threshold, so that L(e(c, eps)) decides


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A document with its prompt, the positions sampled at, and what the samples became."""

    prompt_ids: Ids
    header_len: int
    x_ids: Ids
    positions: Ids
    seeds_Km: NDArray[np.uint64]
    calls: list[Call]
    candidates: list[Candidate]

    def position_request(self) -> PositionRequest:
        return PositionRequest(
            prompt_ids=self.prompt_ids, x_ids=self.x_ids, header_len=self.header_len
        )

    def sample_request(self) -> SampleRequest:
        return SampleRequest(
            prompt_ids=self.prompt_ids,
            x_ids=self.x_ids,
            positions=self.positions,
            open_ids=(OPEN_ID,),
            seeds_Km=self.seeds_Km,
            header_len=self.header_len,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How large the documents of a workload are."""

    document_tokens: int = 129
    header_tokens: int = 400
    k: int = 5
    m: int = 5
    new_tokens: int = 28

    def longest(self) -> int:
        """Tokens of the longest sequence, the begin-of-text token among them."""
        prompt = self.header_tokens + 2 * self.document_tokens + _SEPARATOR_TOKENS
        return 2 + prompt + self.new_tokens


def make_documents(sizes: Sizes, *, vocabulary: int, count: int, seed: int) -> list[Document]:
    """`count` documents with one header, other tokens in each; the same for the same seed."""
    generator = np.random.default_rng(seed)
    header_ids = _ids(generator, vocabulary, sizes.header_tokens)
    separator_ids = _ids(generator, vocabulary, _SEPARATOR_TOKENS)
    return [
        _document(generator, sizes, vocabulary, header_ids, separator_ids) for _ in range(count)
    ]


def _document(
    generator: np.random.Generator, sizes: Sizes, vocabulary: int, header_ids: Ids, separator: Ids
) -> Document:
    x_ids = _ids(generator, vocabulary, sizes.document_tokens)
    positions = np.sort(generator.choice(sizes.document_tokens, sizes.k, replace=False))
    num_calls = max(1, round(_DISTINCT * sizes.k * sizes.m))
    return Document(
        prompt_ids=np.concatenate([header_ids, x_ids, separator]),
        header_len=sizes.header_tokens,
        x_ids=x_ids,
        positions=positions.astype(np.int32),
        seeds_Km=generator.integers(2**63, size=(sizes.k, sizes.m), dtype=np.uint64),
        calls=[_call(generator, vocabulary) for _ in range(num_calls)],
        candidates=_candidates(positions.tolist(), sizes, num_calls),
    )


def _candidates(positions: list[int], sizes: Sizes, num_calls: int) -> list[Candidate]:
    """m for each position: every call once, some a second time elsewhere, the rest repeats."""
    k, total = sizes.k, sizes.k * sizes.m
    num_pairs = max(num_calls, round(_DISTINCT_AT_POSITIONS * total)) if k > 1 else num_calls
    calls_at: list[list[int]] = [[] for _ in positions]
    for pair in range(num_pairs):
        # A call's second place is the next one: pair // num_calls is 0 or 1.
        calls_at[(pair + pair // num_calls * (1 - num_calls % k)) % k].append(pair % num_calls)
    candidates = []
    decided_by_call = max(1, round(_NEEDS_CALL * num_pairs))
    for place, calls in zip(positions, calls_at, strict=True):
        for sample in range(sizes.m):
            call = calls[sample % len(calls)]
            candidates.append(
                Candidate(position=place, call=call, needs_call=call < decided_by_call)
            )
    return candidates


def _call(generator: np.random.Generator, vocabulary: int) -> Call:
    written = _ids(generator, vocabulary, int(generator.integers(*_CALL_TOKENS, endpoint=True)))
    result = _ids(generator, vocabulary, int(generator.integers(*_RESULT_TOKENS, endpoint=True)))
    begin = [OPEN_ID, *written, _ARROW_ID]
    return Call(
        call_ids=np.array([*begin, _CLOSE_ID], dtype=np.int32),
        plus_ids=np.array([*begin, *result, _CLOSE_ID], dtype=np.int32),
    )


def _ids(generator: np.random.Generator, vocabulary: int, length: int) -> Ids:
    return generator.integers(_FIRST_ORDINARY_ID, vocabulary, length, dtype=np.int32)
