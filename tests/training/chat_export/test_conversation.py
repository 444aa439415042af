"""A document with calls becomes messages, and nothing of its text is lost or moved."""

import hashlib
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.base import InputError
from tools.calls import ApiCall, pieces_with_result
from training.chat_export.conversation import conversation, opening_length
from training.finetune.built import BuiltDocument

HERE = Path("dataset")
ASK = "Write."
Made = tuple[int, ApiCall, str]  # position in the source in characters, call, result


def document(source: str, made: list[Made]) -> BuiltDocument:
    """A row of C*: the calls, in their order, put into `source`."""
    text, end, calls = b"", 0, []
    for position, call, result in made:
        text += source[end:position].encode()
        inserted = "".join(pieces_with_result(call, result)).encode()
        span = {"byte_start": len(text), "byte_end": len(text) + len(inserted)}
        calls.append({"tool": call.tool, "input": call.input, "result": result, "gain": 1.0} | span)
        text, end = text + inserted, position
    return BuiltDocument(
        doc_id="d",
        text=(text + source[end:].encode()).decode(),
        input_ids=np.zeros(0, dtype=np.int32),
        calls=calls,
        text_hash=hashlib.blake2b(source.encode(), digest_size=16).hexdigest(),
    )


def messages_of(source: str, made: list[Made], *, ask: str = ASK) -> list[dict[str, Any]]:
    return conversation(document(source, made), ask, unquote={"QA"}, where=HERE)


texts = st.text(st.sampled_from('aB. ?!\n\r\t"[](1é東🙂\u0301\u00a0\u2028')) | st.text()
calls = st.tuples(
    st.builds(ApiCall, st.sampled_from(["Calculator", "Calendar", "QA"]), st.text(max_size=4)),
    st.sampled_from(["7", "東 (1)", ""]),
)


@st.composite
def sources_with_calls(draw: st.DrawFn) -> tuple[str, list[Made]]:
    source = draw(texts)
    positions = draw(st.lists(st.integers(0, len(source)), min_size=1, max_size=5).map(sorted))
    return source, [(position, *draw(calls)) for position in positions]


@given(sources_with_calls(), texts)
def test_the_parts_of_the_text_are_the_document_without_its_calls(
    made: tuple[str, list[Made]], ask: str
) -> None:
    source, in_it = made
    first, *others = messages_of(source, in_it, ask=ask)
    written = "".join(each["content"] for each in others if each["role"] == "assistant")
    assert source.endswith(written)
    opening = source[: len(source) - len(written)]
    assert first == {"role": "user", "content": f"{ask}\n\n{opening}" if opening else ask}
    assert len(opening) <= in_it[0][0] and (opening.strip() or not opening)


@given(sources_with_calls())
def test_every_call_stands_where_it_stood_and_is_answered_next(
    made: tuple[str, list[Made]],
) -> None:
    source, in_it = made
    messages = messages_of(source, in_it)
    assert [each["role"] for each in messages] == [
        "user", *["assistant", "tool"] * len(in_it), "assistant",
    ]  # fmt: skip
    assert "tool_calls" not in messages[0] and "tool_calls" not in messages[-1]
    at = len(source) - sum(len(e["content"]) for e in messages if e["role"] == "assistant")
    ids = set()
    for k, (position, call, result) in enumerate(in_it):
        calling, answer = messages[1 + 2 * k : 3 + 2 * k]
        at += len(calling["content"])
        assert at == position
        (told,) = calling["tool_calls"]
        assert answer == {
            "role": "tool", "name": call.tool, "tool_call_id": told["id"], "content": result,
        }  # fmt: skip
        assert (told["type"], told["function"]["name"]) == ("function", call.tool)
        if call.tool != "QA":
            assert told["function"]["arguments"] == {"input": call.input}
        assert re.fullmatch("[a-zA-Z0-9]{9}", told["id"])
        ids.add(told["id"])
    assert len(ids) == len(in_it)


def test_a_document_as_messages() -> None:
    """Two calls at one place are two turns, the second with nothing before it."""
    source = "A day. Then 3 + 4 is 7."
    made = [
        (20, ApiCall("QA", ' "What is it?"'), "seven"),
        (20, ApiCall("Calculator", '"3 + 4"'), "7"),
    ]

    def calling(content: str, number: int, tool: str, argument: str) -> dict[str, Any]:
        function = {"name": tool, "arguments": {"input": argument}}
        made = {"id": f"call0000{number}", "type": "function", "function": function}
        return {"role": "assistant", "content": content, "tool_calls": [made]}

    def answer(number: int, tool: str, content: str) -> dict[str, Any]:
        identity = {"name": tool, "tool_call_id": f"call0000{number}"}
        return {"role": "tool", "content": content} | identity

    assert messages_of(source, made) == [
        {"role": "user", "content": "Write.\n\nA day. "},
        calling("Then 3 + 4 is", 0, "QA", "What is it?"),
        answer(0, "QA", "seven"),
        calling("", 1, "Calculator", '"3 + 4"'),
        answer(1, "Calculator", "7"),
        {"role": "assistant", "content": " 7."},
    ]


@pytest.mark.parametrize(
    ("text", "position", "opening"),
    [
        ("One. Two.", 0, ""),
        ("One. Two.", 3, ""),
        ("One. Two.", 4, "One."),  # behind a sentence it is about the next
        ("One. Two.", 5, "One. "),
        ("One. Two. Three.", 9, "One. Two."),
        ("One. Two. ", 10, "One. "),
        ("A title\n\nOne two", 12, "A title\n\n"),
        ("Mr. Smith has 3 of 4.", 13, ""),
        (" \n One. Two.", 5, ""),
        ("One. One. One.", 12, "One. One. "),
        ("", 0, ""),
    ],
)
def test_the_user_has_what_is_before_the_sentence_of_the_first_call(
    text: str, position: int, opening: str
) -> None:
    assert text[: opening_length(text, position)] == opening


def test_calls_that_stand_elsewhere_are_one_line() -> None:
    row = document("3 + 4 is 7.", [(8, ApiCall("Calculator", "3 + 4"), "7")])
    row.calls[0]["byte_start"] += 1
    with pytest.raises(InputError, match=r"^dataset: document d: without its calls .* build the"):
        conversation(row, ASK, unquote=(), where=HERE)
