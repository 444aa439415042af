"""Files of JSON lines that are added to: a writer may be killed, and another goes on."""

import json
from collections.abc import Mapping
from io import FileIO
from pathlib import Path
from typing import Any

from tools.base import InputError
from tools.places import why


def read_lines(path: Path) -> tuple[list[dict[str, Any]], int]:
    """The objects of a file, and where the last whole line ends: what is behind it is torn.

    Raises:
        InputError: it cannot be read, or a whole line is no object; it names the line.
    """
    lines, end = list[dict[str, Any]](), 0
    try:
        with path.open("rb") as file:
            for line in file:
                if line.endswith(b"\n"):
                    lines.append(_object(line))
                    end += len(line)
    except OSError as error:
        raise InputError(f"{path}: cannot read: {why(error)}") from None
    except (ValueError, RecursionError):
        number = len(lines) + 1
        raise InputError(
            f"{path}: line {number} is damaged; without it and what is behind it the same command "
            "goes on"
        ) from None
    return lines, end


def add_line(file: FileIO, line: Mapping[str, Any]) -> None:
    """Add a line, which outlives this process. Half of a surrogate pair is escaped.

    Raises:
        OSError: it cannot be written.
    """
    text = json.dumps(line, ensure_ascii=False) + "\n"
    left = memoryview(text.encode("utf-8", "backslashreplace"))
    while left:
        left = left[file.write(left) :]


def _object(line: bytes) -> dict[str, Any]:
    found = json.loads(line)
    if not isinstance(found, dict):
        raise ValueError("no object")
    return found
