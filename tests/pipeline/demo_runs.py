"""Runs of a few demo documents by the command line: its process, or in this one."""

import io
import os
import subprocess
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from pipeline.cli import main
from tools.places import Place, is_remote, list_files, read_bytes

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "pipeline" / "demo"
# Those that start at once; `make demo` itself has all.
TOOLS = ("Calculator", "Calendar", "WikiSearch")


def demo_config(directory: Path, num_documents: int, **changes: Any) -> Path:
    """A configuration of the demo over its first documents, with its three quickest tools."""
    documents = directory / "documents.parquet"
    if not documents.exists():
        table = pq.read_table(DEMO / "documents.parquet").slice(0, num_documents)
        pq.write_table(table, documents)
    config = yaml.safe_load((ROOT / "pipeline" / "configs" / "demo.yaml").read_text())
    config |= {"input": str(documents), "unit_documents": 4}
    config["tools"] = {name: config["tools"][name] for name in TOOLS}
    config["engine"]["replicas"] = 1  # every process costs a test seconds to start
    config |= changes
    path = directory / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


def environment(ray_directory: Path) -> dict[str, str]:
    """Ours, with a private place for Ray's files and colours off."""
    return os.environ | {"RAY_TMPDIR": str(ray_directory), "NO_COLOR": "1", "COLUMNS": "200"}


def pipeline(
    *arguments: object, ray_directory: Path, check: bool = True
) -> subprocess.CompletedProcess[str]:
    """`python -m pipeline ARGUMENTS` from the root of the repository."""
    done = subprocess.run(
        [sys.executable, "-m", "pipeline", *map(str, arguments)],
        cwd=ROOT, env=environment(ray_directory), capture_output=True, text=True, timeout=540,
    )  # fmt: skip
    if check and done.returncode != 0:
        raise AssertionError(f"exit {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


def pipeline_here(*arguments: object, check: bool = True) -> subprocess.CompletedProcess[str]:
    """What `pipeline` comes to, in this process and on the Ray it has joined (`local_ray`).

    A process and a Ray of its own cost `annotate` fifteen seconds of CPU.
    """
    printed, errors = io.StringIO(), io.StringIO()
    command = ["pipeline", *map(str, arguments)]
    with (
        pytest.MonkeyPatch.context() as patch,
        warnings.catch_warnings(),
        redirect_stdout(printed),
        redirect_stderr(errors),
        pytest.raises(SystemExit) as left,
    ):
        warnings.simplefilter("ignore", DeprecationWarning)  # Ray Data's, of its own options
        patch.setattr(sys, "argv", command)
        patch.setenv("NO_COLOR", "1")
        patch.setenv("COLUMNS", "200")
        patch.chdir(ROOT)
        main()
    code = left.value.code or 0
    assert isinstance(code, int)
    done = subprocess.CompletedProcess(command, code, printed.getvalue(), errors.getvalue())
    if check and code != 0:
        raise AssertionError(f"exit {code}\n{done.stdout}\n{done.stderr}")
    return done


def unit_bytes(run: Place) -> dict[str, bytes]:
    """Every unit file of a run by name."""
    units = run / "units"
    if is_remote(units):
        return {name: read_bytes(units / name) for name in list_files(units)}
    return {path.name: path.read_bytes() for path in sorted(units.glob("*.parquet"))}
