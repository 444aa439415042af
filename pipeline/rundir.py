"""A run directory: what was asked for, what is planned, and what is finished.

    run.json                 configuration, fingerprint, versions
    manifest.parquet         the units
    units/<unit_id>.parquet  scored documents (schema SCORED)
    _done/<unit_id>.json     written after the unit file: the unit is finished
    error.txt                the traceback of the last unexpected error, if there was one
    _lock/                   in a store, who is writing (tools.lease)

A unit is finished exactly when its done-mark is there and its file has the size it names.
"""

import fcntl
import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, ValidationError

from pipeline.config import RunConfig
from pipeline.parquet import parquet_bytes
from pipeline.schemas import SCORED, conform
from pipeline.tally import ToolTally
from pipeline.unit_counts import UnitCounts, count_rows
from pipeline.units import Unit, read_manifest
from tools.atomic import write_bytes_atomically, write_text_atomically
from tools.base import ContractError, InputError, OutputError
from tools.lease import lease
from tools.places import (
    NUM_THREADS,
    Place,
    file_info,
    in_order,
    is_remote,
    list_files,
    read_bytes,
    read_if_there,
    why,
)
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
    tallies: dict[str, ToolTally] = {}  # what came of it, by tool; {} in marks that do not say
    begun_at: float = 0.0  # Unix time when it was read; 0 in marks that do not say
    finished_at: float  # Unix time


class RunRecord(BaseModel):
    """run.json: what a run was started with."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    config: RunConfig
    fingerprint: str
    fingerprint_of: dict[str, Any]  # flat: what enters the fingerprint, by key
    versions: dict[str, str]


class Lock(Protocol):
    """That this process is the one writer of a run."""

    def check(self) -> None:
        """See that it still is, as far as this process knows: cheap, asks nobody.

        Raises:
            OutputError: another process may have taken the run over.
        """
        ...


class RunDir:
    """The files of one run, by name."""

    def __init__(self, path: Place) -> None:
        self.path = path
        self.record_path = path / "run.json"
        self.manifest_path = path / "manifest.parquet"
        self.report_path = path / "report"
        self.error_path = path / "error.txt"

    def exists(self) -> bool:
        """Whether there is a run.

        Raises:
            InputError: the store cannot be asked.
        """
        with _asked(self.path):
            return file_info(self.record_path) is not None

    def record(self) -> RunRecord:
        """What the run was started with.

        Raises:
            InputError: this is no run directory.
        """
        with _asked(self.path):
            content = read_if_there(self.record_path)
        if content is None:
            raise InputError(
                f"{self.path}: no run here (no readable run.json); name a directory that "
                "`annotate` wrote"
            )
        try:
            return RunRecord.model_validate_json(content)
        except ValidationError as error:
            raise InputError(
                f"{self.record_path}: not readable as a run record ({error.error_count()} errors); "
                "choose another run directory"
            ) from None

    def config(self) -> RunConfig:
        return self.record().config

    def units(self) -> list[Unit]:
        return read_manifest(self.manifest_path)

    def unit_path(self, unit_id: str) -> Place:
        return self.path / "units" / f"{unit_id}.parquet"

    def done_path(self, unit_id: str) -> Place:
        return self.path / "_done" / f"{unit_id}.json"

    def done_mark(self, unit_id: str) -> DoneMark | None:
        """The mark of a finished unit; None when it is not finished.

        Raises:
            InputError: the store cannot be asked.
        """
        mark = self._mark(unit_id)
        with _asked(self.path):
            info = file_info(self.unit_path(unit_id)) if mark is not None else None
        return mark if mark is not None and info and info["size"] == mark.bytes else None

    def _mark(self, unit_id: str) -> DoneMark | None:
        """What the mark of a unit says, whatever has become of its file."""
        path = self.done_path(unit_id)
        try:
            return DoneMark.model_validate_json(read_bytes(path))
        except (FileNotFoundError, ValidationError):
            return None
        except OSError as error:
            if is_remote(path):  # else a unit would be made again because a store was slow
                raise InputError(f"{path}: cannot be read: {why(error)}") from None
            return None

    def marked_units(self) -> set[str]:
        """The ids of all units with a done-mark, by one listing: cheaper than `finished`."""
        return {name.removesuffix(".json") for name in self._names("_done")}

    def finished(self, units: Iterable[Unit]) -> Iterator[DoneMark]:
        """The marks of those of `units` that are finished, in their order.

        Costs two listings and a read for each mark; a store is asked for several at a time.

        Raises:
            InputError: the store cannot be asked.
        """
        sizes, marked = self._sizes("units"), self.marked_units()
        ids = [unit.unit_id for unit in units if unit.unit_id in marked]
        remote = is_remote(self.path)
        marks = in_order(self._mark, ids, threads=NUM_THREADS) if remote else map(self._mark, ids)
        for mark in marks:
            if mark is not None and sizes.get(f"{mark.unit_id}.parquet") == mark.bytes:
                yield mark

    def _sizes(self, directory: str) -> dict[str, int]:
        """The files in a directory of the run with their sizes in bytes."""
        path = self.path / directory
        with _asked(self.path):
            if is_remote(path):
                return {name: info["size"] for name, info in list_files(path).items()}
            try:
                with os.scandir(path) as entries:
                    return {e.name: e.stat().st_size for e in entries if not e.name.startswith(".")}
            except FileNotFoundError:
                return {}

    def _names(self, directory: str) -> set[str]:
        """The files in a directory of the run."""
        path = self.path / directory
        if is_remote(path):
            return set(self._sizes(directory))
        with _asked(self.path):
            try:
                return {name for name in os.listdir(path) if not name.startswith(".")}
            except FileNotFoundError:
                return set()

    def done_marks(self) -> list[DoneMark]:
        """The marks of all finished units, in manifest order: for runs of some thousand units."""
        return list(self.finished(self.units()))

    def finished_unit_files(self) -> list[Place]:
        """The files of all finished units, in manifest order; of the marks, which have kilobytes
        each, one is in memory at a time.
        """
        return [self.unit_path(mark.unit_id) for mark in self.finished(self.units())]

    @contextmanager
    def lock(self) -> Iterator[Lock]:
        """Hold the run directory for one writer. The system frees it if the writer dies; in a
        store, two minutes do (see tools.lease).

        Raises:
            InputError: another process is writing here.
            OutputError: this cannot be a directory, or nothing can be written to it; in a store,
                at the end, as `Lock.check`.
        """
        with lease(self.path / "_lock") if is_remote(self.path) else _flock(self.path) as lock:
            yield lock


@contextmanager
def _asked(run: Place) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"{run}: cannot be read: {why(error)}") from None


class _Flock:
    def check(self) -> None:
        """The system lets no other writer in while this one lives."""


@contextmanager
def _flock(directory: Path) -> Iterator[Lock]:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        handle = open(directory / ".lock", "w")  # noqa: SIM115
    except OSError as error:
        raise OutputError(
            f"{directory}: no run can be written there: {why(error)}; make room or choose another "
            "directory"
        ) from None
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"{directory}: another process is writing to this run; wait for its end or "
                "choose another --run"
            ) from None
        yield _Flock()


def commit_unit(
    run: RunDir, unit: Unit, scored: pa.Table, mark: dict[str, Any]
) -> tuple[DoneMark, UnitCounts]:
    """Write the unit file, then its done-mark, each atomically; the mark and what it was made from.

    `mark` holds what only the caller knows: seconds, tokens, tools, finished_at.

    Raises:
        ContractError: the rows are not those of the unit.
        OutputError: the disk is full.
    """
    table = conform(scored, SCORED, stage="commit")
    counts = count_rows(table)
    documents = len(counts.first_row)
    if documents != unit.num_documents:
        raise ContractError(
            stage="commit",
            doc_id=f"unit {unit.unit_id}",
            got=f"{documents} documents",
            expected=unit.num_documents,
        )
    content = parquet_bytes(table, compression="zstd")
    write_bytes_atomically(run.unit_path(unit.unit_id), content)
    done = DoneMark(
        unit_id=unit.unit_id,
        documents=documents,
        rows=table.num_rows,
        dropped=counts.dropped,
        failed=sum(counts.failed),
        tallies={name: tool.tally() for name, tool in counts.tools.items() if tool.candidates},
        bytes=len(content),
        blake2b=hashlib.blake2b(content, digest_size=16).hexdigest(),
        **mark,
    )
    write_text_atomically(
        run.done_path(unit.unit_id), json.dumps(done.model_dump(), indent=1, sort_keys=True)
    )
    return done, counts
