"""ingest.json: what became of every input file, for people and for the next run."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from pipeline.config import describe
from pipeline.ingest.writing import atomic_output
from tools.base import ConfigError

LEDGER = "ingest.json"


class FileEntry(BaseModel):
    """One input file: its stamp, its counts (read = kept + all rejected), its failure."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: str
    size: int
    mtime_ns: int
    format: str
    max_bytes: int
    output: str  # there is no such file if kept is 0
    read: int = 0
    kept: int = 0
    rejected: dict[str, int] = {}
    duplicates_of: list[str] = []  # outputs that hold the first copy of a rejected duplicate
    error: str | None = None

    def has_stamp_of(self, other: "FileEntry") -> bool:
        """Whether both were made from the same file in the same way."""
        return all(
            getattr(self, name) == getattr(other, name)
            for name in ("output", "size", "mtime_ns", "format", "max_bytes")
        )


class Ledger(BaseModel):
    """All input files of an output directory, in the order they were read."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Literal[1] = 1
    files: list[FileEntry] = []


def read_ledger(out: Path) -> Ledger:
    """The ledger in `out`, empty if there is none.

    Raises:
        ConfigError: the file is there and is not one of ours.
    """
    path = out / LEDGER
    try:
        return Ledger.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return Ledger()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except ValidationError as error:
        raise ConfigError(
            f"{path}: not a record of an ingest ({describe(error)}); remove it to start again"
        ) from None


def write_ledger(out: Path, ledger: Ledger) -> None:
    with atomic_output(out / LEDGER) as file:
        file.write(ledger.model_dump_json(indent=1).encode() + b"\n")
