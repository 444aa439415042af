"""The method on a scripted engine: every number here was written by hand."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from pipeline.execution import distinct_requests, record_results
from pipeline.method import Method
from pipeline.prepare import prepare
from pipeline.reading import SourceDocument
from pipeline.sampling import sample_calls
from pipeline.scoring import score_calls
from tests.pipeline.letters import ScriptedEngine, letter_codec, letter_method
from tools.base import ToolRequest, ToolResult

CODEC = letter_codec()
TEXT = "So 3 + 4 = 7 here and 1 + 1 = 2 there."
SEVEN = TEXT.index(" 7") + 1  # as a position: tokens begin with the space before the text


def document(text: str, doc_id: str = "d", url: str | None = None) -> SourceDocument:
    return SourceDocument(
        doc_id=doc_id, text=text, url=url, date_download=None, language="en", dropped=None
    )


def never(text: str, position: int) -> float:
    return 1e-6


def only_at(*positions: int, p: float = 0.9) -> Callable[[str, int], float]:
    return lambda text, position: p if position in positions else 1e-6


def always(*calls: str) -> Callable[[str, int], Sequence[str]]:
    return lambda text, position: calls


def flat_loss(nats: float) -> Callable[[str, str, int], float]:
    return lambda z, text, position: nats


def run(
    engine: ScriptedEngine,
    method: Method,
    answers: Callable[[ToolRequest], ToolResult],
    text: str = TEXT,
) -> dict[str, Any]:
    unit = prepare([document(text)], "u", method, CODEC)
    unit = sample_calls(unit, method, CODEC, engine)
    results = {
        tool: {request: answers(request) for request in requests}
        for tool, requests in distinct_requests(unit).items()
    }
    unit = record_results(unit, results, CODEC, max_result_tokens=method.max_result_tokens)
    (row,) = score_calls(unit, method, CODEC, engine).to_pylist()
    return dict(row)


def test_positions_are_where_the_call_would_stand_in_the_text() -> None:
    engine = ScriptedEngine(
        CODEC, p_api=only_at(SEVEN), samples=always("x]", "y]"), loss=flat_loss(2.0)
    )
    row = run(engine, letter_method(), lambda _: ToolResult.empty("nothing"))
    (position,) = row["positions"]
    assert TEXT[position["byte_offset"] :].startswith(" 7")
    assert position["p_api"] == pytest.approx(0.9)
    assert position["loss_empty"] == pytest.approx(2.0)


def test_samples_that_do_not_end_or_parse_are_counted_and_no_candidates() -> None:
    written = ("Calculator(3 + 4)]", "Calculator(3 + 4)]", "Calculator(3", "Calendar()]", "7]")
    engine = ScriptedEngine(
        CODEC, p_api=only_at(SEVEN), samples=always(*written), loss=flat_loss(2.0)
    )
    row = run(engine, letter_method(m=5), lambda _: ToolResult.ok("7"))
    (position,) = row["positions"]
    assert (position["drawn"], position["not_ended"], position["not_parsed"]) == (5, 1, 2)
    (call,) = row["calls"]
    assert (call["input"], call["samples"]) == ("3 + 4", 2)


def test_the_three_losses_are_of_the_three_prefixes() -> None:
    losses = {"": 3.0, " [Calculator(3 + 4) ->]": 2.5, " [Calculator(3 + 4) -> 7]": 0.25}
    engine = ScriptedEngine(
        CODEC,
        p_api=only_at(SEVEN),
        samples=always("Calculator(3 + 4)]", "Calculator(3 + 4)]"),
        loss=lambda z, text, position: losses[z],
    )
    (call,) = run(engine, letter_method(), lambda _: ToolResult.ok("7"))["calls"]
    assert call["loss_empty"] == pytest.approx(3.0)
    assert call["loss_call"] == pytest.approx(2.5)
    assert call["loss_plus"] == pytest.approx(0.25)
    assert call["gain"] == pytest.approx(2.25)


def test_the_loss_with_the_call_is_skipped_exactly_where_it_cannot_matter() -> None:
    engine = ScriptedEngine(
        CODEC,
        p_api=only_at(SEVEN),
        samples=always("Calculator(3 + 4)]", "Calculator(3 + 4)]"),
        loss=lambda z, text, position: 1.0 if z == "" else 0.75,
    )
    (call,) = run(engine, letter_method(smallest_tau_f=0.5), lambda _: ToolResult.ok("7"))["calls"]
    assert call["loss_plus"] == pytest.approx(0.75)
    assert call["loss_call"] is None
    assert call["gain"] is None
    everything = letter_method(smallest_tau_f=0.5, exact_reductions=False)
    (call,) = run(engine, everything, lambda _: ToolResult.ok("7"))["calls"]
    assert call["gain"] == pytest.approx(0.0)


def test_a_position_whose_loss_is_below_every_threshold_is_not_sampled() -> None:
    engine = ScriptedEngine(
        CODEC,
        p_api=only_at(SEVEN),
        samples=always("Calculator(1 + 1)]", "Calculator(1 + 1)]"),
        loss=flat_loss(0.4),
    )
    row = run(engine, letter_method(smallest_tau_f=0.5), lambda _: ToolResult.ok("2"))
    (position,) = row["positions"]
    assert position["pruned"] and position["drawn"] == 0
    assert engine.sampled_at == [] and row["calls"] == []
    row = run(engine, letter_method(exact_reductions=False), lambda _: ToolResult.ok("2"))
    assert not row["positions"][0]["pruned"] and len(row["calls"]) == 1


def test_equal_calls_at_several_positions_are_scored_in_one_request() -> None:
    engine = ScriptedEngine(
        CODEC,
        p_api=only_at(SEVEN, SEVEN + 5),
        samples=always("Calculator(3 + 4)]", "Calculator(3 + 4)]"),
        loss=lambda z, text, position: {"": 3.0}.get(z, 1.0),
    )
    row = run(engine, letter_method(), lambda _: ToolResult.ok("7"))
    assert len(row["calls"]) == 2
    with_result = [z for z, _, _ in engine.scored if z.endswith("-> 7]")]
    assert len(with_result) == 2 and len(set(with_result)) == 1


def test_calls_without_a_result_are_kept_as_data_and_not_scored() -> None:
    engine = ScriptedEngine(
        CODEC,
        p_api=only_at(SEVEN),
        samples=always("Calculator(3)]", "Calculator(3)]"),
        loss=flat_loss(3.0),
    )
    (call,) = run(engine, letter_method(), lambda _: ToolResult.invalid("no operator"))["calls"]
    assert (call["status"], call["error"], call["loss_plus"]) == ("invalid", "no operator", None)
    assert all(z == "" for z, _, _ in engine.scored)


def test_results_are_one_line_without_call_markers() -> None:
    engine = ScriptedEngine(
        CODEC,
        p_api=only_at(SEVEN),
        samples=always("Calculator(3 + 4)]", "Calculator(3 + 4)]"),
        loss=flat_loss(3.0),
    )
    (call,) = run(engine, letter_method(), lambda _: ToolResult.ok("[7] ->\n8"))["calls"]
    assert call["result"] == "(7) - 8"


def test_an_error_text_that_is_no_unicode_is_data_too() -> None:
    engine = ScriptedEngine(
        CODEC,
        p_api=only_at(SEVEN),
        samples=always("Calculator(3 + 4)]", "Calculator(3 + 4)]"),
        loss=flat_loss(3.0),
    )
    (call,) = run(engine, letter_method(), lambda _: ToolResult.failed("bad \ud800"))["calls"]
    assert (call["status"], call["error"]) == ("failed", "bad ?")


def test_a_result_of_nothing_but_white_space_is_empty() -> None:
    engine = ScriptedEngine(
        CODEC,
        p_api=only_at(SEVEN),
        samples=always("Calculator(3 + 4)]", "Calculator(3 + 4)]"),
        loss=flat_loss(3.0),
    )
    (call,) = run(engine, letter_method(), lambda _: ToolResult.ok(" \n "))["calls"]
    assert (call["status"], call["result"]) == ("empty", None)


def test_a_document_without_likely_positions_costs_only_its_position_pass() -> None:
    engine = ScriptedEngine(CODEC, p_api=never, samples=always(), loss=flat_loss(3.0))
    row = run(engine, letter_method(), lambda _: ToolResult.ok("7"))
    assert row["positions"] == [] and engine.scored == [] and row["dropped"] is None


@pytest.mark.parametrize("kind", ["P", "L(eps)", "S", "L+", "L(call)"])
def test_a_document_that_does_not_fit_into_memory_is_dropped_and_no_other(kind: str) -> None:
    texts = {"small": TEXT, "large": f"{TEXT} HUGE", "other": f"And {TEXT}"}
    losses = {"": 3.0, " [Calculator(3 + 4) ->]": 2.5, " [Calculator(3 + 4) -> 7]": 0.25}
    engine = ScriptedEngine(
        CODEC,
        p_api=lambda text, i: 0.9 if text[max(i - 1, 0) :].startswith(" 7") else 1e-6,
        samples=always("Calculator(3 + 4)]", "Calculator(3 + 4)]"),
        loss=lambda z, text, position: losses[z],
        too_large_for=[kind],
    )
    method = letter_method()
    documents = [document(text, doc_id) for doc_id, text in texts.items()]
    unit = sample_calls(prepare(documents, "u", method, CODEC), method, CODEC, engine)
    answers = {"Calculator": {ToolRequest(input="3 + 4", date=None): ToolResult.ok("7")}}
    unit = record_results(unit, answers, CODEC, max_result_tokens=100)
    rows = {row["doc_id"]: row for row in score_calls(unit, method, CODEC, engine).to_pylist()}
    assert {doc_id: row["dropped"] for doc_id, row in rows.items()} == {
        "small": None, "large": "out_of_memory", "other": None,
    }  # fmt: skip
    for doc_id in ("small", "other"):
        assert [call["gain"] for call in rows[doc_id]["calls"]] == [pytest.approx(2.25)]
    assert all(call["loss_plus"] is call["gain"] is None for call in rows["large"]["calls"])


def test_a_unit_is_read_in_groups_of_whole_documents_that_the_engine_keeps() -> None:
    texts = [f"{TEXT} {number}" for number in range(5)]
    engine = ScriptedEngine(
        CODEC,
        p_api=lambda text, i: 0.9 if i == 3 else 1e-6,
        samples=always("x]", "y]"),
        loss=flat_loss(2.0),
        # "Input: " without its last two letters is shared; the rest and both copies of x are not.
        kept_tokens=2 * (len("t: \nOutput:") + 2 * (len(texts[0]) + 1)) + 2,
    )
    method = letter_method(tools=("Calculator",))
    documents = [document(text, str(number)) for number, text in enumerate(texts)]
    unit = sample_calls(prepare(documents, "u", method, CODEC), method, CODEC, engine)
    asked = [(kind, asked) for kind, asked in engine.asked if kind != "L(eps)"]
    assert asked == [
        ("P", texts[:2]), ("S", texts[:2]),
        ("P", texts[2:4]), ("S", texts[2:4]),
        ("P", texts[4:]), ("S", texts[4:]),
    ]  # fmt: skip
    assert [len(row["positions"]) for row in unit.to_pylist()] == [1] * 5
