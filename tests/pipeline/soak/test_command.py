"""`python -m pipeline soak` as a user types it."""

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.pipeline.demo_runs import ROOT, environment

pytestmark = pytest.mark.ray

NAMES = {"driver", "GCS", "raylet", "object store", "replicas", "tools", "stage Read", "stage LM"}


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


def test_a_quick_soak_counts_every_document_once_and_draws_its_curves(
    tmp_path: Path, ray_directory: Path
) -> None:
    done = soak("--quick", "--documents", 2_000, "--out", tmp_path, ray_directory=ray_directory)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "soak.json").read_text())["endurance"]
    assert (found["documents"], found["units"]) == (2_000, 8)
    checks = {check["name"]: check for check in found["checks"]}
    assert checks["every document is committed exactly once"]["holds"] is True
    assert checks["run-ahead is bounded"]["holds"] is True
    assert checks["memory of driver is flat after the warm-up"]["holds"] is None  # too short
    curve = found["memory_curve_bytes"]
    assert set().union(*curve) >= NAMES
    assert sum(rate for _, rate in found["documents_per_s_curve"]) > 0
    picture = ElementTree.parse(tmp_path / "memory_and_rate.svg").getroot()
    assert len(picture.findall("{http://www.w3.org/2000/svg}polyline")) > len(NAMES)


def test_a_directory_that_cannot_be_is_one_line(tmp_path: Path, ray_directory: Path) -> None:
    (tmp_path / "file").write_text("")
    done = soak("--quick", "--out", tmp_path / "file", ray_directory=ray_directory)
    assert done.returncode == 1
    assert f"{tmp_path / 'file'}: cannot be written" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
