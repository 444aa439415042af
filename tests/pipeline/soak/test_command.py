"""`python -m pipeline soak` as a user types it."""

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pipeline.soak.documents import write_documents
from pipeline.soak.emptied import emptied
from pipeline.soak.processes import EVERY_GROUP
from tests.pipeline.demo_runs import ROOT, environment, pipeline_here

pytestmark = pytest.mark.ray


def soak(*arguments: object, ray_directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pipeline", "soak", *map(str, arguments)],
        cwd=ROOT, env=environment(ray_directory), capture_output=True, text=True, timeout=300,
    )  # fmt: skip


def test_the_readmes_commands_are_the_ones_that_are_there() -> None:
    section = (ROOT / "pipeline" / "README.md").read_text().split("\n## Scale\n")[1]
    commands = section.split("```bash\n")[1].split("```")[0]
    assert "python -m pipeline soak --quick --out runs/soak-quick" in commands
    assert "make soak" in commands
    assert "\tpython -m pipeline soak --out runs/soak" in (ROOT / "Makefile").read_text().replace(
        "$(BIN)/", ""
    )


def leave_an_earlier_soak(out: Path) -> None:
    """Results of another experiment and of this one, a run cut short, documents of another size."""
    (out / "soak.json").write_text(
        json.dumps({"endurance": {"documents": 7}, "overhead": {"units_measured": 5}})
    )
    place = emptied(out / "endurance")
    write_documents(place / "documents", 3_000, seed=1)
    (place / "run").mkdir()
    (place / "run" / "run.json").write_text("torn")


def test_a_quick_soak_counts_every_document_once_and_draws_its_curves(
    tmp_path: Path, ray_directory: Path
) -> None:
    leave_an_earlier_soak(tmp_path)
    done = soak("--quick", "--documents", 2_000, "--out", tmp_path, ray_directory=ray_directory)
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "soak.json").read_text())
    assert results["overhead"] == {"units_measured": 5}  # was not made anew
    found = results["endurance"]
    assert (found["documents"], found["units"]) == (2_000, 32)
    checks = {check["name"]: check["holds"] for check in found["checks"]}
    assert checks.pop("every document is committed exactly once") is True
    assert checks.pop("run-ahead is bounded") is True  # 20 of 32 units
    assert set(checks) >= {f"memory of {group} is flat after the warm-up" for group in EVERY_GROUP}
    assert set(checks.values()) == {None}  # too short
    curve = found["memory_curve_bytes"]
    assert set().union(*curve) >= set(EVERY_GROUP)
    assert sum(rate for _, rate in found["documents_per_s_curve"]) > 0
    shown = [r for r in curve if 0 <= r["at_s"] <= found["working_s"]]
    picture = ElementTree.parse(tmp_path / "endurance" / "memory_and_rate.svg").getroot()
    lines = picture.findall("{http://www.w3.org/2000/svg}polyline")
    assert len(lines) == 1 + len(set().union(*shown) - {"at_s"})  # the rate, and each group


def test_a_directory_that_cannot_be_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = pipeline_here("soak", "--quick", "--out", tmp_path / "file", check=False)
    assert done.returncode == 1
    assert f"{tmp_path / 'file'}: cannot be written" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
