"""Documents with p_i at the positions that were sampled."""

from pathlib import Path

from pipeline.build.candidates import candidates_of, read_units
from pipeline.report.heat import HEAT_COLUMNS, HeatDocument, HeatFinder
from tests.pipeline.build.scored_units import (
    TEXT_A,
    TEXT_B,
    candidate,
    position,
    row,
    two_units,
    write_unit,
)

TAU_F = {"Calculator": 0.5, "Calendar": 1.0}


def found(files: list[Path], limit: int = 3) -> list[HeatDocument]:
    finder = HeatFinder(TAU_F, limit=limit)
    for _, unit in read_units(files, HEAT_COLUMNS):
        finder.add(unit, candidates_of(unit))
    return finder.found()


def test_documents_with_the_most_kept_calls_come_first(tmp_path: Path) -> None:
    documents = found(two_units(tmp_path))
    # Two calls at one position of "a" count once; "c" has none that is kept.
    assert [(document.doc_id, document.kept) for document in documents] == [("a", 2), ("b", 1)]
    assert [document.doc_id for document in found(two_units(tmp_path), limit=1)] == ["a"]


def test_pieces_join_to_the_text_and_begin_at_the_positions(tmp_path: Path) -> None:
    a, b = found(two_units(tmp_path))
    assert "".join(spot.text for spot in a.spots) == TEXT_A
    assert "".join(spot.text for spot in b.spots) == TEXT_B
    marked = [(spot.text, spot.p_api, spot.kept) for spot in a.spots if spot.p_api]
    both = {"Calculator": 0.25, "Calendar": 0.25}
    assert marked == [
        ("In", {"Calendar": 0.25}, ("Calendar",)),
        ("3", {"Calculator": 0.25}, ()),
        (" ", both, ("Calculator", "Calendar")),
        ("7.", {"Calculator": 0.25}, ()),
    ]


def test_only_the_beginning_of_a_long_text_is_shown(tmp_path: Path) -> None:
    text = "\u00e9" * 5_000
    calls = [candidate("Calculator", at, "1", "1", plus=1.0) for at in (1, 9_001)]
    positions = [position("Calculator", at) for at in (1, 9_001)]
    unit = write_unit(tmp_path / "0.parquet", [row("long", text, calls, positions=positions)])
    (document,) = found([unit])
    assert document.cut and document.kept == 2
    assert "".join(spot.text for spot in document.spots) == "\u00e9" * 2_000
