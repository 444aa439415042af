"""One run to be disturbed: its corpus, its moments, its command, and what it must come to."""

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from pipeline.rundir import RunDir
from tests.pipeline.demo_runs import DEMO, ROOT, environment, unit_bytes
from tests.pipeline.survival.drivers import Driver, DriverHere

ENGINE = "tests.pipeline.killing_engine:KillingEngine"
TOOL = "tests.pipeline.survival.killing_tool:KillingCalculator"
PROMPT = ROOT / "pipeline" / "configs" / "demo_prompts" / "Calculator.txt"
NUM_DOCUMENTS = 24
UNIT_DOCUMENTS = 2
_PATIENCE_S = 200.0  # for a moment to come, on a machine that is busy
_POLL_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Undisturbed:
    """What a run is compared with: its unit files, and its work as (kind, document, request)."""

    units: Mapping[str, bytes]
    work: Counter[tuple[str, str, str]]


class Scene:
    """A run in `directory` of `numbers` documents; `marks` are put into the texts of some."""

    def __init__(
        self,
        directory: Path,
        num_documents: int,
        *,
        marks: Mapping[int, str] | None = None,
        engine: Mapping[str, Any] | None = None,
        tool: Mapping[str, Any] | None = None,
        **changes: Any,
    ) -> None:
        self.moments = directory / "moments"
        self.moments.mkdir(parents=True)
        self.run = RunDir(directory / "run")
        self.config_path = directory / "config.yaml"
        self.num_documents = num_documents
        self._printed = directory / "printed"
        self._errors = directory / "errors"
        write_corpus(directory / "documents.parquet", num_documents, marks or {})
        options = {"directory": str(self.moments)}
        config = {
            "run": str(self.run.path),
            "input": str(directory / "documents.parquet"),
            "model": {"path": str(DEMO / "model")},
            "engine": self.engine(**(engine or {})),
            "unit_documents": UNIT_DOCUMENTS,
            "sampling": {"max_new_tokens": 16},
            "tools": {
                "Calculator": {"prompt": str(PROMPT), "k": 2, "m": 2, "factory": TOOL}
                | {"options": options | dict(tool or {}).pop("options", {})}
                | {key: value for key, value in (tool or {}).items() if key != "options"}
            },
        }
        self.config_path.write_text(yaml.safe_dump(config | changes))

    def change(self, **changes: Any) -> None:
        """Have other keys in the configuration."""
        config = yaml.safe_load(self.config_path.read_text())
        self.config_path.write_text(yaml.safe_dump(config | changes))

    def engine(self, **changes: Any) -> dict[str, Any]:
        """The section of an engine; `options` of `changes` add to its own."""
        options = {"directory": str(self.moments)} | changes.pop("options", {})
        return {"name": ENGINE, "options": options} | changes

    def start(
        self, *arguments: str, ray_directory: Path, prefix: Sequence[str] = ()
    ) -> "subprocess.Popen[bytes]":
        """`annotate` of this scene, in the background; a later one overwrites what it printed."""
        command = [*prefix, sys.executable, "-m", "pipeline", "annotate", str(self.config_path)]
        with self._printed.open("wb") as printed, self._errors.open("wb") as errors:
            return subprocess.Popen(
                [*command, *arguments], cwd=ROOT, env=environment(ray_directory),
                stdout=printed, stderr=errors,
            )  # fmt: skip

    def start_here(self, *arguments: str) -> DriverHere:
        """The same in a thread, on the Ray of this process: half the work where none is killed."""
        command = ["annotate", str(self.config_path), *arguments]
        return DriverHere(command, self._printed, self._errors)

    def printed(self) -> str:
        return self._printed.read_text()

    def errors(self) -> str:
        return self._errors.read_text()

    def finish(self, driver: Driver) -> str:
        """What a command printed that ends without an error."""
        code = driver.wait(timeout=300)
        assert code == 0, f"exit {code}\n{self.printed()}\n{self.errors()}"
        return self.printed()

    def hold(self, kind: str, number: int) -> None:
        """Have whoever comes to a document first wait there."""
        (self.moments / f"hold-{kind}-{number}").touch()

    def die_once(self, kind: str, number: int) -> None:
        """Have whoever comes to a document first die there."""
        (self.moments / f"once-{kind}-{number}").touch()

    def end_by_ray_once(self, kind: str, number: int) -> None:
        """Have Ray kill the actor of whoever comes to a document first."""
        (self.moments / f"ended-{kind}-{number}").touch()

    def heal(self) -> None:
        """Let no document kill any more."""
        (self.moments / "healed").touch()

    def held(self, kind: str, number: int, driver: Driver) -> int:
        """The process that waits at a document, once one does."""
        return self.first_held([(kind, number)], driver)[1]

    def first_held(
        self, moments: Iterable[tuple[str, int]], driver: Driver
    ) -> tuple[tuple[str, int], int]:
        """Which of `moments` somebody waits at first, and the process that does."""
        deadline = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline:
            for kind, number in moments:
                for path in self.moments.glob(f"held-{kind}-{number}.*"):
                    return (kind, number), int(path.suffix[1:])
            assert driver.poll() is None, f"the run ended first\n{self.printed()}\n{self.errors()}"
            time.sleep(_POLL_S)
        there = sorted(path.name for path in self.moments.iterdir())
        raise AssertionError(f"nobody came to {list(moments)}; there is {there}\n{self.errors()}")

    def wait_for_units(self, count: int, driver: Driver) -> None:
        """Wait until at least so many units are finished."""
        deadline = time.monotonic() + _PATIENCE_S
        while len(self.run.marked_units()) < count:
            assert driver.poll() is None, f"the run ended first\n{self.errors()}"
            assert time.monotonic() < deadline, f"not {count} units\n{self.errors()}"
            time.sleep(_POLL_S)

    def release(self, kind: str, number: int) -> None:
        """Let whoever waits at a document go on."""
        for path in self.moments.glob(f"held-{kind}-{number}.*"):
            path.unlink()

    def work(self) -> Counter[tuple[str, str, str]]:
        """How often every request was asked so far: kind, document, request."""
        log = self.moments / "work.log"
        lines = log.read_text().splitlines() if log.exists() else []
        return Counter(
            (kind, document, request)
            for kind, _, document, request in (line.split() for line in lines)
        )

    def processes(self) -> set[int]:
        """Those that engines were asked in."""
        lines = (self.moments / "work.log").read_text().splitlines()
        return {int(line.split()[1]) for line in lines}

    def repeated(self, undisturbed: Undisturbed) -> dict[str, set[str]]:
        """The documents, by kind of work, that were asked about more often than without trouble."""
        found: dict[str, set[str]] = {}
        for (kind, document, _), _count in (self.work() - undisturbed.work).items():
            found.setdefault(kind, set()).add(document)
        return found


def write_corpus(path: Path, num_documents: int, marks: Mapping[int, str]) -> None:
    """Documents that the Calculator is offered, each with its number."""
    texts = [
        f"Note {number}. {marks.get(number, 'Quiet')}. The first box holds {number} apples, the "
        "second 30, and the two, with those of the neighbours, hold a total of 42 apples."
        for number in range(num_documents)
    ]
    ids = [f"note-{number}" for number in range(num_documents)]
    pq.write_table(pa.table({"doc_id": ids, "text": texts}), path)


def documents_of(run: RunDir) -> list[dict[str, Any]]:
    """The rows of all finished units, in manifest order."""
    return [row for path in run.finished_unit_files() for row in pq.read_table(path).to_pylist()]


def assert_exactly_once(scene: Scene) -> None:
    """Every document of the input is in the run, once; every unit is finished; nothing else is."""
    rows = documents_of(scene.run)
    assert [row["doc_id"] for row in rows] == [f"note-{n}" for n in range(scene.num_documents)]
    assert len(scene.run.done_marks()) == len(scene.run.units())
    assert len(unit_bytes(scene.run.path)) == len(scene.run.units())
    assert not list(scene.run.path.rglob(".*.tmp"))


def assert_undisturbed(scene: Scene, undisturbed: Undisturbed) -> None:
    """The run has every document once and the bytes of one that nothing happened to."""
    assert_exactly_once(scene)
    differing = [
        name
        for name, content in unit_bytes(scene.run.path).items()
        if content != undisturbed.units[name]
    ]
    assert differing == []


def at_most(count: int, repeated: Mapping[str, Collection[str]]) -> bool:
    """Whether no kind of work was repeated for more than `count` documents."""
    return all(len(documents) <= count for documents in repeated.values())


def kill_tree(process: "subprocess.Popen[bytes]") -> None:
    """End a process of ours, and what it started, if anything of it is left."""
    try:
        family = [*psutil.Process(process.pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        family = []
    if process.poll() is None:
        process.kill()
        process.wait()
    for member in family:
        try:
            os.kill(member.pid, 9)
        except ProcessLookupError:
            continue
