"""A few calls of a built dataset in their places, those with the highest gains."""

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.inspect_run import printable
from pipeline.push.parcel import shards_in
from tools.base import InputError
from tools.places import Place, open_to_read, store_errors, why

_COLUMNS = ("text", "calls")
_BATCH_ROWS = 512
_CONTEXT_BYTES = 140  # on each side
_LONGEST = 300  # bytes of a call with its result


@dataclass(frozen=True, slots=True, order=True)
class SampleCall:
    """A call of C* with the text around it, in one line. Compares by gain, earlier ones first."""

    gain: float
    order: int  # the later, the less
    tool: str = field(compare=False)
    excerpt: str = field(compare=False)


def sample_calls(directory: Place, *, tools: Iterable[str], of_each: int) -> list[SampleCall]:
    """The calls with the highest gains of each tool, by tool. A few rows are in memory at a time.

    Raises:
        InputError: a shard cannot be read.
    """
    best: dict[str, list[SampleCall]] = {tool: [] for tool in tools}
    seen = 0
    for row in _rows(directory):
        for call in row["calls"]:
            seen += 1
            mine = best[call["tool"]]
            if len(mine) < of_each or (call["gain"], -seen) > (mine[0].gain, mine[0].order):
                heapq.heappush(mine, _sample(row["text"], call, order=-seen))
                if len(mine) > of_each:
                    heapq.heappop(mine)
    return [sample for mine in best.values() for sample in sorted(mine, reverse=True)]


def _sample(text: str, call: dict[str, Any], *, order: int) -> SampleCall:
    data, start, end = text.encode(), call["byte_start"], call["byte_end"]
    inside = data[start:end]
    if len(inside) > _LONGEST:
        inside = inside[:_LONGEST] + b"..."
    pieces = (
        data[max(0, start - _CONTEXT_BYTES) : start],
        inside,
        data[end : end + _CONTEXT_BYTES],
    )
    excerpt = "".join(piece.decode(errors="ignore") for piece in pieces)
    return SampleCall(
        gain=call["gain"],
        order=order,
        tool=call["tool"],
        excerpt=" ".join(printable(excerpt).split()),
    )


def _rows(directory: Place) -> Iterator[dict[str, Any]]:
    try:
        for shard in shards_in(directory):
            with (
                store_errors(shard),
                open_to_read(shard) as file,
                pq.ParquetFile(file) as parquet,
            ):
                for batch in parquet.iter_batches(_BATCH_ROWS, columns=_COLUMNS):
                    yield from batch.to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{directory}: cannot be read: {why(error)}; build again") from None
