"""The processes of a training on a Ray cluster, by Ray Train.

Ray Train starts all of them again where one was lost. What a user has to see to (a configuration, a
full disk, a loss that is no number) would only happen again: it ends the training.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from queue import Empty, SimpleQueue
from textwrap import shorten
from threading import Thread
from typing import Any, TypeAlias

import ray
from ray.exceptions import RayError
from rich.console import Console

from pipeline.ray_session import our_error, short_text
from tools.base import ToolformerError

MAX_LOSSES = 3  # of workers, before the training fails

_POLL_S = 0.5
_WHY_CHARACTERS = 300  # Ray tells much of a dead process

# Runs in every worker: what it is given, and a console in that of rank 0.
Work: TypeAlias = Callable[[Any, Console | None], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers:
    """The processes of a training, a rank each."""

    number: int | None = None  # one for each GPU of the cluster, else one for each node
    gpus: float | None = None  # of each; 1 where the cluster has GPUs
    cpus: float = 1.0  # of each

    def on(self, nodes: Sequence[Mapping[str, float]]) -> "Workers":
        """The same with nothing left open, on nodes with these resources."""
        gpus = float(any(node.get("GPU") for node in nodes)) if self.gpus is None else self.gpus
        each = Workers(number=self.number, gpus=gpus, cpus=self.cpus)
        rooms = [each.room([node]) for node in nodes]
        number = sum(rooms) if gpus else sum(room > 0 for room in rooms)
        return replace(each, number=self.number or max(number, 1))

    def resources(self) -> dict[str, float]:
        """Of each worker, as Ray names them."""
        return {"CPU": self.cpus} | ({"GPU": self.gpus} if self.gpus else {})

    def room(self, nodes: Sequence[Mapping[str, float]]) -> int:
        """How many nodes with these resources hold if nothing else runs there."""
        needed = self.resources().items()
        return sum(int(min(node.get(name, 0) / each for name, each in needed)) for node in nodes)


def run_on_ray(
    work: Work, given: Any, workers: Workers, *, directory: Path, console: Console
) -> Any:
    """What `work` returns in rank 0, on the cluster that this process has joined.

    It runs in the environment that torchrun makes, in a process group of torch. Rank 0 speaks to
    `console`. All nodes have to see `directory`, and do what is asked there again from where it
    was left when a worker is lost.

    Raises:
        ToolformerError: `work` raised it, or workers were lost more than MAX_LOSSES times.
    """
    # A worker stays where its code is: relative names hold there.
    os.environ["RAY_CHDIR_TO_TRIAL_DIR"] = "0"
    from ray.train import LoggingConfig, RunConfig, ScalingConfig, TrainingFailedError
    from ray.train.torch import TorchTrainer

    screen = ray.remote(num_cpus=0)(_Screen).remote()
    trainer = TorchTrainer(
        _in_a_worker,
        train_loop_config={
            "work": work,
            "given": given,
            "screen": screen,
            "looks": {"force_terminal": console.is_terminal, "width": console.width},
        },
        scaling_config=ScalingConfig(
            num_workers=workers.number or 1,
            use_gpu=bool(workers.gpus),
            resources_per_worker=workers.resources(),
        ),
        # Ray Train makes sure by it that all nodes see the same directory.
        run_config=RunConfig(  # type: ignore[call-arg]  # mypy sees what it was in Ray Train V1
            name="ray_train",
            storage_path=str(directory),
            logging_config=LoggingConfig(log_level="CRITICAL"),
        ),
    )
    losses = 0
    while True:
        result, error = _fit(trainer, screen, console)
        if error is None:
            return result
        if (ours := _ours(error)) is not None:
            raise ours from None
        losses += 1
        if not isinstance(error, TrainingFailedError) or losses > MAX_LOSSES:
            often = f", {losses} times" if losses > 1 else ""
            raise ToolformerError(
                f"Ray Train ended{often}: {_why(error)}; the same command continues"
            ) from None
        _tell(console, f"a worker is lost, all start again: {_why(error)}")


def _fit(trainer: Any, screen: Any, console: Console) -> tuple[Any, Exception | None]:
    """The result of rank 0, or what went wrong; meanwhile shows what rank 0 says."""
    ended: SimpleQueue[tuple[Any, Exception | None]] = SimpleQueue()

    def fit() -> None:
        try:
            ended.put((trainer.fit().return_value, None))
        except Exception as error:
            ended.put((None, error))

    # In the main thread Ray Train would take Ctrl-C for itself.
    Thread(target=fit, daemon=True).start()
    outcome = None
    while outcome is None:
        with suppress(Empty):
            outcome = ended.get(timeout=_POLL_S)
        console.file.write("".join(ray.get(screen.take.remote())))
        console.file.flush()
    return outcome


def _in_a_worker(settings: dict[str, Any]) -> Any:
    console = None
    if os.environ["RANK"] == "0":
        file: Any = _Remote(settings["screen"])
        console = Console(file=file, **settings["looks"])
    return settings["work"](settings["given"], console)


class _Screen:
    """An actor that keeps what is to be shown until the driver takes it."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    def write(self, text: str) -> None:
        self._texts.append(text)

    def take(self) -> list[str]:
        texts, self._texts = self._texts, []
        return texts


class _Remote:
    """A file for a Console, whose text goes to a _Screen."""

    def __init__(self, screen: Any) -> None:
        self._screen = screen

    def write(self, text: str) -> int:
        self._screen.write.remote(text)
        return len(text)

    def flush(self) -> None:
        pass


def _ours(error: Exception) -> ToolformerError | None:
    found = (our_error(each) for each in _failures(error))
    return next((each for each in found if each is not None), None)


def _why(error: Exception) -> str:
    """In one short line; a lost worker rather than what the others noticed of it."""
    failures = _failures(error)
    lost = [each for each in failures if isinstance(each, RayError)]
    return shorten(short_text((lost or failures)[0]), _WHY_CHARACTERS)


def _failures(error: Exception) -> list[Exception]:
    """What went wrong in the workers, or else around them."""
    # A dead worker can be one that Ray Train cannot end either, which it takes for its own failure.
    around = getattr(error, "controller_failure", error)
    found: list[Exception] = list(getattr(error, "worker_failures", {}).values()) or [around]
    return [getattr(each, "health_check_failure", each) for each in found]


def _tell(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
