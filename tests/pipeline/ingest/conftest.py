"""What every ingest test does: run it into a fresh directory, read the rows back."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from rich.console import Console

from pipeline.ingest.command import ingest
from pipeline.ingest.ledger import Ledger
from tools.base import InputError

Ingest = Callable[..., Ledger]
Rows = Callable[[str], list[dict[str, Any]]]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "documents"


@pytest.fixture
def screen() -> io.StringIO:
    """What the user sees."""
    return io.StringIO()


@pytest.fixture
def run(out: Path, screen: io.StringIO) -> Ingest:
    def run_ingest(*inputs: Path, **options: Any) -> Ledger:
        return ingest(inputs, out, console=Console(file=screen, width=200), **options)

    return run_ingest


@pytest.fixture
def counts(out: Path, run: Ingest) -> Callable[..., dict[str, dict[str, int]]]:
    """Reject counts by output, also where the ingest ends with an error."""

    def rejected(*inputs: Path, **options: Any) -> dict[str, dict[str, int]]:
        try:
            ledger = run(*inputs, **options)
        except InputError:
            ledger = Ledger.model_validate_json((out / "ingest.json").read_bytes())
        for entry in ledger.files:
            assert entry.read == entry.kept + sum(entry.rejected.values())
        return {entry.output: entry.rejected for entry in ledger.files}

    return rejected


@pytest.fixture
def rows(out: Path) -> Rows:
    def read_rows(name: str) -> list[dict[str, Any]]:
        table: list[dict[str, Any]] = pq.read_table(out / name).to_pylist()
        return table

    return read_rows
