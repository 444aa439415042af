"""The baseline over the documents of demo_work.py: it scores the calls it samples itself."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from pipeline.bench.demo_work import TOOL, CountedWork
from pipeline.bench.measuring import Seconds, timed
from pipeline.bench.naive import Ids, NaiveBaseline, PrefixPair
from pipeline.bench.work import KINDS, Work
from pipeline.method import Method
from pipeline.positions import select_positions
from pipeline.tokens import TokenCodec
from tools.base import ToolRequest, ToolStatus
from tools.calculator import Calculator
from tools.calls import ApiCall, parse_call, pieces_with_result
from tools.prompt import render


def naive_work(
    baseline: NaiveBaseline, method: Method, codec: TokenCodec, unit: pa.Table, *, device: str
) -> CountedWork:
    """The baseline over the same unit."""
    work = {kind: Work() for kind in KINDS}
    seconds = {kind: Seconds() for kind in KINDS}
    positions = calls = 0
    for row in unit.to_pylist():
        annotation = _NaiveAnnotation(baseline, method, codec, row["text"])
        for kind, step in (
            ("position", annotation.find_positions),
            ("sample", annotation.draw),
            ("loss", annotation.score),
        ):
            baseline.work = Work()
            with timed(device) as spent:
                step()
            work[kind] += baseline.work
            seconds[kind] += spent
        positions += annotation.num_positions
        calls += annotation.num_scored
    return CountedWork(
        documents=unit.num_rows, work=work, seconds=seconds, positions=positions, calls=calls
    )


class _NaiveAnnotation:
    """One document through the baseline, step by step."""

    def __init__(
        self, baseline: NaiveBaseline, method: Method, codec: TokenCodec, text: str
    ) -> None:
        self._baseline, self._method, self._codec = baseline, method, codec
        self._tool = method[TOOL]
        self._prompt_ids = codec.prompt_ids(render(self._tool.template, text))
        self._x_ids = codec.canonical(text)
        self._positions: list[int] = []
        self._drawn: list[list[list[int]]] = []
        self.num_scored = 0

    @property
    def num_positions(self) -> int:
        return len(self._positions)

    def find_positions(self) -> None:
        [open_id] = self._codec.open_ids
        p_n = self._baseline.positions(self._prompt_ids, self._x_ids, open_id)
        legal_n = self._codec.legal_positions(self._x_ids)
        self._positions = select_positions(
            p_n, legal_n, tau_s=self._tool.tau_s, k=self._tool.k
        ).tolist()

    def draw(self) -> None:
        for i in self._positions:
            prefix = [*self._prompt_ids, *self._x_ids[:i], *self._codec.open_ids]
            self._drawn.append(
                self._baseline.samples(
                    np.array(prefix, dtype=np.int32),
                    m=self._tool.m,
                    max_new_tokens=self._method.sampling.max_new_tokens,
                )
            )

    def score(self) -> None:
        for i, samples in zip(self._positions, self._drawn, strict=True):
            candidates = [pair for tokens in samples for pair in self._candidate(tokens)]
            if candidates:
                self._baseline.losses(self._x_ids, i, candidates)
                self.num_scored += len(candidates)

    def _candidate(self, tokens: list[int]) -> Iterator[PrefixPair]:
        """The sample as the prefixes it is scored with, if it is a call with a result."""
        text = self._codec.decode_sample(tokens)
        call = None if text is None else parse_call(text, TOOL)
        if call is None:
            return
        [answer] = Calculator().run([ToolRequest(input=call.input)])
        if answer.status is ToolStatus.OK and answer.result is not None:
            yield PrefixPair(
                call_ids=self._prefix(call, ""), plus_ids=self._prefix(call, answer.result)
            )

    def _prefix(self, call: ApiCall, result: str) -> Ids:
        return self._codec.encode_pieces(pieces_with_result(call, result))
