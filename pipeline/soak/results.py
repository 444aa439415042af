"""What a soak found, and whether it is as it has to be."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tools.atomic import write_text_atomically


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


def write_results(path: Path, parts: Sequence[Part], machine: Mapping[str, Any]) -> None:
    """Everything as one JSON object: "machine", and one key for each experiment.

    Experiments of an earlier soak in the same file stay, so that one can be made again alone.

    Raises:
        OutputError: the file cannot be written.
    """
    before = json.loads(path.read_text()) if path.exists() else {}
    found = {
        part.name: {**part.figures, "checks": [asdict(check) for check in part.checks]}
        for part in parts
    }
    everything = before | {"machine": dict(machine)} | found
    write_text_atomically(path, json.dumps(everything, indent=1, sort_keys=True) + "\n")
