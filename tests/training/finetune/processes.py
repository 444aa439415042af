"""The processes of a training, forked from one that has imported the libraries already.

A launcher's processes import torch, transformers and DeepSpeed each: six CPU seconds apiece.
"""

import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Any

_PRELOADED = [
    "deepspeed.runtime.zero.muon.muon_optimizer",  # a second half of the six: torch.compile
    "transformers.models.gptj.modeling_gptj",
    "training.finetune.finetune",
]
_ENDS_WITHIN_S = 240.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How the processes of a training ended."""

    codes: list[int]  # of rank 0, 1, ...
    outputs: list[str]  # what each wrote to its terminal


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The running processes of a training."""

    processes: list[ForkServerProcess]
    logs: list[Path]

    def end(self) -> Ended:
        """Waits for all of them, as a launcher ends those that are left when one has failed."""
        for process in self.processes:
            process.join(_ENDS_WITHIN_S)
            if process.exitcode is None:
                process.kill()
                process.join()
        codes = [process.exitcode or 0 for process in self.processes]
        return Ended(codes=codes, outputs=[log.read_text() for log in self.logs])


def start(work: Callable[..., Any], arguments: Sequence[Any], directory: Path, num: int) -> Started:
    """`work(*arguments)` in `num` processes with the environment that a launcher gives them."""
    context = _context()
    directory.mkdir(parents=True, exist_ok=True)
    logs = [directory / f"rank-{rank}.log" for rank in range(num)]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes = []
    for rank, log in enumerate(logs):
        environment = {
            "RANK": rank,
            "WORLD_SIZE": num,
            "LOCAL_RANK": rank,
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
        }
        process = context.Process(
            target=_run, args=(work, arguments, {k: str(v) for k, v in environment.items()}, log)
        )
        process.start()
        processes.append(process)
    return Started(processes=processes, logs=logs)


def _context() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    # The server keeps the environment it is started in.
    os.environ |= {"OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu", "TORCH_CPP_LOG_LEVEL": "ERROR"}
    context.set_forkserver_preload(_PRELOADED)
    return context


def _run(
    work: Callable[..., Any], arguments: Sequence[Any], environment: dict[str, str], log: Path
) -> None:
    """In a process of its own: what it writes goes to `log`."""
    os.environ.update(environment)
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
    code = 0
    try:
        work(*arguments)
    except SystemExit as leaving:
        code = int(leaving.code or 0)
    except Exception:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # at once, as what has failed may leave threads that wait


def finetuned(settings: dict[str, Any]) -> None:
    """What the command does in every process of a training."""
    from rich.console import Console

    from tools.base import ToolformerError, one_line
    from training.finetune.config import FinetuneConfig
    from training.finetune.finetune import finetune
    from training.finetune.ranks import AnotherFailed, ProcessLost

    console = Console(width=160) if os.environ["RANK"] == "0" else None
    try:
        finetune(FinetuneConfig.model_validate(settings), console=console)
    except AnotherFailed:
        sys.exit(1)
    except (ToolformerError, ProcessLost) as error:
        print(f"error: {one_line(error)}", file=sys.stderr)
        sys.exit(1)


def finetuned_until(sign: str, doomed: int, settings: dict[str, Any]) -> None:
    """The same, but the process of rank `doomed` is killed as soon as there is a file `sign`."""

    def kill_self() -> None:
        while not os.path.exists(sign):
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGKILL)

    if int(os.environ["RANK"]) == doomed:
        threading.Thread(target=kill_self, daemon=True).start()
    finetuned(settings)
