"""The tables for the terminal, as text."""

from pathlib import Path

from rich.console import Console, RenderableType

from pipeline.inspect_run import inspect_table, summary_table, top_calls_table
from pipeline.report.calls import CallFilter
from pipeline.report.stats import collect_stats
from tests.pipeline.build.scored_units import (
    TEXT_A,
    candidate,
    extreme_calls,
    row,
    run_config,
    two_units,
    write_unit,
)

TAU_F = {"Calculator": 0.5, "Calendar": 1.0}


def lines(table: RenderableType, width: int = 160) -> list[str]:
    """The lines of a table, each with its white space collapsed."""
    console = Console(width=width, color_system=None, force_terminal=False)
    with console.capture() as capture:
        console.print(table)
    return [" ".join(line.split()) for line in capture.get().splitlines()]


def test_candidates_are_listed_by_gain_with_losses_and_place(tmp_path: Path) -> None:
    table = inspect_table(
        two_units(tmp_path), run_config(), limit=2, where=CallFilter(tool="Calculator")
    )
    assert lines(table)[4:8] == [
        "+2.00 3.00 1.00 yes Calculator Café: 6 ÷ 3 = [Calculator(6 / 3) -> 2]2",
        "b",
        "+1.50 3.00 1.50 yes Calculator In 2023, 3 + 4 is [Calculator(3 + 4) -> 7] 7.",
        "a",
    ]


def test_a_gain_that_cannot_matter_is_shown_as_a_bound(tmp_path: Path) -> None:
    table = inspect_table(
        two_units(tmp_path), run_config(), where=CallFilter(doc_id="c", scored=True)
    )
    assert (
        lines(table)[4]
        == "< +0.10 <= 3.00 2.90 no Calculator No [Calculator(2 + 2) -> 4]thing to see."
    )


def test_text_cannot_move_the_cursor_or_style_the_table(tmp_path: Path) -> None:
    text = "a\n\x1b[2Jb [red]c[/red]"
    calls = [candidate("Calculator", 20, "[bold]1[/bold]", "\x1b[31m2", plus=1.0)]
    unit = write_unit(tmp_path / "0.parquet", [row("x\x1b[0m", text, calls)])
    shown = lines(inspect_table([unit], run_config()))
    assert shown[4].endswith("a [2Jb [red]c[/red [Calculator([bold]1[/bold]) -> [31m2]]")
    assert not any("\x1b" in line for line in shown)


def test_long_results_and_texts_are_cut(tmp_path: Path) -> None:
    calls = [candidate("Calendar", 3, "", "r" * 500, plus=1.0)]
    unit = write_unit(tmp_path / "0.parquet", [row("a", TEXT_A + "y" * 500, calls)])
    shown = " ".join(lines(inspect_table([unit], run_config()), width=400))
    assert "r" * 90 + "...]" in shown
    assert "r" * 91 not in shown
    assert " 2023, 3 + 4 is 7." + "y" * 22 + "..." in shown


def test_the_summary_counts_each_tool(tmp_path: Path) -> None:
    config = run_config()
    table = summary_table(collect_stats(two_units(tmp_path), [], config))
    shown = [line.replace("│", "").split() for line in lines(table)]
    # documents, positions, candidates, executed, scored, tau_f, kept
    assert ["Calculator", "3", "6", "8", "7", "5", "0.5", "3"] in shown
    assert ["Calendar", "1", "2", "2", "2", "2", "1", "2"] in shown


def test_top_calls_stand_in_their_text_with_gain(tmp_path: Path) -> None:
    highest, _ = extreme_calls(
        two_units(tmp_path), TAU_F, limit=1, where=CallFilter(tool="Calculator")
    )
    assert "│ Café: 6 ÷ 3 = [Calculator(6 / 3) -> 2]2 │ +2.00 │ yes │" in lines(
        top_calls_table(highest)
    )
