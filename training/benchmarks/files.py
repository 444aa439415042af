"""The lines and the JSON of a benchmark's own files; what cannot be read is an InputError."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools.base import InputError, one_line
from tools.places import why

_TOO_DEEP = "not JSON that can be read: lists or objects are nested too deeply"


def text_of(path: Path, *, from_where: str) -> str:
    """The whole file; `from_where` says in the error where it can be had.

    Raises:
        InputError: no such file, it cannot be read, or it is not UTF-8.
    """
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; it can be had from {from_where}") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise InputError(f"{path}:{line}: not UTF-8") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {why(error)}") from None


def json_of(path: Path, *, from_where: str) -> Any:
    """What a file of one JSON value holds. Raises InputError as `text_of`, and if it is broken."""
    try:
        return json.loads(text_of(path, from_where=from_where))
    except json.JSONDecodeError as error:
        raise InputError(f"{path}:{error.lineno}: not JSON: {one_line(error)}") from None
    except RecursionError:
        raise InputError(f"{path}: {_TOO_DEEP}") from None


def json_lines_of(path: Path, *, from_where: str) -> Iterator[tuple[str, Any]]:
    """Where a line stands ("FILE:7", for errors) and its value; blank lines hold none.

    Raises InputError as `text_of`, and at a line that is not JSON.
    """
    # Not splitlines(): a JSON string may hold U+2028, at which that would cut a line in two.
    for number, line in enumerate(text_of(path, from_where=from_where).split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            yield where, json.loads(line)
        except json.JSONDecodeError as error:
            raise InputError(f"{where}: not JSON: {one_line(error)}") from None
        except RecursionError:
            raise InputError(f"{where}: {_TOO_DEEP}") from None


def field_of(record: object, key: str, where: str) -> Any:
    """What a JSON object holds under a key. Raises InputError if it is none or has no such key."""
    if not isinstance(record, dict):
        raise InputError(f"{where}: expected a JSON object, got {type(record).__name__}")
    if key not in record:
        raise InputError(f"{where}: no {key!r}, only {', '.join(map(repr, record)) or 'nothing'}")
    return record[key]


def string_of(record: object, key: str, where: str) -> str:
    """The string under a key, without spaces around it. Raises InputError if it is none."""
    value = field_of(record, key, where)
    if not isinstance(value, str):
        raise InputError(f"{where}: {key} is {type(value).__name__}, expected a string")
    return value.strip()


def list_of(record: object, key: str, where: str) -> list[Any]:
    """The list under a key. Raises InputError if it is none."""
    value = field_of(record, key, where)
    if not isinstance(value, list):
        raise InputError(f"{where}: {key} is {type(value).__name__}, expected a list")
    return value


def strings_of(record: object, key: str, where: str) -> tuple[str, ...]:
    """The different strings of the list under a key, in order and without blank ones.

    Raises InputError if it is no list of strings.
    """
    values = list_of(record, key, where)
    for value in values:
        if not isinstance(value, str):
            raise InputError(f"{where}: {key} holds {type(value).__name__}, expected strings")
    return tuple(dict.fromkeys(value.strip() for value in values if value.strip()))
