"""The build against documents augmented by hand."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pipeline.build import build
from pipeline.build.merge import without_spans
from pipeline.build.summary import BuildSummary
from pipeline.schemas import DATASET
from tests.pipeline.build.scored_units import (
    TEXT_A,
    TEXT_B,
    TODAY,
    byte_codec,
    candidate,
    row,
    run_config,
    two_units,
    write_unit,
)
from tools.base import ConfigError, ContractError, InputError

AUGMENTED_A = (
    f"[Calendar() -> {TODAY}] In 2023, 3 + 4 is [Calculator(3 + 4) -> 7] [Calendar() -> {TODAY}] 7."
)
AUGMENTED_B = "Café: 6 ÷ 3 =  [Calculator(6 / 3) -> 2]2"


def built(out: Path, directory: str = "dataset") -> list[dict[str, Any]]:
    """All rows of a dataset directory, shard by shard."""
    rows: list[dict[str, Any]] = []
    for shard in sorted((out / directory).iterdir()):
        table = pq.read_table(shard)
        assert table.schema.equals(DATASET)
        rows += table.to_pylist()
    return rows


def build_two_units(tmp_path: Path, **options: Any) -> BuildSummary:
    return build(two_units(tmp_path / "units"), run_config(), byte_codec(), tmp_path, **options)


def test_kept_calls_stand_where_they_were_sampled(tmp_path: Path) -> None:
    build_two_units(tmp_path)
    assert [(r["doc_id"], r["text"]) for r in built(tmp_path)] == [
        ("a", AUGMENTED_A),
        ("b", AUGMENTED_B),
    ]


def test_calls_carry_their_bytes_and_gain(tmp_path: Path) -> None:
    build_two_units(tmp_path)
    a, b = built(tmp_path)
    found = [
        (call["tool"], call["byte_start"], call["byte_end"], call["gain"]) for call in a["calls"]
    ]
    # "[Calendar() -> " and the date and "] " are 15 + 34 + 2 bytes; "In 2023, 3 + 4 is" is 17;
    # " [Calculator(3 + 4) -> 7]" is 25; " [Calendar() -> ...]" is 51.
    assert found == [
        ("Calendar", 0, 51, 2.0),
        ("Calculator", 68, 93, 1.5),
        ("Calendar", 93, 144, 1.25),
    ]
    # "é" and "÷" are two bytes each: "Café: 6 ÷ 3 = " is 16 bytes.
    assert [(c["byte_start"], c["byte_end"]) for c in b["calls"]] == [(16, 41)]
    assert b["calls"][0] | {"byte_start": 0, "byte_end": 0, "gain": 0} == {
        "tool": "Calculator", "input": "6 / 3", "result": "2", "byte_start": 0, "byte_end": 0,
        "gain": 0,
    }  # fmt: skip


def test_removing_the_spans_gives_the_source(tmp_path: Path) -> None:
    build_two_units(tmp_path)
    for augmented, source in zip(built(tmp_path), (TEXT_A, TEXT_B), strict=True):
        spans = [(call["byte_start"], call["byte_end"]) for call in augmented["calls"]]
        assert without_spans(augmented["text"], spans) == source.encode()


def test_tokens_are_the_canonical_ones_with_the_calls_between_them(tmp_path: Path) -> None:
    build_two_units(tmp_path)
    source = list(f" {TEXT_B}".encode())
    call = [256, *b"Calculator(6 / 3)", 257, *b" 2", *b"]"]
    assert built(tmp_path)[1]["input_ids"] == [*source[:17], *call, *source[17:]]


def test_plain_dataset_holds_the_same_documents_without_calls(tmp_path: Path) -> None:
    build_two_units(tmp_path)
    plain = built(tmp_path, "dataset_plain")
    assert [(r["doc_id"], r["text"], r["calls"]) for r in plain] == [
        ("a", TEXT_A, []),
        ("b", TEXT_B, []),
    ]
    assert plain[0]["input_ids"] == list(f" {TEXT_A}".encode())
    assert [r["source_text_hash"] for r in plain] == [
        r["source_text_hash"] for r in built(tmp_path)
    ]
    # printf 'In 2023, 3 + 4 is 7.' | b2sum --length 128
    assert plain[0]["source_text_hash"] == "51a2e27ccd57ae87657250096db7347e"


def test_every_candidate_and_document_is_accounted_for(tmp_path: Path) -> None:
    summary = build_two_units(tmp_path)
    assert asdict(summary) == {
        "units": 2,
        "input_documents": 4,
        "documents_read": 4,
        "documents": 2,
        "documents_dropped": 1,
        "dropped": {"empty_text": 1},
        "documents_without_calls": 1,
        "documents_over_cap": 0,
        "calls": 4,
        # a Calculator call is " [", 17 bytes, " ->", " 7", "]"; a Calendar call holds 10 and 35
        "tokens": 21 + 18 + 2 * 22 + 2 * 48,
        "tokens_plain": 21 + 18,
        "tools": {
            "Calculator": {
                "tau_f": 0.5, "max_examples": 25_000,
                "kept": 2, "below_tau_f": 2, "no_result": 2, "not_scored": 1,
                "duplicate_position": 1, "looks_ahead": 0, "over_cap": 0, "candidates": 8,
                "examples": 2, "examples_at": {"0.5": 2, "1.0": 2, "2.0": 1},
            },
            "Calendar": {
                "tau_f": 1.0, "max_examples": 25_000,
                "kept": 2, "below_tau_f": 0, "no_result": 0, "not_scored": 0,
                "duplicate_position": 0, "looks_ahead": 0, "over_cap": 0, "candidates": 2,
                "examples": 1, "examples_at": {"0.5": 1, "1.0": 1, "2.0": 1},
            },
        },
    }  # fmt: skip
    assert json.loads((tmp_path / "build.json").read_text()) == asdict(summary)


def test_tau_f_of_one_tool_is_overridden(tmp_path: Path) -> None:
    summary = build_two_units(tmp_path, tau_f={"Calendar": 1.5})
    assert summary.tools["Calendar"].kept == 1
    assert summary.tools["Calculator"].kept == 2
    assert built(tmp_path)[0]["text"] == (
        f"[Calendar() -> {TODAY}] In 2023, 3 + 4 is [Calculator(3 + 4) -> 7] 7."
    )


def test_one_tau_f_overrides_all_and_a_gain_equal_to_it_is_kept(tmp_path: Path) -> None:
    summary = build_two_units(tmp_path, tau_f=2.0)
    assert {name: tool.kept for name, tool in summary.tools.items()} == {
        "Calculator": 1,
        "Calendar": 1,
    }


def test_nothing_kept_gives_empty_datasets(tmp_path: Path) -> None:
    assert build_two_units(tmp_path, tau_f=9.0).documents == 0
    assert built(tmp_path) == built(tmp_path, "dataset_plain") == []


@pytest.mark.parametrize(
    ("tau_f", "message"),
    [
        (0.25, "tau_f of Calculator: 0.25 is below 0.5, the smallest this run computed"),
        ({"Calender": 1.0}, "no tool Calender in this run; it has Calculator, Calendar"),
        (float("nan"), "tau_f of Calculator: nan is not a number >= 0"),
    ],
)
def test_a_tau_f_that_cannot_be_answered_is_refused(
    tmp_path: Path, tau_f: float | dict[str, float], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        build_two_units(tmp_path, tau_f=tau_f)
    assert not (tmp_path / "build.json").exists()


def test_a_small_tau_f_is_answered_when_nothing_was_skipped(tmp_path: Path) -> None:
    config = run_config(exact_reductions=False)
    summary = build(two_units(tmp_path / "units"), config, byte_codec(), tmp_path, tau_f=0.25)
    assert summary.tools["Calculator"].kept == 3


def capped(tmp_path: Path, order: list[int], cap: int) -> list[dict[str, Any]]:
    """Ten documents with a Calculator call, the even ones with a Calendar call too."""
    documents = [
        row(
            f"doc{n}",
            "x is 2",
            [candidate("Calculator", 5, "1 + 1", "2", plus=1.0)]
            + [candidate("Calendar", 0, "", "Monday", plus=1.0)] * (n % 2 == 0),
        )
        for n in order
    ]
    half = len(documents) // 2
    files = [
        write_unit(tmp_path / "0.parquet", documents[:half]),
        write_unit(tmp_path / "1.parquet", documents[half:]),
    ]
    config = run_config(tools={"Calculator": {"max_examples": cap}, "Calendar": None})
    summary = build(files, config, byte_codec(), tmp_path)
    calculator = summary.tools["Calculator"]
    assert (calculator.kept, calculator.over_cap, calculator.examples) == (cap, 10 - cap, cap)
    assert summary.tools["Calendar"].examples == 5
    assert summary.documents_without_calls == 0  # though some are over the cap
    assert summary.documents + summary.documents_over_cap == summary.documents_read == 10
    return built(tmp_path)


def test_the_cap_chooses_the_same_documents_in_any_order(tmp_path: Path) -> None:
    def with_calculator(rows: list[dict[str, Any]]) -> set[str]:
        return {
            r["doc_id"] for r in rows if any(call["tool"] == "Calculator" for call in r["calls"])
        }

    forward = with_calculator(capped(tmp_path / "1", list(range(10)), 3))
    backward = with_calculator(capped(tmp_path / "2", list(range(9, -1, -1)), 3))
    assert forward == backward == {"doc0", "doc4", "doc9"}


def test_a_document_over_the_cap_of_one_tool_keeps_the_calls_of_another(tmp_path: Path) -> None:
    rows = capped(tmp_path, list(range(10)), 1)
    tools = {r["doc_id"]: [call["tool"] for call in r["calls"]] for r in rows}
    assert sum(names.count("Calculator") for names in tools.values()) == 1
    assert {doc_id for doc_id, names in tools.items() if "Calendar" in names} == {
        "doc0", "doc2", "doc4", "doc6", "doc8",
    }  # fmt: skip


def test_of_equal_gains_at_a_position_the_first_input_is_kept(tmp_path: Path) -> None:
    calls = [candidate("Calculator", 5, text, "2", plus=1.0) for text in ("2 * 1", "1 + 1", "4-2")]
    unit = write_unit(tmp_path / "0.parquet", [row("a", "x is 2", calls)])
    build([unit], run_config(), byte_codec(), tmp_path)
    assert built(tmp_path)[0]["text"] == "x is [Calculator(1 + 1) -> 2] 2"


def test_a_call_can_stand_between_the_first_space_and_the_first_word(tmp_path: Path) -> None:
    calls = [candidate("Calendar", 1, "", "Monday", plus=1.0)]
    unit = write_unit(tmp_path / "0.parquet", [row("a", "x is 2", calls)])
    build([unit], run_config(), byte_codec(), tmp_path)
    assert built(tmp_path)[0]["text"] == " [Calendar() -> Monday]x is 2"


def test_white_space_around_the_source_survives(tmp_path: Path) -> None:
    calls = [candidate("Calendar", 0, "", "Monday", plus=1.0)]
    unit = write_unit(tmp_path / "0.parquet", [row("a", "\n x is 2 \n\n", calls)])
    build([unit], run_config(), byte_codec(), tmp_path)
    assert built(tmp_path)[0]["text"] == "\n [Calendar() -> Monday] x is 2 \n\n"


def test_shards_hold_a_fixed_number_of_rows_and_the_same_bytes_every_time(tmp_path: Path) -> None:
    documents = [
        row(f"{n}", "x is 2", [candidate("Calendar", 0, "", "Monday", plus=1.0)]) for n in range(5)
    ]
    unit = write_unit(tmp_path / "0.parquet", documents)
    first, second = tmp_path / "first", tmp_path / "second"
    for out in (first, second):
        build([unit], run_config(), byte_codec(), out, shard_rows=2)
    names = ["part-00000.parquet", "part-00001.parquet", "part-00002.parquet"]
    for directory in ("dataset", "dataset_plain"):
        assert sorted(path.name for path in (first / directory).iterdir()) == names
        for name in names:
            assert (first / directory / name).read_bytes() == (
                second / directory / name
            ).read_bytes()
    rows = [pq.read_metadata(first / "dataset" / name).num_rows for name in names]
    assert rows == [2, 2, 1]
    assert [r["doc_id"] for r in built(first)] == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"text": "In 2023, 3 + 4 is 8."}, "document a: got input_ids that do not spell the text"),
        ({"input_ids": [32, 73]}, "document a: got input_ids that do not spell the text"),
    ],
)
def test_a_text_that_is_not_its_tokens_stops_the_build(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    tampered = row("a", TEXT_A, [candidate("Calculator", 18, "3 + 4", "7", plus=1.5)]) | change
    unit = write_unit(tmp_path / "0.parquet", [tampered])
    with pytest.raises(ContractError, match=message):
        build([unit], run_config(), byte_codec(), tmp_path)
    assert not (tmp_path / "dataset").exists()


def test_a_call_of_a_tool_the_run_does_not_have_stops_the_build(tmp_path: Path) -> None:
    unit = write_unit(tmp_path / "0.parquet", [row("a", TEXT_A, [candidate("QA", 3, "x", "y")])])
    with pytest.raises(ContractError, match="got calls of QA"):
        build([unit], run_config(), byte_codec(), tmp_path)


def test_a_torn_unit_is_named(tmp_path: Path) -> None:
    files = two_units(tmp_path / "units")
    files[1].write_bytes(files[1].read_bytes()[:-20])
    with pytest.raises(InputError, match=r"0000001\.parquet: cannot be read"):
        build(files, run_config(), byte_codec(), tmp_path)


def test_a_run_without_finished_units_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no finished unit to build from"):
        build([], run_config(), byte_codec(), tmp_path)
