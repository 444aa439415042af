"""The build: two passes over the committed units, one unit in memory at a time."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.build.candidates import Candidates, Fate, candidates_of, decide, read_units
from pipeline.build.cap import ExampleCap
from pipeline.build.merge import AugmentedDocument, KeptCall, PlainDocument, merge
from pipeline.build.shards import SHARD_ROWS, replacing
from pipeline.build.summary import BuildSummary, Counts
from pipeline.config import RunConfig
from pipeline.tokens import TokenCodec
from tools.atomic import write_text_atomically
from tools.base import ConfigError, InputError
from tools.calls import ApiCall
from tools.places import Place

BUILD_MARK = "build.json"


def build(
    unit_files: Sequence[Place],
    config: RunConfig,
    codec: TokenCodec,
    out: Place,
    *,
    tau_f: float | Mapping[str, float] | None = None,
    shard_rows: int = SHARD_ROWS,
) -> BuildSummary:
    """Writes C* to out/dataset, C to out/dataset_plain and the summary to out/build.json.

    Documents without a kept call are in neither. `tau_f` overrides the configured thresholds,
    of all tools or of those named. build.json is written last: while it stands, both
    directories are whole.

    Raises:
        ConfigError: an override names an unknown tool or asks for what the run did not compute.
        InputError: there is no unit, or one cannot be read.
        ContractError: a text and its calls do not fit together.
        OutputError: the dataset cannot be written.
    """
    thresholds = resolve_tau_f(config, tau_f)
    if not unit_files:
        raise InputError(f"{out}: no finished unit to build from; run annotate first")
    cap = ExampleCap(config.seed, {name: tool.max_examples for name, tool in config.tools.items()})
    for _, unit, candidates, fate_C in _decided_units(unit_files, thresholds):
        doc_ids = unit.column("doc_id").to_pylist()
        kept = np.flatnonzero(fate_C == Fate.KEPT)
        for row, tool in {(candidates.row_C[c], candidates.tool_C[c]) for c in kept}:
            cap.offer(tool, doc_ids[row])

    counts = Counts(config)
    with replacing(out, ("dataset", "dataset_plain"), mark=BUILD_MARK, shard_rows=shard_rows) as (
        augmented_writer,
        plain_writer,
    ):
        for path, unit, candidates, fate_C in _decided_units(unit_files, thresholds):
            _apply_cap(cap, unit.column("doc_id").to_pylist(), candidates, fate_C)
            counts.add_unit(unit, candidates, fate_C)
            for document in _augmented(path, unit, candidates, fate_C, codec):
                counts.add_document(document)
                augmented_writer.add(_augmented_row(document))
                plain_writer.add(_plain_row(document.source))
    summary = counts.summary(thresholds)
    write_text_atomically(out / BUILD_MARK, json.dumps(asdict(summary), indent=2) + "\n")
    return summary


def resolve_tau_f(
    config: RunConfig, override: float | Mapping[str, float] | None
) -> dict[str, float]:
    """tau_f of every tool.

    Raises:
        ConfigError: an unknown tool, no number >= 0, or a threshold below the smallest one the
            run was configured for, when it skipped losses that could not matter at that one.
    """
    configured = {name: tool.tau_f for name, tool in config.tools.items()}
    if override is None:
        return configured
    chosen = override if isinstance(override, Mapping) else dict.fromkeys(configured, override)
    unknown = set(chosen) - set(configured)
    if unknown:
        raise ConfigError(
            f"tau_f: no tool {', '.join(sorted(unknown))} in this run; "
            f"it has {', '.join(sorted(configured))}"
        )
    for tool, value in chosen.items():
        if not (math.isfinite(value) and value >= 0):
            raise ConfigError(f"tau_f of {tool}: {value} is not a number >= 0")
        if config.exact_reductions and value < config.smallest_tau_f:
            raise ConfigError(
                f"tau_f of {tool}: {value} is below {config.smallest_tau_f}, the smallest this run "
                "computed all losses for; annotate again with it in report_tau_f, or with "
                "exact_reductions: false"
            )
    return configured | dict(chosen)


_Decided = tuple[Place, pa.Table, Candidates, NDArray[np.object_]]


def _decided_units(unit_files: Sequence[Place], tau_f: Mapping[str, float]) -> Iterator[_Decided]:
    columns = ("doc_id", "part", "text", "input_ids", "dropped", "calls")
    for path, unit in read_units(unit_files, columns):
        candidates = candidates_of(unit)
        yield path, unit, candidates, decide(candidates, tau_f, unit=path)


def _apply_cap(
    cap: ExampleCap,
    doc_ids: Sequence[str],
    candidates: Candidates,
    fate_C: NDArray[np.object_],
) -> None:
    for c in np.flatnonzero(fate_C == Fate.KEPT):
        if not cap.admits(candidates.tool_C[c], doc_ids[candidates.row_C[c]]):
            fate_C[c] = Fate.OVER_CAP


def _augmented(
    path: Place,
    unit: pa.Table,
    candidates: Candidates,
    fate_C: NDArray[np.object_],
    codec: TokenCodec,
) -> Iterator[AugmentedDocument]:
    """The documents of a unit that have a kept call, in the unit's order."""
    calls_of_row: dict[int, list[KeptCall]] = {}
    for c in np.flatnonzero(fate_C == Fate.KEPT):
        call = candidates.calls[int(c)].as_py()
        calls_of_row.setdefault(int(candidates.row_C[c]), []).append(
            KeptCall(
                call=ApiCall(tool=call["tool"], input=call["input"]),
                position=call["position"],
                result=call["result"],
                gain=call["gain"],
            )
        )
    for row, calls in sorted(calls_of_row.items()):
        source = PlainDocument(
            doc_id=unit.column("doc_id")[row].as_py(),
            text=unit.column("text")[row].as_py(),
            input_ids=unit.column("input_ids")[row].values.to_numpy(),
        )
        yield merge(source, calls, codec)


def _augmented_row(document: AugmentedDocument) -> dict[str, Any]:
    return _plain_row(document.source) | {
        "text": document.text,
        "input_ids": document.input_ids,
        "calls": [
            {
                "tool": kept.call.tool,
                "input": kept.call.input,
                "result": kept.result,
                "byte_start": start,
                "byte_end": end,
                "gain": kept.gain,
            }
            for kept, (start, end) in zip(document.calls, document.spans, strict=True)
        ],
    }


def _plain_row(source: PlainDocument) -> dict[str, Any]:
    return {
        "doc_id": source.doc_id,
        "text": source.text,
        "input_ids": source.input_ids,
        "calls": [],
        "source_text_hash": source.text_hash,
    }
