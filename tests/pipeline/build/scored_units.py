"""Unit files written by hand, and a tokenizer whose tokens are bytes.

Token ids are byte values, but 256 for " [" and 257 for " ->". So position i of a text without
these two is byte i - 1 of it (the space before the text is token 0).
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from pipeline.config import RunConfig
from pipeline.report.calls import SCORED_CALLS, CallFilter, CallQuery, ShownCall, find_calls
from pipeline.schemas import SCORED
from pipeline.tokens import TokenCodec

TODAY = "Today is Monday, January 30, 2023."
TEXT_A = "In 2023, 3 + 4 is 7."
TEXT_B = "Café: 6 ÷ 3 = 2"


def byte_codec() -> TokenCodec:
    """The codec of the tokenizer described above."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    spelling = {byte: chr(byte) for byte in printable}
    spelling |= {byte: chr(0x100 + index) for index, byte in enumerate(others)}
    space = spelling[0x20]
    vocabulary = {character: byte for byte, character in spelling.items()}
    vocabulary |= {space + "[": 256, space + "->": 257, "->": 258}
    merges = [(space, "["), ("-", ">"), (space, "->")]
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    return TokenCodec(tokenizer, bos_id=0, eos_id=0, name="bytes")


def run_config(**changes: Any) -> RunConfig:
    """A run with Calculator (tau_f 0.5) and Calendar (tau_f 1.0)."""
    settings: dict[str, Any] = {
        "run": "runs/test",
        "input": "documents",
        "model": {"path": "model"},
        "tools": {"Calculator": None, "Calendar": None},
    }
    return RunConfig.model_validate(settings | changes)


def candidate(
    tool: str,
    position: int,
    text: str = "",
    result: str | None = None,
    *,
    status: str | None = "ok",
    empty: float | None = 3.0,
    call: float | None = 3.0,
    plus: float | None = None,
) -> dict[str, Any]:
    """A CANDIDATE whose gain follows from its losses."""
    known = empty is not None and call is not None and plus is not None
    return {
        "tool": tool,
        "position": position,
        "byte_offset": max(position - 1, 0),
        "p_api": 0.25,
        "input": text,
        "samples": 1,
        "status": status,
        "result": result,
        "error": None,
        "loss_empty": empty,
        "loss_call": call,
        "loss_plus": plus,
        "gain": min(empty, call) - plus if known else None,  # type: ignore[type-var, operator]
    }


def position(tool: str, at: int, *, drawn: int = 5, **counts: Any) -> dict[str, Any]:
    """A POSITION."""
    defaults = {"pruned": False, "not_ended": 0, "not_parsed": 0}
    place = {"tool": tool, "position": at, "byte_offset": max(at - 1, 0), "p_api": 0.25}
    return place | {"loss_empty": 3.0, "drawn": drawn} | defaults | counts


def row(
    doc_id: str,
    text: str,
    calls: list[dict[str, Any]] | None = None,
    *,
    dropped: str | None = None,
    offers: list[tuple[str, str]] | None = None,
    positions: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """A SCORED row; its tokens are those of `text`."""
    return {
        "doc_id": doc_id,
        "part": 0,
        "text": text,
        "url": None,
        "date": None,
        "language": "en",
        "dropped": dropped,
        "input_ids": byte_codec().canonical(text),
        "offers": [{"tool": tool, "reason": reason} for tool, reason in offers or ()],
        "positions": positions or [],
        "calls": calls or [],
    }


def write_unit(path: Path, rows: list[dict[str, Any]]) -> Path:
    """The rows as a committed unit file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=SCORED), path)
    return path


def two_units(directory: Path) -> list[Path]:
    """Document A with five calls of two tools, B with one; one with no good call, one dropped.

    Gains: Calculator at 18 in A 1.5 and, the same call spelt otherwise, 1.0; Calendar at 18 in A
    1.25 and at 0 in A 2.0; below its tau_f: Calculator at 9 in A, 0.25. In B Calculator 2.0.
    """
    a = row(
        "a",
        TEXT_A,
        [
            candidate("Calendar", 0, "", TODAY, plus=1.0),
            candidate("Calculator", 9, "3", "3.0", plus=2.75),
            candidate("Calculator", 18, "3+4", "7", plus=2.0),
            candidate("Calculator", 18, "3 + 4", "7", plus=1.5),
            candidate("Calendar", 18, "", TODAY, plus=1.75),
        ],
        offers=[("Calculator", "three_numbers"), ("Calendar", "url_date")],
        positions=[
            position("Calculator", 9, drawn=10, not_ended=2),
            position("Calculator", 18, drawn=10, not_parsed=1),
            position("Calculator", 19, drawn=0, pruned=True),
            position("Calendar", 0),
            position("Calendar", 18),
        ],
    )
    # "Café: 6 ÷ 3 = 2" has 17 bytes, so the last of the 18 tokens is the "2".
    b = row(
        "b",
        TEXT_B,
        [candidate("Calculator", 17, "6 / 3", "2", plus=1.0)],
        offers=[("Calculator", "cue_word")],
        positions=[position("Calculator", 17, drawn=10)],
    )
    c = row(
        "c",
        "Nothing to see.",
        [
            candidate("Calculator", 3, "1 / 0", status="invalid"),
            candidate("Calculator", 3, "2 + 2", "4", call=None, plus=2.9),  # gain < 0.1
            candidate("Calculator", 8, "9", "9", status="ok", plus=None),
            candidate("Calculator", 8, "8 + 1", status=None),
        ],
        offers=[("Calculator", "sampled")],
        positions=[position("Calculator", 3, drawn=10), position("Calculator", 8, drawn=10)],
    )
    d = row("d", "", dropped="empty_text")
    return [
        write_unit(directory / "0000000.parquet", [a, c]),
        write_unit(directory / "0000001.parquet", [d, b]),
    ]


def extreme_calls(
    unit_files: Iterable[Path],
    tau_f: Mapping[str, float],
    *,
    limit: int,
    where: CallFilter = SCORED_CALLS,
) -> tuple[list[ShownCall], list[ShownCall]]:
    """The calls with the highest gains, best first, and with the lowest, worst first.

    Raises:
        InputError: a unit cannot be read.
    """
    queries = [CallQuery(where=where, limit=limit, lowest=lowest) for lowest in (False, True)]
    highest, lowest = find_calls(unit_files, tau_f, queries)
    return highest, lowest
