"""Where the model wants to call: a few documents with p_i of " [" at the positions it sampled."""

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.build.candidates import Candidates

HEAT_COLUMNS = ("doc_id", "text", "positions", "calls")
_MOST_BYTES = 4_000  # of a text


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """A piece of a text. `p_api` is p_i by tool of the position where the piece begins; a piece
    before the first position has none. `kept` are the tools with a kept call there.
    """

    text: str
    p_api: dict[str, float]
    kept: tuple[str, ...]

    @property
    def highest(self) -> float:
        """The highest p_i of any tool; 0 where there is none."""
        return max(self.p_api.values(), default=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatDocument:
    """A document as the model reads it: pieces that join to its text, up to 4,000 bytes of it."""

    doc_id: str
    spots: tuple[Spot, ...]
    kept: int  # positions with a kept call
    cut: bool


@dataclass(frozen=True, slots=True, order=True)
class _Ranked:
    rank: tuple[int, int, int]  # positions with kept calls, then the order of the run, reversed
    row: Mapping[str, Any] = field(compare=False)


class HeatFinder:
    """The documents with the most kept calls, `limit` of them in memory at a time."""

    def __init__(self, tau_f: Mapping[str, float], *, limit: int) -> None:
        self._tau_f, self._limit = tau_f, limit
        self._best: list[_Ranked] = []
        self._units = 0

    def add(self, unit: pa.Table, candidates: Candidates) -> None:
        """Looks through one unit, of which there are at least HEAT_COLUMNS."""
        tau_f_C = np.array([self._tau_f.get(t, np.inf) for t in candidates.tool_C], dtype=float)
        kept = np.flatnonzero(candidates.gain_C >= tau_f_C)
        places: dict[int, set[tuple[int, str]]] = {}
        for c, offset in zip(
            kept, candidates.calls.field("byte_offset").take(kept).to_pylist(), strict=True
        ):
            places.setdefault(int(candidates.row_C[c]), set()).add((offset, candidates.tool_C[c]))
        for row, kept_at in places.items():
            rank = (len({offset for offset, _ in kept_at}), -self._units, -row)
            if len(self._best) < self._limit or rank > self._best[0].rank:
                fields = unit.select(["doc_id", "text", "positions"]).slice(row, 1).to_pylist()[0]
                ranked = _Ranked(rank, fields | {"kept": kept_at})
                heapq.heappush(self._best, ranked)
                if len(self._best) > self._limit:
                    heapq.heappop(self._best)
        self._units += 1

    def found(self) -> list[HeatDocument]:
        """The documents so far, that with the most kept calls first."""
        return [_document(best.row) for best in sorted(self._best, reverse=True)]


def _document(row: Mapping[str, Any]) -> HeatDocument:
    data = row["text"].encode()
    shown = data[:_MOST_BYTES].decode(errors="ignore").encode()
    return HeatDocument(
        doc_id=row["doc_id"],
        spots=tuple(_spots(shown, row["positions"], row["kept"])),
        kept=len({offset for offset, _ in row["kept"]}),
        cut=len(shown) < len(data),
    )


def _spots(
    text: bytes, positions: list[dict[str, Any]], kept: set[tuple[int, str]]
) -> Iterator[Spot]:
    """The text cut at every position: the word, or part of one, that begins there, and the rest."""
    p_api: dict[int, dict[str, float]] = {}
    for position in positions:
        tool, offset, p = position["tool"], position["byte_offset"], position["p_api"]
        if offset < len(text):  # the first two positions of a text may have the same offset
            of_tool = p_api.setdefault(offset, {})
            of_tool[tool] = max(p, of_tool.get(tool, 0.0))
    offsets = sorted(p_api)
    yield Spot(text=_decoded(text[: offsets[0] if offsets else None]), p_api={}, kept=())
    for start, end in pairwise([*offsets, len(text)]):
        space, word, rest = _first_word(_decoded(text[start:end]))
        kept_here = tuple(sorted(tool for offset, tool in kept if offset == start))
        spot = Spot(text=word, p_api=dict(sorted(p_api[start].items())), kept=kept_here)
        yield from (Spot(text=space, p_api={}, kept=()), spot, Spot(text=rest, p_api={}, kept=()))


def _first_word(piece: str) -> tuple[str, str, str]:
    """The white space before the first word of `piece`, the word, the rest; white space alone
    counts as a word.
    """
    words = piece.split(maxsplit=1)
    start = len(piece) - len(piece.lstrip()) if words else 0
    end = start + len(words[0]) if words else len(piece)
    return piece[:start], piece[start:end], piece[end:]


def _decoded(data: bytes) -> str:
    return data.decode(errors="replace")
