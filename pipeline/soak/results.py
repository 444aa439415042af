"""What a soak found, and whether it is as it has to be."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tools.atomic import write_text_atomically
from tools.base import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Something that has to be so. `holds` is None where the run was too short to tell."""

    name: str
    got: str
    expected: str
    holds: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One experiment: its figures by name, units in the names, and what had to be so."""

    name: str
    figures: Mapping[str, Any]
    checks: Sequence[Check]


def failed_checks(parts: Sequence[Part]) -> Iterator[str]:
    """One line for each check that does not hold."""
    for part in parts:
        for check in part.checks:
            if check.holds is False:
                yield f"{part.name}: {check.name}: got {check.got}, expected {check.expected}"


def begin_results(path: Path, anew: Collection[str]) -> None:
    """Take from the results of an earlier soak at `path` the experiments that are made anew.

    The others stay, so that one can be made again alone.

    Raises:
        InputError: the file there is none of a soak.
        OutputError: the file cannot be written.
    """
    _write(path, {name: part for name, part in _read(path).items() if name not in anew})


def add_part(path: Path, part: Part, machine: Mapping[str, Any]) -> None:
    """Add an experiment, and what it was made on, to the results at `path`: one JSON object.

    Raises:
        InputError: the file there is none of a soak.
        OutputError: the file cannot be written.
    """
    checks = [asdict(check) for check in part.checks]
    found = {**part.figures, "checks": checks, "machine": dict(machine)}
    _write(path, _read(path) | {part.name: found})


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError):
        found = None
    if not isinstance(found, dict):
        raise InputError(f"{path}: not readable as the results of a soak; choose another --out")
    return found


def _write(path: Path, everything: Mapping[str, Any]) -> None:
    write_text_atomically(path, json.dumps(everything, indent=1, sort_keys=True) + "\n")
