"""The baseline over the documents of demo_work.py: it scores the calls it samples itself."""

from collections.abc import Iterator
from contextlib import contextmanager

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
    meter = _Meter(baseline, device)
    positions = calls = 0
    with timed(device) as all_seconds:
        for text in unit["text"].to_pylist():
            annotation = _NaiveAnnotation(meter, method, codec, text)
            annotation.find_positions()
            annotation.draw()
            annotation.score()
            positions += annotation.num_positions
            calls += annotation.num_scored
    return CountedWork(
        documents=unit.num_rows,
        work=meter.work,
        seconds=meter.seconds,
        all_seconds=all_seconds,
        positions=positions,
        calls=calls,
    )


class _Meter:
    """The baseline, with its work and its seconds by kind."""

    def __init__(self, baseline: NaiveBaseline, device: str) -> None:
        self._baseline, self._device = baseline, device
        self.work = {kind: Work() for kind in KINDS}
        self.seconds = {kind: Seconds() for kind in KINDS}

    @contextmanager
    def running(self, kind: str) -> Iterator[NaiveBaseline]:
        """The baseline, for one call of this kind."""
        self._baseline.work = Work()
        with timed(self._device) as spent:
            yield self._baseline
        self.work[kind] += self._baseline.work
        self.seconds[kind] += spent


class _NaiveAnnotation:
    """One document through the baseline, step by step."""

    def __init__(self, meter: _Meter, method: Method, codec: TokenCodec, text: str) -> None:
        self._meter, self._method, self._codec = meter, method, codec
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
        with self._meter.running("position") as baseline:
            p_n = baseline.positions(self._prompt_ids, self._x_ids, open_id)
        legal_n = self._codec.legal_positions(self._x_ids)
        self._positions = select_positions(
            p_n, legal_n, tau_s=self._tool.tau_s, k=self._tool.k
        ).tolist()

    def draw(self) -> None:
        for i in self._positions:
            parts = self._prompt_ids, self._x_ids[:i], self._codec.open_ids
            prefix_ids = np.concatenate(parts).astype(np.int32)
            new_tokens = self._method.sampling.max_new_tokens
            with self._meter.running("sample") as baseline:
                drawn = baseline.samples(prefix_ids, m=self._tool.m, max_new_tokens=new_tokens)
            self._drawn.append(drawn)

    def score(self) -> None:
        for i, samples in zip(self._positions, self._drawn, strict=True):
            candidates = [pair for tokens in samples for pair in self._candidate(tokens)]
            if candidates:
                with self._meter.running("loss") as baseline:
                    baseline.losses(self._x_ids, i, candidates)
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
