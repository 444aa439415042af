from pathlib import Path

import pytest

from pipeline.rundir import RunDir
from pipeline.soak.emptied import MARK, emptied
from tools.base import InputError, OutputError


def names(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))


def test_what_an_earlier_soak_left_is_gone_even_where_it_was_killed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("")
    place = emptied(tmp_path / "soak" / "endurance")
    assert names(place) == [MARK]
    for path in ("run/_done/0000000.json", "documents/documents-00000.parquet", "half.tmp"):
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_text("an earlier soak")
    (place / "elsewhere").symlink_to(outside)
    assert names(emptied(place)) == [MARK]
    assert names(outside) == ["kept"]


def test_what_no_soak_made_is_left_alone(tmp_path: Path) -> None:
    mine = tmp_path / "endurance"
    mine.mkdir()
    assert names(emptied(mine)) == [MARK]  # nothing is lost of a directory that was empty
    (mine / MARK).unlink()
    (mine / "thesis.tex").write_text("")
    with pytest.raises(OutputError, match=r"endurance: was not made by a soak.*another --out"):
        emptied(mine)
    assert names(mine) == ["thesis.tex"]


def test_a_run_that_is_still_written_is_not_pulled_away(tmp_path: Path) -> None:
    place = emptied(tmp_path / "endurance")
    run = RunDir(place / "run")
    with run.lock():
        (run.path / "run.json").write_text("")
        with pytest.raises(InputError, match="endurance: a run that an earlier soak started"):
            emptied(place)
        assert (run.path / "run.json").exists()
    assert names(emptied(place)) == [MARK]


def test_a_file_in_the_way_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "endurance").write_text("")
    with pytest.raises(OutputError, match="endurance: cannot be emptied: File exists"):
        emptied(tmp_path / "endurance")
