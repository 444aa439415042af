"""Executing the sampled calls of a unit (section 2, Executing API Calls)."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from pipeline.schemas import IN_FLIGHT
from pipeline.tokens import TokenCodec
from tools.base import ToolRequest, ToolResult
from tools.calls import sanitize_result

_SENTENCE_END = re.compile(r"[.!?](?=\s)")


def distinct_requests(unit: pa.Table) -> dict[str, list[ToolRequest]]:
    """What to ask each tool about a unit: every different request once, in order."""
    requests: dict[str, dict[ToolRequest, None]] = {}
    for row in unit.select(["date", "calls"]).to_pylist():
        for call in row["calls"]:
            if call["dropped"] is not None:
                continue
            request = ToolRequest(input=call["input"], date=row["date"])
            requests.setdefault(call["tool"], {})[request] = None
    return {tool: list(distinct) for tool, distinct in requests.items()}


def record_results(
    unit: pa.Table,
    results: dict[str, dict[ToolRequest, ToolResult]],
    codec: TokenCodec,
    *,
    max_result_tokens: int,
) -> pa.Table:
    """The unit with status, result and error of every call; rows and order unchanged.

    Results are made insertable, at most `max_result_tokens` tokens long.
    """
    columns = {
        tool: {
            request: _columns(insertable(answer, codec, max_result_tokens))
            for request, answer in answers.items()
        }
        for tool, answers in results.items()
    }
    rows = unit.to_pylist()
    for row in rows:
        for call in row["calls"]:
            if call["dropped"] is None:
                request = ToolRequest(input=call["input"], date=row["date"])
                call.update(columns[call["tool"]][request])
    return pa.Table.from_pylist(rows, schema=IN_FLIGHT)


def insertable(answer: ToolResult, codec: TokenCodec, max_result_tokens: int) -> ToolResult:
    """`answer` as it can stand in a call: one line without call markers, of at most so many tokens.

    A result of which nothing is left has the status "empty". What is not text that UTF-8 can hold
    is replaced in `error` too.
    """
    if answer.result is not None:
        line = cap_result(sanitize_result(answer.result), codec.count, max_result_tokens)
        return ToolResult.ok(line) if line else ToolResult.empty("the result is blank")
    error = answer.error and answer.error.encode("utf-8", "replace").decode("utf-8")
    return replace(answer, error=error)


def _columns(answer: ToolResult) -> dict[str, Any]:
    return {"status": str(answer.status), "result": answer.result, "error": answer.error}


def cap_result(text: str, count: Callable[[str], int], max_tokens: int) -> str:
    """The longest beginning of `text` with at most `max_tokens` tokens.

    It ends at the end of a sentence, or of a word where no sentence fits, or of a character.
    """
    if count(text) <= max_tokens:
        return text
    sentences = [match.end() for match in _SENTENCE_END.finditer(text)]
    words = [match.start() for match in re.finditer(r"\s", text)]
    for ends in (sentences, words, list(range(1, len(text)))):
        fitting = _longest_fit(text, ends, count, max_tokens)
        if fitting:
            return fitting
    return ""


def _longest_fit(
    text: str, ends: Sequence[int], count: Callable[[str], int], max_tokens: int
) -> str:
    low, high = 0, len(ends)  # text[: ends[low - 1]] fits, text[: ends[high]] does not
    while low < high:
        middle = (low + high) // 2
        if count(text[: ends[middle]]) <= max_tokens:
            low = middle + 1
        else:
            high = middle
    return text[: ends[low - 1]] if low else ""
