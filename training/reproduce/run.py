"""Runs what is left of a plan, some steps beside each other, and says how far it is."""

import asyncio
import ctypes
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import yaml
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tools.atomic import write_text_atomically
from tools.base import OutputError, ToolformerError, one_line
from tools.places import why
from training.reproduce.journal import Journal
from training.reproduce.plan import Row, Step

_AT_ONCE = 2  # steps of one thread each, beside each other: for two cores
# Threads of torch that wait must not spin: they would take the core of the step beside them.
_THREADS = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0"}
_GRACE_S = 20.0
_END_WITH_PARENT = 1  # PR_SET_PDEATHSIG of prctl(2)


def run_steps(rows: Sequence[Row], journal: Journal, lock: int, console: Console) -> None:
    """Runs every step that has no mark; each hears of `lock`, which it holds while it runs.

    Raises:
        ToolformerError: a step failed; it names the log. Those beside it are ended, and continue
            another time.
        OutputError: a configuration or a log cannot be written.
    """
    asyncio.run(_run_rows(rows, journal, lock, console))


async def _run_rows(rows: Sequence[Row], journal: Journal, lock: int, console: Console) -> None:
    steps = [step for row in rows for step in row]
    finished = [step for step in steps if journal.done(step)]
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
    )  # fmt: skip
    with Progress(*columns, console=console, transient=True) as progress:
        whole = progress.add_task("steps", total=len(steps), completed=len(finished))
        for row in rows:
            free = asyncio.Semaphore(_AT_ONCE)

            async def run(step: Step, free: asyncio.Semaphore = free) -> None:
                async with free:
                    shown = progress.add_task(f"  {step.title}", total=1)
                    begun = time.time()
                    try:
                        await _run_step(step, journal.log_of(step), lock)
                    finally:
                        progress.remove_task(shown)
                    journal.finish(step, begun=begun)
                    console.print(f"{step.title}: {time.time() - begun:,.0f} s", highlight=False)
                    progress.advance(whole)

            try:
                async with asyncio.TaskGroup() as group:
                    for step in row:
                        if not journal.done(step):
                            group.create_task(run(step))
            except* ToolformerError as failed:
                raise failed.exceptions[0] from None


async def _run_step(step: Step, log: Path, lock: int) -> None:
    _prepare(step)
    with _opened(log) as output:
        process = await asyncio.create_subprocess_exec(
            *step.command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=asyncio.subprocess.STDOUT,
            env=_THREADS | os.environ,
            pass_fds=(lock,),
            preexec_fn=_end_with_parent if sys.platform == "linux" else None,
        )
        try:
            status = await process.wait()
        except asyncio.CancelledError:
            await _end(process)
            raise
    if status:
        raise ToolformerError(
            f"{step.name} failed with status {status}: {_last_line(log)}; its log: {log}"
        )


def _prepare(step: Step) -> None:
    for path, settings in step.files.items():
        write_text_atomically(path, yaml.safe_dump(dict(settings), sort_keys=False))
    for source, target in step.copied.items():
        try:
            shutil.copytree(source, target, dirs_exist_ok=True)
        except OSError as error:
            raise OutputError(f"{target}: cannot copy {source}: {one_line(error)}") from None


@contextmanager
def _opened(log: Path) -> Iterator[IO[bytes]]:
    """The log of a step, behind what its earlier tries said."""
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        file = log.open("ab")
    except OSError as error:
        raise OutputError(f"{log}: cannot write: {why(error)}") from None
    with file:
        yield file


async def _end(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), _GRACE_S)
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _end_with_parent() -> None:
    """Of the process that is started: where this one is killed it ends as well."""
    ctypes.CDLL(None).prctl(_END_WITH_PARENT, signal.SIGTERM)


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    said = [line.strip() for line in lines if line.strip()]
    return said[-1] if said else "it said nothing"
