"""`python -m cluster` as a user starts it, and what becomes of its processes."""

import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from tests.pipeline.demo_runs import ROOT

# Of a run without a model, for what is about starting it. A unit takes about a second.
QUICK: dict[str, Any] = {
    "engine": {
        "name": "pipeline.engines.scripted:ScriptedEngine",
        "options": {"seconds_per_document": 0.2},
    },
    "tools": {"Calculator": {}},
}

_RAY_VARIABLES = (
    "RAY_ADDRESS", "RAY_API_SERVER_ADDRESS", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN",
    "RAY_AUTH_TOKEN_PATH",
)  # fmt: skip


def environment() -> dict[str, str]:
    """Ours without a cluster and its token, and with colours off."""
    ours = {name: value for name, value in os.environ.items() if name not in _RAY_VARIABLES}
    return ours | {"NO_COLOR": "1", "COLUMNS": "200"}


def start_cluster_command(
    *arguments: object, environment: Mapping[str, str]
) -> "subprocess.Popen[str]":
    """`python -m cluster ARGUMENTS` from the root of the repository, under way."""
    return subprocess.Popen(
        [sys.executable, "-m", "cluster", *map(str, arguments)],
        cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def cluster(
    *arguments: object, environment: Mapping[str, str]
) -> "subprocess.CompletedProcess[str]":
    """`python -m cluster ARGUMENTS`, ended."""
    process = start_cluster_command(*arguments, environment=environment)
    try:
        out, err = process.communicate(timeout=300)
    finally:
        process.kill()
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def variable_of(process: psutil.Process, name: str) -> str | None:
    """A variable in the environment a process was started with."""
    with suppress(psutil.Error):
        value: str | None = process.environ().get(name)
        return value
    return None


def processes_with(name: str, value: str) -> list[psutil.Process]:
    """All living processes that were started with this variable."""
    return [process for process in psutil.process_iter() if variable_of(process, name) == value]


def command_lines() -> str:
    """Of all processes of this machine."""
    lines = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            lines.append(" ".join(process.cmdline()))
    return "\n".join(lines)


def files_with(text: str, directory: Path) -> list[Path]:
    """The files below a directory that hold `text`."""
    found = []
    for path in directory.rglob("*"):
        with suppress(OSError):  # a file of a living Ray, gone meanwhile
            if path.is_file() and text.encode() in path.read_bytes():
                found.append(path)
    return found
