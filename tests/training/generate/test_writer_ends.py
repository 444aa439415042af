"""How texts end, and what holds of all of them."""

import asyncio
import datetime as dt
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.training.generate.reciting import CODEC, OPEN_ID, Babbling, Reciting, tokens
from tests.training.generate.written import (
    ANSWERED,
    CALL,
    PROMPT,
    SUM,
    Answers,
    Pieces,
    write,
    write_with,
    writer,
)
from tools.base import ToolStatus
from training.generate.events import Event, TextWritten


@pytest.mark.parametrize(
    ("pieces", "stop", "text"),
    [
        ([" one", ".", "\n", "\n", "Two"], "\n\n", " one."),  # across tokens
        ([" one", " two", " three"], " t", " one"),  # inside one
        ([" of", *CALL, " 3", "]", " is"], "Calc", " of is"),  # not inside a call
        ([" of", *CALL, " 3", "]", " is"], "f i", " o"),  # but across it
    ],
)
def test_a_stop_text_ends_plain_text(pieces: list[str], stop: str, text: str) -> None:
    written = write(pieces, stop=(stop,))
    assert written.text == text
    assert written.generation.finish_reason == "stop"


def test_nothing_is_decoded_after_a_stop_text() -> None:
    cost = write([b"one. two"], stop=(".",)).generation.cost
    assert cost.decoded_tokens == len("one.")


def test_a_character_cut_into_tokens_is_written_whole() -> None:
    smile = "🙂".encode()
    written = write([" a", smile, " b"])
    assert [e.text for e in written.events if isinstance(e, TextWritten) and "🙂" in e.text] == [
        "🙂"
    ]
    assert written.text == " a🙂 b"
    assert write([" a", smile], max_new_tokens=len(tokens([" a"])) + 2).text == " a\ufffd"


@pytest.mark.parametrize("trigger", [False, True])
def test_the_end_inside_a_bracket(trigger: bool) -> None:
    bracket, on = [" of", " [", "QA("], [" of", " them"]
    written = write(*([on, bracket] if trigger else [bracket, on]))
    assert written.text == (" of them" if trigger else " of [QA(")
    assert written.generation.finish_reason == "stop"
    assert written.generation.taken_back == trigger


def test_max_new_tokens_counts_plain_text_alone() -> None:
    pieces: Pieces = [b"ab", *ANSWERED, b"cdef"]
    written = write(pieces, max_new_tokens=4)
    assert (written.text, written.generation.finish_reason) == ("abcd", "length")
    assert write(pieces, max_new_tokens=2).generation.calls == ()


def test_a_citation_counts_as_plain_text() -> None:
    assert write([b"ab", " [", b"1]cd"], max_new_tokens=4).text == "ab [1"
    assert write([b"ab", " [", b"1]cd"], max_new_tokens=6).text == "ab [1]c"


@pytest.mark.parametrize("trigger", [False, True])
def test_a_call_that_is_too_long_is_none(trigger: bool) -> None:
    call: Pieces = [b"ab", " [", b"QA(abcdef) ->"]
    on: Pieces = [b"ab", b"cd"]
    written = write(*([on, call] if trigger else [call, on]), max_call_tokens=5)
    assert written.text == ("abcd" if trigger else "ab [QA(abcdef) ->")
    assert written.answers.asked == []
    assert write(call, max_call_tokens=13).answers.asked != []
    assert write(call, max_call_tokens=12).answers.asked == []


def test_a_full_context_ends_the_text() -> None:
    prompt = len(tokens(PROMPT))
    written = write([b"abcdef"], room=prompt + 4)
    assert (written.text, written.generation.finish_reason) == ("abcd", "length")


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_result_without_room_in_the_context_ends_the_text(missing: int) -> None:
    room = len(tokens([*PROMPT, b"ab", *ANSWERED])) + 1 - missing
    written = write([b"ab", *ANSWERED, b"cd"], room=room)
    (ended,) = written.generation.calls
    assert written.generation.finish_reason == "length"
    if missing == 2:
        assert written.text == "ab"
        assert (ended.status, ended.result) == (ToolStatus.EMPTY, "")
        assert ended.error == "the model's context has no room for the result"
        assert written.generation.cost.inserted_tokens == 0
    else:
        assert (ended.status, ended.result) == (ToolStatus.OK, "3")
        assert written.text == ("abc" if missing == 0 else "ab")


def test_a_triggered_call_that_does_not_fit_is_taken_back() -> None:
    room = len(tokens([*PROMPT, b"ab", *CALL])) - 1
    written = write([b"ab", b"cd"], [b"ab", *ANSWERED], room=room)
    assert written.text == "abcd"
    assert written.generation.taken_back == 1


def test_tools_are_told_the_date() -> None:
    monday = dt.date(2024, 7, 1)
    assert write([*ANSWERED], date=monday).answers.asked == [(str(SUM), monday, 0)]
    before = dt.datetime.now(dt.UTC).date()
    ((_, today, _),) = write([*ANSWERED]).answers.asked
    assert before <= today <= dt.datetime.now(dt.UTC).date()


def test_sampling_is_asked_of_the_engine() -> None:
    written = write([" of", *ANSWERED, " is"], temperature=0.7, top_p=0.9, seed=5)
    assert {(c.temperature, c.top_p, c.seed) for _, c in written.engine.asked} == {(0.7, 0.9, 5)}


def test_a_text_that_is_closed_leaves_no_stretch_open() -> None:
    engine = Reciting([[*PROMPT, b"abcdef"]])

    async def first() -> Event:
        async with engine.begin(100) as text:  # which sees at its end whether a stretch is open
            events = writer(text, Answers(), 100).events()
            event = await anext(events)
            await events.aclose()
            return event

    assert asyncio.run(first()) == TextWritten(text="a")


BABBLE = (" [", "Calculator", "(", "1", ")", " ->", "]", " a", "\n")
OFTEN = {" [": "Calculator", "Calculator": "(", "(": "1", "1": ")", ")": " ->"}


@settings(deadline=None)
@given(
    seed=st.integers(0, 10**6),
    max_calls=st.integers(0, 4),
    max_new_tokens=st.integers(1, 30),
    max_call_tokens=st.integers(1, 12),
    api_top_k=st.integers(0, 4),
    room=st.integers(4, 120),
    stop=st.sampled_from([(), ("a\n",), ("]", " a1")]),
)
def test_whatever_the_model_says_the_text_is_in_order(seed: int, room: int, **params: Any) -> None:
    engine = Babbling(BABBLE, OFTEN, seed)
    written = write_with(engine, Answers(), room=room, **params)  # checks what holds of every text
    generation = written.generation
    calls = [asked for asked, _, _ in written.answers.asked]
    assert len(calls) == len(set(calls)) <= (params["max_calls"] if params["api_top_k"] else 0)
    assert not any(stop in generation.text for stop in params["stop"])
    assert len(tokens([generation.text])) <= params["max_new_tokens"]
    whole = "".join(PROMPT) + generation.annotated
    for ids, choosing in engine.asked:
        if choosing.trigger_id is not None or OPEN_ID in choosing.banned_ids:  # plain text
            asked = b"".join(CODEC.token_bytes(ids)).decode()
            # What a stop text takes away may have been asked of the engine before it was whole.
            assert whole.startswith(asked) or params["stop"]
