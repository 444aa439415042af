import json
from pathlib import Path

import pytest

from pipeline.soak.results import Check, Part, add_part, begin_results, failed_checks
from tools.base import InputError


def part(name: str, value: int, *holds: bool | None) -> Part:
    checks = [
        Check(name=f"check {n}", got=f"{value}", expected="7", holds=held)
        for n, held in enumerate(holds)
    ]
    return Part(name=name, figures={"value": value}, checks=checks)


def test_each_experiment_is_written_at_once_and_others_stay_until_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "soak.json"
    for name, value in (("overhead", 1), ("scaling", 2)):
        begin_results(path, [name])
        add_part(path, part(name, value, True), {"cpus": value})
    begin_results(path, ["endurance", "overhead"])  # it is killed before either is made
    assert list(json.loads(path.read_text())) == ["scaling"]
    add_part(path, part("endurance", 3, True, False), {"cpus": 8})
    found = json.loads(path.read_text())
    assert {name: (kept["value"], kept["machine"]) for name, kept in found.items()} == {
        "endurance": (3, {"cpus": 8}),
        "scaling": (2, {"cpus": 2}),
    }
    assert [check["holds"] for check in found["endurance"]["checks"]] == [True, False]


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff"])
def test_a_file_that_is_no_result_is_one_clear_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "soak.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"soak.json: not readable as the results of a soak"):
        begin_results(path, [])
    assert path.read_bytes() == content


def test_only_what_does_not_hold_has_failed() -> None:
    parts = [part("endurance", 5, True, None, False), part("scaling", 6, True)]
    assert list(failed_checks(parts)) == ["endurance: check 2: got 5, expected 7"]
