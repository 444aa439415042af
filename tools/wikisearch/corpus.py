"""Files of pages or ready passages, read line by line, every rejected line counted with why."""

import gzip
import json
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO

from tools.base import InputError
from tools.wikisearch.kilt import parse_page
from tools.wikisearch.passages import MIN_WORDS, Passage, cut_page

_NUM_LINES_OF_ESTIMATE = 1000
_GZIP_MAGIC = b"\x1f\x8b"


@dataclass(slots=True, kw_only=True)
class ReadCounts:
    """What has been read so far. num_lines = num_pages + the sum of `skipped`.

    A ready passage (a DPR record) counts as a page of its own. `num_short_snippets` are the
    snippets under 5 words that no passage holds. `num_bytes` are bytes of the files as they are
    on disk.
    """

    num_lines: int = 0
    num_pages: int = 0
    num_passages: int = 0
    num_short_snippets: int = 0
    num_bytes: int = 0
    skipped: Counter[str] = field(default_factory=Counter)


def read_passages(paths: Sequence[Path], counts: ReadCounts) -> Iterator[Passage]:
    """The passages of all files in order; `counts` grows as they are read.

    A line is a KILT page {"wikipedia_title", "text": [paragraph, ...]} or a DPR passage
    {"title", "text": string}. A line that is neither is skipped and counted: bad_json, no_title,
    no_text (nothing readable in it), no_passage (only snippets under 5 words). Files may be
    compressed with gzip.

    Raises:
        InputError: a file is missing, torn, or gives no passage at all.
    """
    for path in paths:
        num_lines, num_passages = counts.num_lines, counts.num_passages
        skipped = counts.skipped.copy()
        for line in _lines(path, counts):
            yield from _passages_of_line(line, counts)
        if counts.num_passages == num_passages:
            reasons = counts.skipped - skipped
            raise InputError(
                f"{path}: no passage in {counts.num_lines - num_lines} lines"
                f"{_in_brackets(reasons)}; expected JSON lines with wikipedia_title and text (KILT)"
                " or title and text (DPR)"
            )


def estimate_num_passages(paths: Sequence[Path]) -> int:
    """About how many passages the files hold, by the first thousand lines of each.

    Raises:
        InputError: a file is missing or torn.
    """
    estimate = 0.0
    for path in paths:
        counts = ReadCounts()
        for line in islice(_lines(path, counts), _NUM_LINES_OF_ESTIMATE):
            _passages_of_line(line, counts)
        if counts.num_bytes:
            estimate += counts.num_passages * path.stat().st_size / counts.num_bytes
    return round(estimate)


def _passages_of_line(line: bytes, counts: ReadCounts) -> list[Passage]:
    """The passages of one line, counted; none for a line that is skipped."""
    counts.num_lines += 1
    passages, num_short, reason = _parse_line(line)
    counts.num_short_snippets += num_short
    if reason is not None:
        counts.skipped[reason] += 1
    else:
        counts.num_pages += 1
        counts.num_passages += len(passages)
    return passages


def _parse_line(line: bytes) -> tuple[list[Passage], int, str | None]:
    """The passages, the number of snippets that were too short, and why there is no passage."""
    try:
        record = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError):
        return [], 0, "bad_json"
    if not isinstance(record, dict):
        return [], 0, "bad_json"
    title = _clean(record.get("wikipedia_title", record.get("title")))
    if not title:
        return [], 0, "no_title"
    text = record.get("text")
    if isinstance(text, list) and all(isinstance(paragraph, str) for paragraph in text):
        page = parse_page(title, [_clean(paragraph) for paragraph in text])
        passages, num_short = cut_page(page)
        is_empty = not page.paragraphs
    else:
        ready = _clean(text)
        is_empty = not ready
        passages, num_short = _ready_passage(title, ready) if ready else ([], 0)
    reason = "no_text" if is_empty else None if passages else "no_passage"
    return passages, num_short, reason


def _ready_passage(title: str, text: str) -> tuple[list[Passage], int]:
    if len(text.split()) < MIN_WORDS:
        return [], 1
    return [Passage(title=title, section=(), text=text)], 0


def _clean(value: object) -> str:
    """`value` in one line if it is text, else ""."""
    if not isinstance(value, str):
        return ""
    # JSON can name half a surrogate pair, which UTF-8 and Arrow cannot hold; it becomes "?".
    return " ".join(value.encode("utf-8", "replace").decode("utf-8").split())


def _lines(path: Path, counts: ReadCounts) -> Iterator[bytes]:
    """The lines of `path` that are not blank, unpacked; `counts.num_bytes` follows the reading."""
    num_bytes_before, num_lines = counts.num_bytes, 0
    try:
        with path.open("rb") as raw:
            is_gzip = raw.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
            raw.seek(0)
            lines: IO[bytes] | gzip.GzipFile = gzip.GzipFile(fileobj=raw) if is_gzip else raw
            for line in lines:
                num_lines += 1
                counts.num_bytes = num_bytes_before + raw.tell()
                if line.strip():
                    yield line
            counts.num_bytes = num_bytes_before + raw.tell()
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise InputError(
            f"{path}: the compressed data is torn after line {num_lines}; copy the file again"
        ) from None
    except OSError as error:
        raise InputError(f"{path}: cannot read: {error.strerror or error}") from None


def _in_brackets(reasons: Counter[str]) -> str:
    if not reasons:
        return ""
    return (
        " (" + ", ".join(f"{reason} {number}" for reason, number in sorted(reasons.items())) + ")"
    )
