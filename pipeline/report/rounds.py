"""Rounds side by side: what each model, as one finetuned on the round before, found in the texts.

A call is the same in two rounds where document, tool, place in the text and input are. Calls and
texts are compared by 8 bytes of each, hashed by Python: that holds in this process alone.
"""

from array import array
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipeline.build.candidates import Candidates
from pipeline.config import RunConfig
from pipeline.report.calls import CallFilter, CallFinder, CallQuery, ShownCall
from pipeline.report.tool_stats import ToolCounter
from pipeline.rundir import DoneMark, RunRecord
from tools.base import ToolStatus

_SHOWN_NEW = 3  # calls of each tool
_SHORT = 8  # digits of a hash

Hashes = NDArray[np.int64]  # ascending, each once


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """What a round and the one before it have in common, and what one has alone."""

    same: int
    new: int
    lost: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRound:
    """One tool in one round. Gains in nats, over the kept calls; null where there is none."""

    documents: int  # offered to the tool
    positions: int
    mean_p_api: float | None  # p_i of these positions
    calls_share: float | None  # of the samples; a model that forgets what P asks writes few
    candidates: int  # distinct calls at a position
    answered: int  # of these, with a result
    scored: int
    tau_f: float  # of the run that is reported, so that rounds compare
    kept: int  # gain >= tau_f
    kept_at: dict[str, int]
    kept_share: float | None  # of the scored
    mean_gain: float | None
    median_gain: float | None
    calls: Overlap | None  # kept calls, by their places; null in the first round


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One round: which model annotated what, and what it came to."""

    run: str
    model: str
    weights: str  # the beginning of their hash, or of the commit on the Hub
    fingerprint: str  # its beginning
    units: int
    units_planned: int
    documents: int
    texts: Overlap | None  # documents, and parts of long ones; null in the first round
    gains_from: float  # nats; gains that provably are below were not computed
    tools: dict[str, ToolRound]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """All rounds, the first one first, and some calls that the last one has found alone."""

    rounds: list[Round]
    new_calls: list[ShownCall]  # kept ones, by tool those with the highest gains


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a round found, to compare the next one with: 8 bytes for each text and kept call."""

    texts: Hashes
    kept: Mapping[str, Hashes]  # by tool

    def kept_by(self, tool: str) -> Hashes:
        return self.kept.get(tool, np.empty(0, np.int64))


class RoundCounter:
    """Adds up one round, a unit at a time, and compares it with the one before.

    `config` is that of the run which is reported: its thresholds are those of every round.
    """

    def __init__(
        self, run: str, record: RunRecord, config: RunConfig, *, planned: int, before: Found | None
    ) -> None:
        self._run, self._record, self._planned, self._before = run, record, planned, before
        tools = {name: config.tools.get(name, tool) for name, tool in record.config.tools.items()}
        self._tau_f = {name: tool.tau_f for name, tool in tools.items()}
        self._counters = {name: ToolCounter(name, tool, config) for name, tool in tools.items()}
        self._p_api = dict.fromkeys(tools, 0.0)
        self._gains = {name: array("d") for name in tools}
        self._kept = {name: array("q") for name in tools}
        self._texts = array("q")
        self._units = self._documents = 0
        queries = [CallQuery(where=CallFilter(tool=name), limit=_SHOWN_NEW) for name in tools]
        self._new = CallFinder(queries, self._tau_f)

    def add_mark(self, mark: DoneMark) -> None:
        """Counts in the documents of one unit."""
        self._units += 1
        self._documents += mark.documents

    def add(self, unit: pa.Table, candidates: Candidates) -> None:
        """Counts in one unit, of which there are at least STATS_COLUMNS and CALL_COLUMNS."""
        doc_ids = unit.column("doc_id").to_pylist()
        texts = unit.column("text").to_pylist()
        self._texts.extend(map(hash, zip(doc_ids, texts, strict=True)))
        self._add_positions(unit.column("positions").combine_chunks())
        new_C = np.zeros(len(candidates), dtype=np.bool_)
        for name, counter in self._counters.items():
            counter.add(unit, candidates)
            kept = np.flatnonzero(
                (candidates.tool_C == name) & (candidates.gain_C >= self._tau_f[name])
            )
            hashes = _hashes(doc_ids, candidates, kept)
            self._gains[name].extend(candidates.gain_C[kept])
            self._kept[name].extend(hashes)
            if self._before is not None:
                new_C[kept] = ~np.isin(hashes, self._before.kept_by(name))
        self._new.add(unit, candidates.where(new_C))

    def _add_positions(self, positions: pa.ListArray) -> None:
        flat = pc.list_flatten(positions)
        tool_P = flat.field("tool").to_numpy(zero_copy_only=False)
        p_api_P = flat.field("p_api").to_numpy(zero_copy_only=False)
        for name in self._p_api:
            self._p_api[name] += float(p_api_P[tool_P == name].sum())

    def new_calls(self) -> list[ShownCall]:
        """Of each tool the kept calls with the highest gains that the round before did not keep."""
        return [call for calls in self._new.found() for call in calls]

    def result(self) -> tuple[Round, Found]:
        """What was counted, and what the next round is compared with."""
        config, found, before = self._record.config, self._found(), self._before
        counted = Round(
            run=self._run,
            model=config.model.path,
            weights=_weights(self._record),
            fingerprint=self._record.fingerprint[:_SHORT],
            units=self._units,
            units_planned=self._planned,
            documents=self._documents,
            texts=None if before is None else _overlap(before.texts, found.texts),
            gains_from=config.smallest_tau_f if config.exact_reductions else 0.0,
            tools={
                name: replace(
                    self._tool(name),
                    calls=None
                    if before is None
                    else _overlap(before.kept_by(name), found.kept_by(name)),
                )
                for name in self._counters
            },
        )
        return counted, found

    def _found(self) -> Found:
        kept = {name: np.unique(np.frombuffer(h, np.int64)) for name, h in self._kept.items()}
        return Found(texts=np.unique(np.frombuffer(self._texts, np.int64)), kept=kept)

    def _tool(self, name: str) -> ToolRound:
        stats = self._counters[name].stats()
        gains = np.frombuffer(self._gains[name], np.float64)
        return ToolRound(
            documents=stats.documents,
            positions=stats.positions,
            mean_p_api=_ratio(self._p_api[name], stats.positions),
            calls_share=_ratio(stats.drawn - stats.not_ended - stats.not_parsed, stats.drawn),
            candidates=stats.candidates,
            answered=stats.status.get(ToolStatus.OK, 0),
            scored=stats.scored,
            tau_f=self._tau_f[name],
            kept=stats.kept,
            kept_at=stats.kept_at,
            kept_share=_ratio(stats.kept, stats.scored),
            mean_gain=round(float(gains.mean()), 4) if len(gains) else None,
            median_gain=round(float(np.median(gains)), 4) if len(gains) else None,
            calls=None,
        )


def _hashes(doc_ids: list[str], candidates: Candidates, chosen: NDArray[np.intp]) -> Hashes:
    """[len(chosen)], in their order."""
    calls = candidates.calls.take(pa.array(chosen))
    fields = (calls.field(name).to_pylist() for name in ("tool", "byte_offset", "input"))
    ids = (doc_ids[row] for row in candidates.row_C[chosen])
    return np.fromiter(map(hash, zip(ids, *fields, strict=True)), np.int64, len(chosen))


def _overlap(before: Hashes, now: Hashes) -> Overlap:
    same = len(np.intersect1d(before, now, assume_unique=True))
    return Overlap(same=same, new=len(now) - same, lost=len(before) - same)


def _weights(record: RunRecord) -> str:
    """The beginning of what identifies them: of the first kind of work, where engines differ."""
    ids = (v for key, v in record.fingerprint_of.items() if key.endswith(".weights_id"))
    return str(next(ids, "")).rpartition(":")[2][:_SHORT]


def _ratio(part: float, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None
