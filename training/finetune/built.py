"""The datasets of a built run: its documents, and where their calls stand in their tokens."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.build.merge import without_spans
from pipeline.push.parcel import shards_in
from pipeline.schemas import DATASET, conform
from pipeline.tokens import TokenCodec, stripped_span
from tools.base import ContractError, InputError
from tools.places import Place, open_to_read, store_errors, why

_BATCH_ROWS = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltDocument:
    """A row of a dataset. `calls` are its calls as DATASET has them, in the order of the text."""

    doc_id: str
    text: str
    input_ids: NDArray[np.int32]
    calls: list[dict[str, Any]]
    text_hash: str  # blake2b-128 of the text without calls


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedCall:
    """A call of `tool` as tokens [start, end) of its document."""

    tool: str
    start: int
    end: int


def read_documents(directory: Place, *, documents: int) -> Iterator[BuiltDocument]:
    """The rows of a dataset in their order, a few hundred in memory at a time.

    Raises:
        InputError: a shard is missing, torn or without a column, or there are not as many
            `documents` as were built.
    """
    seen = 0
    for table in _tables(directory, DATASET.names):
        ids = table.column("input_ids").combine_chunks()
        texts = (table.column(name).to_pylist() for name in ("doc_id", "text", "source_text_hash"))
        calls = table.column("calls").to_pylist()
        for j, (doc_id, text, text_hash) in enumerate(zip(*texts, strict=True)):
            yield BuiltDocument(
                doc_id=doc_id,
                text=text,
                input_ids=ids[j].values.to_numpy(),
                calls=calls[j],
                text_hash=text_hash,
            )
        seen += table.num_rows
    if seen != documents:
        raise InputError(
            f"{directory}: has {seen} documents, {documents} were built; build the run again"
        )


def read_tools(directory: Place) -> Iterator[tuple[str, set[str]]]:
    """The doc_id and the tools of the calls of each row of a dataset, in its order.

    Raises:
        InputError: as `read_documents`.
    """
    for table in _tables(directory, ["doc_id", "calls"]):
        calls = table.column("calls").to_pylist()
        for doc_id, made in zip(table.column("doc_id").to_pylist(), calls, strict=True):
            yield doc_id, {call["tool"] for call in made}


def place_calls(document: BuiltDocument, codec: TokenCodec, *, where: Place) -> list[PlacedCall]:
    """Where the calls of a document of the dataset `where` stand in its tokens, in their order.

    Raises:
        InputError: the tokens do not spell the text, or a call is no whole tokens of it.
    """
    data = document.text.encode()
    source = without_spans(
        document.text, [(call["byte_start"], call["byte_end"]) for call in document.calls]
    ).decode(errors="replace")
    start, end = stripped_span(source)
    lead, tail = len(source[:start].encode()), len(source[end:].encode())
    spelt = b" " + data[lead : len(data) - tail]
    if b"".join(codec.token_bytes(document.input_ids.tolist())) != spelt:
        raise InputError(
            f"{where}: document {document.doc_id}: its input_ids do not spell its text with the "
            "tokenizer of the model; finetune the model of the run, or one with its tokenizer"
        )
    begins = codec.byte_offsets(document.input_ids)
    placed = []
    for call in document.calls:
        first = call["byte_start"] - lead + 1
        # Before the first token a call has the space after it, and its tokens the one before.
        first -= data.startswith(b"[", call["byte_start"])
        last = first + call["byte_end"] - call["byte_start"]
        at, after = (int(k) for k in np.searchsorted(begins, (first, last)))
        if after == len(begins) or begins[at] != first or begins[after] != last:
            raise InputError(
                f"{where}: document {document.doc_id}: its call of {call['tool']} at byte "
                f"{call['byte_start']} is no whole tokens; build the run again"
            )
        placed.append(PlacedCall(tool=call["tool"], start=at, end=after))
    return placed


def _tables(directory: Place, columns: Sequence[str]) -> Iterator[pa.Table]:
    schema = pa.schema([DATASET.field(name) for name in columns])
    try:
        for shard in shards_in(directory):
            with (
                store_errors(shard),
                open_to_read(shard) as file,
                pq.ParquetFile(file) as parquet,
            ):
                there = [name for name in columns if name in parquet.schema_arrow.names]
                for batch in parquet.iter_batches(_BATCH_ROWS, columns=there):
                    yield conform(pa.Table.from_batches([batch]), schema, stage="finetune")
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{directory}: cannot be read: {why(error)}; build again") from None
    except ContractError as error:
        raise InputError(f"{directory}: not written by a build: {error}; build again") from None
