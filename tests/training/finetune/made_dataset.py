"""A built run of the demo's world without a language model: its documents with their right calls.

The calls come from the world itself, the rest is real: units are committed, and pipeline.build
makes dataset/ and dataset_plain/ of them with the demo model's tokenizer.
"""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.build import build
from pipeline.config import RunConfig
from pipeline.tokens import TokenCodec
from tests.pipeline.build.scored_units import candidate, row, run_config
from tests.pipeline.made_runs import commit, planned_run
from training.world.corpus import documents_table, held_out_corpus
from training.world.document import Document

DEMO_MODEL = Path("pipeline/demo/model").resolve()
TOOLS = ("Calculator", "Calendar", "WikiSearch", "QA", "MT")
_IN_A_LONG_ONE = 8  # documents of the world, some 60 tokens each


def demo_codec() -> TokenCodec:
    """The codec of the demo model."""
    return TokenCodec.load(str(DEMO_MODEL))


def made_run(
    directory: Path, num_documents: int, *, tools: Collection[str] = TOOLS, long: int = 0
) -> Path:
    """A run in `directory`, built: `num_documents` documents "made-0000", "made-0001", ...

    Each has the calls of `tools` that help in it; those without one (one in ten, with all
    tools) are in no dataset. The first `long` are eight documents of the world in a row, some 450
    tokens without their calls.
    """
    drawn = held_out_corpus(seed=1, num_documents=num_documents + long * (_IN_A_LONG_ONE - 1))
    groups, first = [], 0
    for number in range(num_documents):
        size = _IN_A_LONG_ONE if number < long else 1
        groups.append(drawn.documents[first : first + size])
        first += size
    codec = demo_codec()
    rows = [_row(f"made-{n:04}", group, tools, codec) for n, group in enumerate(groups)]
    run = planned_run(directory, 1, unit_documents=num_documents, config=_config(directory))
    commit(run, 0, rows)
    build(run.finished_unit_files(), run.config(), codec, directory)
    return directory


def held_out(directory: Path, num_documents: int) -> Path:
    """A DOCUMENTS file in `directory`: plain documents "held-0000", ... that no `made_run` has."""
    table = documents_table(held_out_corpus(seed=2, num_documents=num_documents).documents)
    names = [f"held-{number:04}" for number in range(num_documents)]
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "held_out.parquet"
    pq.write_table(table.set_column(0, table.schema.field("doc_id"), pa.array(names)), path)
    return path


def _config(directory: Path) -> RunConfig:
    return run_config(
        run=str(directory),
        input="pipeline/demo/documents.parquet",
        model={"path": str(DEMO_MODEL)},
        tools=dict.fromkeys(TOOLS),
        max_document_tokens=100_000,
    )


def _row(
    doc_id: str, documents: Sequence[Document], tools: Collection[str], codec: TokenCodec
) -> dict[str, Any]:
    """A SCORED row of the documents as one text, every call with a gain of 2 nats."""
    text = " ".join(document.text for document in documents)
    input_ids = codec.canonical(text)
    place_n = codec.insertion_offsets(text, input_ids)
    calls, start = [], 0
    for document in documents:
        for mark in document.marks:
            if mark.right.call.tool in tools:
                offset = len(text[: start + mark.offset].encode())
                position = int(np.searchsorted(place_n, offset))
                assert place_n[position] == offset, f"{doc_id}: no token begins at byte {offset}"
                right = mark.right
                calls.append(
                    candidate(right.call.tool, position, right.call.input, right.result, plus=1.0)
                )
        start += len(document.text) + 1
    return row(doc_id, text, calls) | {"input_ids": input_ids}
