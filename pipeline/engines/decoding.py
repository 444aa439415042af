"""S: the samples of many documents, decoded side by side as trees.

Samples at one position begin alike: they are one branch until they draw different tokens, so a
token that several of them share is run once. A sample that cannot become a call ends at once.

Shape suffixes: N branches, M samples of a branch.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from pipeline.engines.causal_lm import CausalLM, Prefix
from pipeline.engines.drawing import draw, uniform
from pipeline.engines.packed.model import Tokens
from pipeline.engines.protocol import Sample, SampleRequest, SamplingParams

TokenBytes = Callable[[Sequence[int]], list[bytes]]

_DRAWN_AT_ONCE = 256  # logits and probabilities: 2 * 256 * 50,400 * 4 bytes = 103 MB for GPT-J


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Positions `which` of a request; before each stand the first `ends` of `tokens`.

    All go on after `beginning`, which other works may share.
    """

    number: int  # of the request
    request: SampleRequest
    beginning: Tokens
    tokens: Tokens
    which: Sequence[int]
    ends: Sequence[int]

    @property
    def num_samples(self) -> int:
        return len(self.which) * int(self.request.seeds_Km.shape[1])

    def halves(self) -> Sequence["Work"]:
        """The same work as two; only itself for a single position."""
        if len(self.which) == 1:
            return (self,)
        middle = len(self.which) // 2
        return [
            replace(
                self,
                tokens=self.tokens[: max(self.ends[part])],
                which=self.which[part],
                ends=self.ends[part],
            )
            for part in (slice(None, middle), slice(middle, None))
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Branch:
    """Samples that have drawn the same tokens so far."""

    request: SampleRequest
    samples: list[Sample | None]  # where each of `members` is written when it is done
    seeds: Sequence[int]
    members: Sequence[int]
    token_ids: tuple[int, ...] = ()
    text: bytes = b""


class SampleTrees:
    """Decodes with one model; `token_bytes` is asked where samples may be ended early."""

    def __init__(self, lm: CausalLM, eos_id: int | None, token_bytes: TokenBytes) -> None:
        self._lm, self._eos_id, self._token_bytes = lm, eos_id, token_bytes

    def run(
        self, works: Sequence[Work], prefixes: Sequence[Prefix], params: SamplingParams
    ) -> list[list[list[Sample]]]:
        """[work][position][m] samples. All prefixes share one beginning."""
        drawn: list[list[list[Sample | None]]] = [
            [[None] * work.request.seeds_Km.shape[1] for _ in work.which] for work in works
        ]
        roots, branches = [], []
        for number, (work, samples_K) in enumerate(zip(works, drawn, strict=True)):
            for which, end, samples in zip(work.which, work.ends, samples_K, strict=True):
                if samples:
                    roots.append((number, end))
                    seeds = work.request.seeds_Km[which].tolist()
                    branches.append(
                        _Branch(
                            request=work.request,
                            samples=samples,
                            seeds=seeds,
                            members=range(len(samples)),
                        )
                    )
        if branches:
            self._grow(prefixes, roots, branches, params)
        return [
            [[sample for sample in samples if sample is not None] for samples in samples_K]
            for samples_K in drawn
        ]

    def _grow(
        self,
        prefixes: Sequence[Prefix],
        roots: Sequence[tuple[int, int]],
        branches: Sequence[_Branch],
        params: SamplingParams,
    ) -> None:
        open_ids = branches[0].request.open_ids  # the same for all, see contract.py
        decoder = self._lm.decoder(prefixes, roots)
        parents_N = np.arange(len(branches))
        for token in open_ids:
            h_ND = decoder.step(np.full(len(branches), token, dtype=np.int64), parents_N)
        while True:
            grown = [
                (parent, branch)
                for parent, children in enumerate(self._draw(branches, h_ND, params))
                for branch in children
            ]
            if not grown:
                return
            parents_N = np.array([parent for parent, _ in grown])
            branches = [branch for _, branch in grown]
            tokens_N = np.array([branch.token_ids[-1] for branch in branches], dtype=np.int64)
            h_ND = decoder.step(tokens_N, parents_N)

    def _draw(
        self, branches: Sequence[_Branch], h_ND: Tensor, params: SamplingParams
    ) -> Iterator[list[_Branch]]:
        """For each branch the branches it goes on as; samples that are done are written down."""
        for start in range(0, len(branches), _DRAWN_AT_ONCE):
            some = branches[start : start + _DRAWN_AT_ONCE]
            widest = max(len(branch.members) for branch in some)
            uniforms_NM = np.zeros((len(some), widest))
            for row, branch in zip(uniforms_NM, some, strict=True):
                step = len(branch.token_ids)
                row[: len(branch.members)] = [
                    uniform(branch.seeds[m], step) for m in branch.members
                ]
            tokens_NM = draw(
                self._lm.head.numbers(h_ND[start : start + len(some)]),
                torch.from_numpy(uniforms_NM).to(h_ND.device),
                temperature=params.temperature,
                top_p=params.top_p,
            ).tolist()
            for branch, tokens_M in zip(some, tokens_NM, strict=True):
                yield self._children(branch, tokens_M, params)

    def _children(
        self, branch: _Branch, tokens_M: Sequence[int], params: SamplingParams
    ) -> list[_Branch]:
        members: dict[int, list[int]] = {}
        for member, token in zip(branch.members, tokens_M, strict=False):
            members.setdefault(token, []).append(member)
        children = []
        for token, followers in members.items():
            token_ids, text = (*branch.token_ids, token), branch.text
            ended = token in params.stop_ids
            done = ended or token == self._eos_id or len(token_ids) >= params.max_new_tokens
            if not done and branch.request.may_be_call is not None:
                text += self._token_bytes([token])[0]
                done = not branch.request.may_be_call(text)
            if done:
                for member in followers:
                    branch.samples[member] = Sample(token_ids, ended)
                continue
            children.append(
                _Branch(
                    request=branch.request,
                    samples=branch.samples,
                    seeds=branch.seeds,
                    members=followers,
                    token_ids=token_ids,
                    text=text,
                )
            )
        return children
