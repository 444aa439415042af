"""S of many requests: which of them are decoded together, and what they go on from."""

from collections.abc import Sequence

from pipeline.engines.batching import form_packs
from pipeline.engines.causal_lm import CausalLM, Prefix
from pipeline.engines.decoding import SampleTrees, TokenBytes, Work
from pipeline.engines.memory import run_in_halves
from pipeline.engines.pass_runner import PassRunner, by_beginning
from pipeline.engines.passes import shared_tokens, text_key, whole_text
from pipeline.engines.protocol import Sample, SampleRequest, SamplingParams

_TOKENS_FOR_A_SAMPLE = 16  # of the budget: each has keys of its own, and a row of logits
_PREFIX_BUDGETS = 4  # token budgets of keys of prefixes that are decoded at once


class Sampler:
    """Samples of one model; what P kept of a text is found in `runner`."""

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
        self, requests: Sequence[SampleRequest], params: SamplingParams
    ) -> list[list[list[Sample]] | None]:
        """For each request K lists of m samples; None where even one position does not fit."""
        answers: list[list[list[Sample]] | None] = [[[] for _ in r.positions] for r in requests]
        works = [
            self._work(number, request)
            for number, request in enumerate(requests)
            if request.seeds_Km.size
        ]
        for members in by_beginning([work.beginning for work in works]):
            for batch in self._batches([works[index] for index in members]):
                for work, samples_K in run_in_halves(
                    batch,
                    lambda some: self._run(some, params),
                    relieve=self._runner.relieve,
                    halves=Work.halves,
                ):
                    _write(answers, work, samples_K)
                for work in batch:
                    self._runner.kept.pop(text_key(work.request), None)
        return answers

    def _work(self, number: int, request: SampleRequest) -> Work:
        shared = shared_tokens(request) if self._lm.keeps else 0
        before = 1 + len(request.prompt_ids) - shared
        whole = whole_text(request, self._bos_id)
        ends = [before + i for i in request.positions.tolist()]
        return Work(
            number=number,
            request=request,
            beginning=whole[:shared],
            tokens=whole[shared : shared + max(ends)],
            which=range(len(ends)),
            ends=ends,
        )

    def _batches(self, works: Sequence[Work]) -> list[list[Work]]:
        """Works of one beginning: bounded prefixes, longest first, and bounded samples.

        A model that keeps nothing runs the prefix of every position anew.
        """
        lengths = [len(work.tokens) for work in works]
        if self._lm.keeps:
            packs = form_packs(lengths, _PREFIX_BUDGETS * self._token_budget, padded=True)
        else:
            runs = [length * len(w.which) for length, w in zip(lengths, works, strict=True)]
            packs = form_packs(runs, self._token_budget)
        batches: list[list[Work]] = []
        for pack in packs:
            room = 0
            for index in pack:
                tokens = works[index].num_samples * _TOKENS_FOR_A_SAMPLE
                if tokens > room or index == pack[0]:
                    batches.append([])
                    room = self._token_budget
                batches[-1].append(works[index])
                room -= tokens
        return batches

    def _run(self, works: Sequence[Work], params: SamplingParams) -> list[list[list[Sample]]]:
        beginning = self._runner.beginning(works[0].beginning)
        kept = {}
        if self._lm.keeps:
            kept = {work.number: self._runner.kept.get(text_key(work.request)) for work in works}
            missing = [work for work in works if kept[work.number] is None]
            left = self._runner.left_by([work.tokens for work in missing], beginning)
            kept |= {work.number: of_work for work, of_work in zip(missing, left, strict=True)}
        prefixes = [
            Prefix(tokens=work.tokens, beginning=beginning, kept=kept.get(work.number))
            for work in works
        ]
        return self._trees.run(works, prefixes, params)


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
