"""Tools that a text must not call: their names are never finished, and others take their place."""

import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from pipeline.engines.generation import Choosing, Step
from tests.training.generate.reciting import CODEC, OPEN_ID, Babbling, Reciting, tokens
from tests.training.generate.written import (
    ANSWERED,
    PROMPT,
    TOOLS,
    Answers,
    Pieces,
    write,
    write_with,
)
from training.generate.brackets import Bracket, WrittenCall, read_bracket
from training.generate.params import GenerationParams
from training.generate.splicing import up_to_arrow
from training.generate.tool_names import ToolNames, may_become
from training.generate.writer import TAKEN_BACK_PER_CALL

SEARCH = (" [", "WikiSearch(x)", " ->", " 3", "]")
QA = (" [", "QA(x)", " ->", " 3", "]")
NO_SEARCH = ("WikiSearch",)


def test_a_call_of_a_forbidden_tool_names_another() -> None:
    texts = [" of", *SEARCH, " was"], [" of", *QA, " is"]
    assert write(*texts).text == " of was"
    written = write(*texts, without_tools=NO_SEARCH)
    assert written.generation.annotated == " of [QA(x) -> 3] is"
    assert written.generation.taken_back == 0
    assert write(*texts, without_tools=("QA", "MT")).text == " of was"


@pytest.mark.parametrize("trigger", [False, True])
@pytest.mark.parametrize(
    "instead", [[" [", "1", "]"], [" [", "Nobody(x)", " ->", "]"], [" [", "QA", "]"], []]
)
def test_where_no_other_is_named_the_bracket_is_taken_back(
    trigger: bool, instead: list[str]
) -> None:
    search, on = [" of", *SEARCH, " was"], [" of", " them", *ANSWERED, " is"]
    texts = [on, search] if trigger else [search, on]
    written = write(*texts, [" of", *instead, " it"], without_tools=NO_SEARCH)
    assert written.generation.annotated == " of them [Calculator(1 + 2) -> 3] is"
    assert written.generation.taken_back == 1
    assert written.generation.calls[0].started.offset == len(" of them")


def test_the_argument_of_a_forbidden_call_is_never_written() -> None:
    written = write([*SEARCH], [" is"], without_tools=NO_SEARCH)
    assert written.text == " is"
    decoded = [" [", "WikiSearch", "(", "the end, for the name", " is", "the end"]
    assert written.generation.cost.decoded_tokens == len(decoded)


def test_names_that_begin_alike_are_told_apart_where_they_differ() -> None:
    texts: list[Pieces] = [[" [", b"Calculator(1) ->"], [" [", b"Calendar() ->"]]
    assert write(*texts).answers.asked[0][0] == "Calculator(1)"
    written = write(*texts, without_tools=("Calculator",))
    assert written.answers.asked[0][0] == "Calendar()"
    single = [choosing for _, choosing in written.engine.asked if choosing.max_new_tokens == 1]
    assert [sorted(CODEC.token_bytes(sorted(each.banned_ids))) for each in single[:4]] == [
        [b"Calculator"], [], [], [b"c", b"cu", b"culator"]  # "C", "Ca" and "Cal" begin both
    ]  # fmt: skip


def test_a_call_that_is_named_otherwise_is_no_longer_than_others() -> None:
    texts: list[Pieces] = [[" [", b"Calculator(1) ->"], [" [", b"Calendar() ->"], [" is"]]
    most = len("Calendar() ->")
    for max_call_tokens, text in ((most, "Calendar()"), (most - 1, None)):
        limits: dict[str, Any] = {"max_call_tokens": max_call_tokens, "without_tools": TOOLS[:1]}
        asked = [written for written, _, _ in write(*texts, **limits).answers.asked]
        assert asked == [text] * (text is not None)


def test_nothing_changes_where_no_forbidden_tool_is_named() -> None:
    texts = [" of", *ANSWERED, " is"], [" of", *SEARCH, " was"]
    with_all, without = write(*texts), write(*texts, without_tools=NO_SEARCH)
    assert without.engine.asked == with_all.engine.asked
    assert without.generation.annotated == with_all.generation.annotated


def test_a_name_is_forbidden_as_a_whole() -> None:
    names = ToolNames(("QA", "QA2"), [b"QA", b"QA2", b"QA(", b"Q", b"", b"(", b"2", b"QA(x"])
    assert names.leading_to(("QA",), b"") == {2, 7}
    assert names.leading_to(("QA",), b"QA") == {5}
    assert names.leading_to(("QA", "QA2"), b"") == {0, 1, 2, 3, 7}
    assert names.leading_to(("QA",), b"QA2") == names.leading_to((), b"") == frozenset()
    assert may_become(("QA",), b"Q") and not may_become(("QA",), b"QA(")
    assert read_bracket(b"QA(", ("QA",)) is Bracket.FORBIDDEN
    assert read_bracket(b"QA2(", ("QA",)) is read_bracket(b"QA", ("QA",)) is Bracket.UNDECIDED


def test_what_is_no_name_is_refused() -> None:
    with pytest.raises(ValidationError, match="'Wiki Search' is not a tool name"):
        GenerationParams(without_tools=("Wiki Search",))


class Drawing(Reciting):
    """Half of what it draws after " [" is WikiSearch, a quarter QA, and a quarter MT."""

    def next_step(self, ids: list[int], choosing: Choosing) -> Step:
        if ids[-1] != OPEN_ID:
            return super().next_step(ids, choosing)
        likely = tokens(["WikiSearch", "WikiSearch", "QA", "MT"])
        left = [token_id for token_id in likely if token_id not in choosing.banned_ids]
        number = random.Random(f"{choosing.seed} {len(ids)}").random()
        return Step(left[int(number * len(left))])


def test_the_other_tools_are_drawn_as_often_as_the_model_prefers_them() -> None:
    texts = [[*PROMPT, " [", f"{tool}(x)", " ->"] for tool in ("WikiSearch", "QA", "MT")]
    asked = []
    for seed in range(200):
        params: dict[str, Any] = {"temperature": 1.0, "seed": seed, "without_tools": NO_SEARCH}
        asked += [
            text for text, _, _ in write_with(Drawing(texts), Answers(), **params).answers.asked
        ]
    assert len(asked) == 200
    assert 70 < asked.count("QA(x)") < 130  # 100 would be half, 7 is a standard deviation


BABBLE = (" [", "Calculator", "Calendar", "QA", "C", "a", "l", "(", "1", ")", " ->", "]", " a")
OFTEN = {" [": "Calculator", "Calculator": "(", "Calendar": "(", "QA": "(", "1": ")", ")": " ->"}


@settings(deadline=None, max_examples=150)
@given(
    seed=st.integers(0, 10**6),
    without=st.lists(st.sampled_from(TOOLS), unique=True, max_size=4),
    api_top_k=st.integers(1, 5),
    max_call_tokens=st.integers(1, 12),
)
def test_it_is_what_decoding_token_by_token_gives(
    seed: int, without: list[str], api_top_k: int, max_call_tokens: int
) -> None:
    engine = Babbling(BABBLE, OFTEN, seed)
    params: dict[str, Any] = {"api_top_k": api_top_k, "max_call_tokens": max_call_tokens}
    written = write_with(
        engine, Answers(), max_new_tokens=12, without_tools=tuple(without), **params
    )
    annotated, taken_back = one_by_one(engine, without, api_top_k, max_call_tokens)
    assert (written.generation.annotated, written.generation.taken_back) == (annotated, taken_back)
    assert not {ended.started.call.tool for ended in written.generation.calls} & set(without)


def one_by_one(
    engine: Babbling, without: Sequence[str], k: int, max_call_tokens: int
) -> tuple[str, int]:
    """The text with its one call, and how often " [" was taken back, in the plainest way."""
    ids, new, plain, taken_back, banned_here, called = tokens(PROMPT), b"", 0, 0, False, False
    waiting: list[int] = []  # what stood in a bracket that is plain text
    while plain < 12:
        banned = frozenset({OPEN_ID} if called or banned_here else ())
        may = not banned and taken_back < TAKEN_BACK_PER_CALL
        choosing = choose_one(banned_ids=banned, trigger_id=OPEN_ID if may else None, trigger_k=k)
        step = Step(waiting.pop(0)) if waiting else engine.next_step(ids, choosing)
        banned_here = False
        if step.token_id == 0:
            break
        if step.token_id != OPEN_ID:
            ids, new, plain = [*ids, step.token_id], new + spelt([step.token_id]), plain + 1
            continue
        after, read = bracket(engine, ids, max_call_tokens, ())
        own = not step.triggered
        if any(spelt(after).startswith(f"{tool}(".encode()) for tool in without):
            after, read = bracket(engine, ids, max_call_tokens, without)
            own = False
            if isinstance(read, WrittenCall) and read.call.tool not in TOOLS:
                read = Bracket.NO_CALL
        if isinstance(read, WrittenCall):
            called = True
            ids = [*ids, OPEN_ID, *up_to_arrow(after, read, CODEC), *tokens([" 3", "]"])]
            new += f" [{read.text} -> 3]".encode()
        elif own:
            ids, new, plain, waiting = [*ids, OPEN_ID], new + b" [", plain + 1, after
        else:
            taken_back, banned_here = taken_back + 1, True
    return new.decode(), taken_back


def choose_one(**how: Any) -> Choosing:
    return Choosing(max_new_tokens=1, **how)


def bracket(
    engine: Babbling, ids: list[int], most: int, without: Sequence[str]
) -> tuple[list[int], Bracket | WrittenCall]:
    after: list[int] = []
    while len(after) < most:
        doomed = {
            token_id
            for token_id in tokens(BABBLE)
            if may_be(spelt([*after, token_id]), without)
            and not may_be(spelt([*after, token_id]), set(TOOLS) - set(without))
        }
        step = engine.next_step([*ids, OPEN_ID, *after], choose_one(banned_ids=frozenset(doomed)))
        after.append(step.token_id)
        read = Bracket.NO_CALL if step.token_id == 0 else read_bracket(spelt(after))
        if read is not Bracket.UNDECIDED:
            return after, read
    return after, Bracket.NO_CALL


def may_be(text: bytes, tools: Sequence[str] | set[str]) -> bool:
    names = [f"{tool}(".encode() for tool in tools]
    return any(text.startswith(name) or name.startswith(text) for name in names)


def spelt(ids: Sequence[int]) -> bytes:
    return b"".join(CODEC.token_bytes(ids))
