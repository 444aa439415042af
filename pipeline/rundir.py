"""A run directory: what was asked for, what is planned, and what is finished.

    run.json                 configuration, fingerprint, versions
    manifest.parquet         the units
    units/<unit_id>.parquet  scored documents (schema SCORED)
    _done/<unit_id>.json     written after the unit file: the unit is finished
    error.txt                the traceback of the last unexpected error, if there was one

A unit is finished exactly when its done-mark is there and its file has the size it names.
"""

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, ValidationError

from pipeline.config import RunConfig
from pipeline.redrive import count_failed
from pipeline.schemas import SCORED, conform
from pipeline.units import Unit, read_manifest
from tools.atomic import write_atomically, write_text_atomically
from tools.base import ContractError, InputError, OutputError
from tools.usage import ToolUsage


class DoneMark(BaseModel):
    """What is known about a finished unit without opening it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    unit_id: str
    documents: int  # rows read from the input
    rows: int  # documents and parts of long ones
    dropped: dict[str, int]  # rows that went no further, by reason
    failed: int = 0  # documents that may succeed another day, see pipeline.redrive
    bytes: int
    blake2b: str  # of the unit file
    seconds: dict[str, float]  # by stage
    tokens: dict[str, int]  # run through the model, by kind
    tools: dict[str, ToolUsage] = {}  # what was asked of them
    begun_at: float = 0.0  # Unix time when it was read; 0 in marks that do not say
    finished_at: float  # Unix time


class RunRecord(BaseModel):
    """run.json: what a run was started with."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    config: RunConfig
    fingerprint: str
    fingerprint_of: dict[str, Any]  # flat: what enters the fingerprint, by key
    versions: dict[str, str]


class RunDir:
    """The files of one run, by name."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.record_path = path / "run.json"
        self.manifest_path = path / "manifest.parquet"
        self.report_path = path / "report"
        self.error_path = path / "error.txt"

    def exists(self) -> bool:
        return self.record_path.exists()

    def record(self) -> RunRecord:
        """What the run was started with.

        Raises:
            InputError: this is no run directory.
        """
        try:
            return RunRecord.model_validate_json(self.record_path.read_bytes())
        except OSError:
            raise InputError(
                f"{self.path}: no run here (no readable run.json); name a directory that "
                "`annotate` wrote"
            ) from None
        except ValidationError as error:
            raise InputError(
                f"{self.record_path}: not readable as a run record ({error.error_count()} errors); "
                "choose another run directory"
            ) from None

    def config(self) -> RunConfig:
        return self.record().config

    def units(self) -> list[Unit]:
        return read_manifest(self.manifest_path)

    def unit_path(self, unit_id: str) -> Path:
        return self.path / "units" / f"{unit_id}.parquet"

    def done_path(self, unit_id: str) -> Path:
        return self.path / "_done" / f"{unit_id}.json"

    def done_mark(self, unit_id: str) -> DoneMark | None:
        """The mark of a finished unit; None when it is not finished."""
        try:
            mark = DoneMark.model_validate_json(self.done_path(unit_id).read_bytes())
            size = self.unit_path(unit_id).stat().st_size
        except (OSError, ValidationError):
            return None
        return mark if size == mark.bytes else None

    def marked_units(self) -> set[str]:
        """The ids of all units with a done-mark, by one listing: cheap, for showing progress."""
        try:
            names = os.listdir(self.path / "_done")
        except FileNotFoundError:
            return set()
        return {name.removesuffix(".json") for name in names if not name.startswith(".")}

    def finished(self, units: Sequence[Unit]) -> Iterator[DoneMark]:
        """The marks of those of `units` that are finished, in their order."""
        marked = self.marked_units()
        for unit in units:
            mark = self.done_mark(unit.unit_id) if unit.unit_id in marked else None
            if mark is not None:
                yield mark

    def done_marks(self) -> list[DoneMark]:
        """The marks of all finished units, in manifest order."""
        marks = (self.done_mark(unit.unit_id) for unit in self.units())
        return [mark for mark in marks if mark is not None]

    def finished_unit_files(self) -> list[Path]:
        """The files of all finished units, in manifest order."""
        return [self.unit_path(mark.unit_id) for mark in self.done_marks()]

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the run directory for one writer; the system frees it if the writer dies.

        Raises:
            InputError: another process is writing here.
            OutputError: this cannot be a directory, or nothing can be written to it.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            handle = open(self.path / ".lock", "w")  # noqa: SIM115
        except OSError as error:
            raise OutputError(
                f"{self.path}: no run can be written there: {error.strerror or error}; make room "
                "or choose another directory"
            ) from None
        with handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(
                    f"{self.path}: another process is writing to this run; wait for its end or "
                    "choose another --run"
                ) from None
            yield


def commit_unit(run: RunDir, unit: Unit, scored: pa.Table, mark: dict[str, Any]) -> DoneMark:
    """Write the unit file, then its done-mark, each atomically; returns the mark.

    `mark` holds what only the caller knows: seconds, tokens, tools, finished_at.

    Raises:
        ContractError: the rows are not those of the unit.
        OutputError: the disk is full.
    """
    table = conform(scored, SCORED, stage="commit")
    documents = sum(part <= 1 for part in table.column("part").to_pylist())
    if documents != unit.num_documents:
        raise ContractError(
            stage="commit",
            doc_id=f"unit {unit.unit_id}",
            got=f"{documents} documents",
            expected=unit.num_documents,
        )
    path = run.unit_path(unit.unit_id)
    write_atomically(path, lambda temporary: pq.write_table(table, temporary, compression="zstd"))
    dropped = [reason for reason in table.column("dropped").to_pylist() if reason is not None]
    done = DoneMark(
        unit_id=unit.unit_id,
        documents=documents,
        rows=table.num_rows,
        dropped={reason: dropped.count(reason) for reason in sorted(set(dropped))},
        failed=count_failed(table),
        bytes=os.stat(path).st_size,
        blake2b=hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest(),
        **mark,
    )
    write_text_atomically(
        run.done_path(unit.unit_id), json.dumps(done.model_dump(), indent=1, sort_keys=True)
    )
    return done
