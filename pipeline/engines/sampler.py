"""S of many requests: which of them are decoded together, and what they go on from."""

from collections.abc import Mapping, Sequence

from pipeline.engines.batching import form_packs
from pipeline.engines.causal_lm import CausalLM, Prefix
from pipeline.engines.decoding import SampleTrees, TokenBytes, Work
from pipeline.engines.memory import run_in_halves
from pipeline.engines.packed.model import KeptTokens
from pipeline.engines.pass_runner import PassRunner, by_beginning
from pipeline.engines.passes import shared_tokens, whole_text
from pipeline.engines.protocol import PositionRequest, Sample, SampleRequest, SamplingParams

_TOKENS_FOR_A_SAMPLE = 16  # of the budget: each has keys of its own, and a row of logits
_PREFIX_BUDGETS = 4  # token budgets of keys of prefixes that are decoded at once

KeptTexts = Mapping[tuple[bytes, bytes], KeptTokens]


class Sampler:
    """Samples of one model; what P kept of a text is found by its prompt and its tokens."""

    def __init__(
        self,
        lm: CausalLM,
        runner: PassRunner,
        *,
        bos_id: int,
        eos_id: int | None,
        token_bytes: TokenBytes,
        token_budget: int,
    ) -> None:
        self._lm, self._runner, self._bos_id = lm, runner, bos_id
        self._trees = SampleTrees(lm, eos_id, token_bytes)
        self._token_budget = token_budget

    def sample(
        self, requests: Sequence[SampleRequest], params: SamplingParams, kept: KeptTexts
    ) -> list[list[list[Sample]] | None]:
        """For each request K lists of m samples; None where even one position does not fit."""
        answers: list[list[list[Sample]] | None] = [[[] for _ in r.positions] for r in requests]
        busy = [index for index, request in enumerate(requests) if request.seeds_Km.size]
        shared = [self._shared(requests[index]) for index in busy]
        beginnings = [
            whole_text(requests[index], self._bos_id)[:length]
            for index, length in zip(busy, shared, strict=True)
        ]
        for members in by_beginning(beginnings):
            works = [self._work(busy[b], requests[busy[b]], shared[b], kept) for b in members]
            for batch in self._batches(works):
                for work, samples_K in run_in_halves(
                    batch, lambda some: self._trees.run(some, params), Work.halves
                ):
                    _write(answers, work, samples_K)
        return answers

    def _shared(self, request: SampleRequest) -> int:
        return shared_tokens(request) if self._lm.keeps else 0

    def _work(self, number: int, request: SampleRequest, shared: int, kept: KeptTexts) -> Work:
        before = 1 + len(request.prompt_ids) - shared
        whole = whole_text(request, self._bos_id)
        ends = [before + i for i in request.positions.tolist()]
        return Work(
            number=number,
            request=request,
            prefix=Prefix(
                tokens=whole[shared : shared + max(ends)],
                beginning=self._runner.beginning(whole[:shared]),
                kept=kept.get(text_key(request)),
            ),
            which=range(len(ends)),
            ends=ends,
        )

    def _batches(self, works: Sequence[Work]) -> list[list[Work]]:
        """Works of one beginning: bounded keys of prefixes, longest first, and bounded samples."""
        lengths = [len(work.prefix.tokens) for work in works]
        batches: list[list[Work]] = []
        for pack in form_packs(lengths, _PREFIX_BUDGETS * self._token_budget, padded=True):
            room = 0
            for index in pack:
                tokens = works[index].num_samples * _TOKENS_FOR_A_SAMPLE
                if tokens > room or index == pack[0]:
                    batches.append([])
                    room = self._token_budget
                batches[-1].append(works[index])
                room -= tokens
        return batches


def text_key(request: PositionRequest | SampleRequest) -> tuple[bytes, bytes]:
    """What identifies a text with its prompt."""
    return request.prompt_ids.tobytes(), request.x_ids.tobytes()


def _write(
    answers: list[list[list[Sample]] | None],
    work: Work,
    samples_K: list[list[Sample]] | None,
) -> None:
    answer = answers[work.number]
    if samples_K is None or answer is None:
        answers[work.number] = None
        return
    for which, samples in zip(work.which, samples_K, strict=True):
        answer[which] = samples
