"""Where and from what a reproduction was measured."""

import importlib.metadata
import os
import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path

_CPU_INFO = Path("/proc/cpuinfo")
_PACKAGES = ("torch", "transformers", "ray")


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """`commit` is what git says of the sources, "unknown" where it says nothing."""

    commit: str
    processor: str
    cores: int
    python: str
    versions: dict[str, str]


def about() -> About:
    """Of this machine and this checkout."""
    return About(
        commit=_commit(),
        processor=_processor(),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else _cores(),
        python=platform.python_version(),
        versions={name: importlib.metadata.version(name) for name in _PACKAGES},
    )


def _cores() -> int:
    return os.cpu_count() or 1


def _commit() -> str:
    """The commit, and whether files that git knows differ from it."""
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--abbrev=12", "--dirty", "--exclude=*"],
            capture_output=True, text=True, timeout=10, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return found.stdout.strip() or "unknown"


def _processor() -> str:
    try:
        lines = _CPU_INFO.read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())
