"""How far an evaluation is, while it runs."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


class EvaluationProgress:
    """Completions of all models, and the tokens of a corpus while its perplexity is measured."""

    def __init__(self, progress: Progress, asking: TaskID) -> None:
        self._progress, self._asking = progress, asking

    def say(self, model: str, benchmark: str, api_top_k: int) -> None:
        """What is asked now."""
        told = f"{model}: {benchmark}, k = {api_top_k}"
        self._progress.update(self._asking, description=escape(told))

    def advance(self) -> None:
        """One more is there."""
        self._progress.advance(self._asking)

    @contextmanager
    def measuring(self, model: str, corpus: str) -> Iterator["TokenProgress"]:
        """The progress of a perplexity, shown for as long as it is measured."""
        task = self._progress.add_task(escape(f"{model}: perplexity on {corpus}"), total=None)
        yield TokenProgress(self._progress, task)
        self._progress.remove_task(task)


class TokenProgress:
    """Is called with the tokens that are done, and of how many."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress, self._task = progress, task

    def __call__(self, done: int, total: int) -> None:
        self._progress.update(self._task, completed=done, total=total)


@contextmanager
def evaluation_progress(console: Console, *, total: int) -> Iterator[EvaluationProgress]:
    """Shown until the context ends; so many completions are to be asked for."""
    columns = (
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        asking = progress.add_task("evaluate", total=total)
        yield EvaluationProgress(progress, asking)
