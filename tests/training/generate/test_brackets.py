import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from tools.calls import CLOSE, OPEN, ApiCall, parse_call, pieces_with_result
from training.generate.brackets import Bracket, WrittenCall, read_bracket

UNDECIDED, NO_CALL = Bracket.UNDECIDED, Bracket.NO_CALL

names = st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,9}", fullmatch=True)
characters = st.sampled_from("ab 3+(),\"'-> \r[é東🙂\u0301") | st.characters(
    exclude_categories=["Cs"]
)
inputs = st.text(characters)
# What stands in documents: letters, brackets, arrows, bytes that are half a character.
pieces = st.sampled_from([b"QA", b"(", b")", b" ", b"->", b" ->", b"]", b"[", b" [", b"\n", b"1"])
byte_texts = st.lists(pieces | st.binary(max_size=3)).map(b"".join)


def first_decision(after: bytes) -> Bracket | WrittenCall:
    """What is read when the bytes come one by one, and nobody looks on after a decision."""
    read: Bracket | WrittenCall = UNDECIDED
    for end in range(len(after) + 1):
        read = read_bracket(after[:end])
        if read is not UNDECIDED:
            return read
    return read


@settings(deadline=None)
@given(byte_texts)
@example(b"QA(a ->b")
@example(b"QA(\xc3 ->")
@example(b"QA\n(a) ->")
def test_bytes_in_any_pieces_are_read_as_one_by_one(after: bytes) -> None:
    assert read_bracket(after) == first_decision(after)


@settings(deadline=None)
@given(names, inputs, inputs)
def test_every_call_that_can_stand_in_a_dataset_is_found(
    name: str, argument: str, result: str
) -> None:
    call = ApiCall(tool=name, input=argument)
    assume(parse_call(str(call), name) == call and CLOSE not in argument)  # annotation keeps it
    opened, after = "".join(pieces_with_result(call, result)).encode().split(OPEN.encode(), 1)
    assert not opened
    read = first_decision(after)
    assert read == WrittenCall(str(call))
    assert read.is_valid and read.call == call


@pytest.mark.parametrize(
    "after",
    ["", "Q", "QA", "QA(", "QA(who", "QA(who)", "QA(who) ", "QA(who) -", "QA(a (b) c)", "QA(a->b)"],
)
def test_the_beginning_of_a_call_is_undecided(after: str) -> None:
    assert read_bracket(after.encode()) is UNDECIDED


@pytest.mark.parametrize(
    "after",
    [
        "1]",
        "1",
        "sic]",
        "(",
        "_QA(",
        "see QA(",
        "QA (who",
        "QA]",
        "QA(who)]",
        "QA(\nwho) ->",
        "QA\n",
        "QA(a [b) ->",
        "QA ->",
        " ->",
        " QA(who) ->",
        "Qé(who) ->",
    ],
)
def test_what_is_no_call(after: str) -> None:
    assert read_bracket(after.encode()) is NO_CALL


def test_half_a_character_decides_nothing_until_the_call_is_whole() -> None:
    e = "é".encode()
    assert read_bracket(b"QA(" + e[:1]) is UNDECIDED
    assert read_bracket(b"QA(" + e + b") ->") == WrittenCall("QA(é)")
    assert read_bracket(b"QA(" + e[:1] + b") ->") is NO_CALL


def test_a_call_ends_at_its_first_arrow() -> None:
    assert read_bracket(b"QA(a) -> b ->") == WrittenCall("QA(a)")
    assert read_bracket(b"QA(a) ->]") == WrittenCall("QA(a)")


@pytest.mark.parametrize("text", ["QA(a -> b)", "QA(a", "QA(a) b", "QA(a->b)"])
def test_a_written_call_need_not_be_valid(text: str) -> None:
    read = read_bracket(f"{text} ->".encode())
    assert isinstance(read, WrittenCall)
    assert not read.is_valid
    assert read.call.tool == "QA"
    assert read.call.input.startswith("a")
