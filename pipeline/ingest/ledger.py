"""ingest.json: what became of every input file, for people and for the next run."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from pipeline.settings import describe
from tools.atomic import write_bytes_atomically
from tools.base import ConfigError
from tools.places import Place, read_if_there, why

LEDGER = "ingest.json"


class FileEntry(BaseModel):
    """One input file: its stamp, its counts (read = kept + all rejected), its failure."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: str
    size: int
    mtime_ns: int  # tools.places.change_stamp
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


def read_ledger(out: Place) -> Ledger:
    """The ledger in `out`, empty if there is none.

    Raises:
        ConfigError: the file is there and is not one of ours.
    """
    path = out / LEDGER
    try:
        content = read_if_there(path)
        return Ledger() if content is None else Ledger.model_validate_json(content)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {why(error)}") from None
    except ValidationError as error:
        raise ConfigError(
            f"{path}: not a record of an ingest ({describe(error)}); remove it to start again"
        ) from None


def write_ledger(out: Place, ledger: Ledger) -> None:
    """The ledger in `out`, atomically.

    Raises:
        OutputError: it cannot be written.
    """
    write_bytes_atomically(out / LEDGER, ledger.model_dump_json(indent=1).encode() + b"\n")
