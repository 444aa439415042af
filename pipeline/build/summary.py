"""What a build did, counted so that every candidate and every document is accounted for."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.build.candidates import Candidates, Fate
from pipeline.build.merge import AugmentedDocument
from pipeline.config import RunConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCounts:
    """What became of the candidates of one tool.

    `candidates` is the sum of kept, below_tau_f, no_result, not_scored, duplicate_position,
    looks_ahead and over_cap. `examples` are documents of C* with a call of the tool;
    `examples_at` are those there would be at each tau_f of `report_tau_f` without max_examples.
    """

    tau_f: float
    max_examples: int
    kept: int
    below_tau_f: int
    no_result: int
    not_scored: int
    duplicate_position: int
    looks_ahead: int
    over_cap: int
    candidates: int
    examples: int
    examples_at: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildSummary:
    """What a build read and wrote; the content of build.json.

    `documents_read` is the sum of documents, documents_dropped, documents_without_calls and
    documents_over_cap. Documents are rows of the units: parts, where a long one was split. Only
    `input_documents` counts such a one once.
    """

    units: int
    input_documents: int
    documents_read: int
    documents: int  # in C* and in C
    documents_dropped: int  # before sampling, for the reasons in `dropped`
    dropped: dict[str, int]
    documents_without_calls: int  # no call passed the filter
    documents_over_cap: int  # every call that passed is of a tool that has enough documents
    calls: int
    tokens: int  # of C*
    tokens_plain: int  # of C
    tools: dict[str, ToolCounts]


class Counts:
    """Adds up a BuildSummary of a run of `config`."""

    def __init__(self, config: RunConfig) -> None:
        self._config = config
        self._documents: Counter[str] = Counter()
        self._dropped: Counter[str] = Counter()
        self._examples_at: Counter[tuple[str, float]] = Counter()
        self._fates: Counter[tuple[str, Fate]] = Counter()
        self._examples: Counter[str] = Counter()

    def add_unit(self, unit: pa.Table, candidates: Candidates, fate_C: NDArray[np.object_]) -> None:
        self._fates.update(zip(candidates.tool_C, fate_C, strict=True))
        kept = set(candidates.row_C[fate_C == Fate.KEPT])
        capped = set(candidates.row_C[fate_C == Fate.OVER_CAP]) - kept
        dropped = unit.num_rows - unit.column("dropped").null_count
        self._dropped.update(unit.column("dropped").drop_null().to_pylist())
        for tool in self._config.tools:
            mine_C = candidates.tool_C == tool
            for tau_f in self._config.report_tau_f:
                passed_C = mine_C & (candidates.gain_C >= tau_f)
                self._examples_at[tool, tau_f] += len(np.unique(candidates.row_C[passed_C]))
        self._documents.update(
            units=1,
            input=sum(part <= 1 for part in unit.column("part").to_pylist()),
            read=unit.num_rows,
            dropped=dropped,
            over_cap=len(capped),
            without_calls=unit.num_rows - dropped - len(capped) - len(kept),
        )

    def add_document(self, document: AugmentedDocument) -> None:
        self._documents.update(
            written=1,
            calls=len(document.calls),
            tokens=len(document.input_ids),
            tokens_plain=len(document.source.input_ids),
        )
        self._examples.update({kept.call.tool for kept in document.calls})

    def summary(self, tau_f: Mapping[str, float]) -> BuildSummary:
        return BuildSummary(
            units=self._documents["units"],
            input_documents=self._documents["input"],
            documents_read=self._documents["read"],
            documents=self._documents["written"],
            documents_dropped=self._documents["dropped"],
            dropped=dict(sorted(self._dropped.items())),
            documents_without_calls=self._documents["without_calls"],
            documents_over_cap=self._documents["over_cap"],
            calls=self._documents["calls"],
            tokens=self._documents["tokens"],
            tokens_plain=self._documents["tokens_plain"],
            tools={tool: self._tool_counts(tool, value) for tool, value in tau_f.items()},
        )

    def _tool_counts(self, tool: str, tau_f: float) -> ToolCounts:
        by_fate = {fate.value: self._fates[tool, fate] for fate in Fate}
        return ToolCounts(
            tau_f=tau_f,
            max_examples=self._config.tools[tool].max_examples,
            candidates=sum(by_fate.values()),
            examples=self._examples[tool],
            examples_at={str(at): self._examples_at[tool, at] for at in self._config.report_tau_f},
            **by_fate,
        )
