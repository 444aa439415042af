"""An evaluation: whatever is not there yet is asked and measured, and then all of it is told.

Each model on each benchmark has a file of answers, which grows line by line: what is killed goes
on after its last line, and what is finished is used again, by later evaluations too.
"""

import asyncio
import fcntl
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from tools.base import OutputError
from tools.places import why
from training.evaluate.config import EvaluateConfig, EvaluatedModel
from training.evaluate.endpoint import EndpointModel
from training.evaluate.endpoint_cost import agree_to_cost, expected_cost
from training.evaluate.measured import load_corpora, measured, measurements
from training.evaluate.models import Model
from training.evaluate.parameters import num_parameters
from training.evaluate.plan import Task, line_of, load_benchmarks, plan
from training.evaluate.progress import EvaluationProgress, evaluation_progress
from training.evaluate.results import ModelFacts, Results, write_results
from training.evaluate.scores import score
from training.generate.growing_file import growing_file

_LOCK = ".evaluate.lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """What was found, and how much of it was asked for now."""

    results: Results
    num_asked: int
    num_answers: int

    @property
    def num_errors(self) -> int:
        """Prompts without a completion."""
        return sum(each.errors for each in self.results.scores)


def evaluate(
    config: EvaluateConfig, console: Console, *, yes: bool = False, address: str | None = None
) -> Evaluation:
    """All the configuration asks for, written to `config.out`; one model is loaded at a time.

    `yes` agrees to what endpoints cost. `address` is that of the Ray cluster for tools' actors.

    Raises:
        ToolformerError: a model, a tool, a file or an endpoint cannot be used, another command
            evaluates into `config.out`, or it cannot be written.
    """
    with _alone(config.out):
        tasks = plan(config, load_benchmarks(config))
        corpora = load_corpora(config)
        to_measure = measurements(config, corpora)
        unfinished = [task for task in tasks if not task.is_finished]
        _agree_to_costs(config, unfinished, console, yes=yes)
        total = sum(len(task.asked) for task in tasks)
        left = sum(len(task.asked) for task in unfinished)
        with evaluation_progress(console, total=total, finished=total - left) as progress:
            num_asked = sum(
                asyncio.run(_ask(config, config.models[name], of_model, address, progress))
                for name, of_model in _by_model(unfinished).items()
            )
            perplexities = [
                measured(config, each, corpora[each.corpus], progress) for each in to_measure
            ]
        results = Results(
            seed=config.seed,
            models={name: _facts(model) for name, model in config.models.items()},
            scores=[score(task.answers(), seed=config.seed) for task in tasks],
            perplexities=perplexities,
        )
        write_results(config.out, results, {each.name: each.models for each in config.scaling})
    return Evaluation(results=results, num_asked=num_asked, num_answers=total)


async def _ask(
    config: EvaluateConfig,
    settings: EvaluatedModel,
    tasks: Sequence[Task],
    address: str | None,
    progress: EvaluationProgress,
) -> int:
    """How many prompts a model was asked, until all tasks of its were finished."""
    num_asked = 0
    async with _loaded(config, settings, address) as model:
        for task in tasks:
            progress.say(task.model, task.benchmark.name, task.params.api_top_k)
            with growing_file(task.path, task.identity) as file:
                num_earlier = sum(1 for _ in file.earlier())
                progress.advance(num_earlier)
                left = task.asked[num_earlier:]
                waiting = iter(left)
                async with aclosing(model.answers(left)) as completions:
                    async for completion in completions:
                        file.add(line_of(*next(waiting), completion))
                        progress.advance()
                assert next(waiting, None) is None, "a model answers all it is asked"
                num_asked += len(left)
    return num_asked


@asynccontextmanager
async def _loaded(
    config: EvaluateConfig, settings: EvaluatedModel, address: str | None
) -> AsyncIterator[Model]:
    if settings.endpoint is not None:
        async with EndpointModel(settings.endpoint) as hosted:
            yield hosted
        return
    from training.evaluate.local import local_model  # loads torch

    checkpoint = settings.checkpoint
    assert checkpoint is not None  # a model is one of both
    async with local_model(config, checkpoint, calls=settings.calls, address=address) as local:
        yield local


def _agree_to_costs(
    config: EvaluateConfig, tasks: Sequence[Task], console: Console, *, yes: bool
) -> None:
    costs = {}
    for task in tasks:
        endpoint = config.models[task.model].endpoint
        if endpoint is not None:
            EndpointModel(endpoint)  # says at once that there is no key
            prompts = [example.prompt for example, _ in task.asked]
            cost = expected_cost(endpoint, prompts, task.params.max_new_tokens)
            costs[f"{task.model}: {task.benchmark.name}"] = cost
    if costs:
        agree_to_cost(costs, console, yes=yes)


def _by_model(tasks: Sequence[Task]) -> dict[str, list[Task]]:
    by_model: defaultdict[str, list[Task]] = defaultdict(list)
    for task in tasks:
        by_model[task.model].append(task)
    return by_model


def _facts(model: EvaluatedModel) -> ModelFacts:
    if model.endpoint is not None:
        return ModelFacts(where=model.endpoint.url, parameters=None, calls=False)
    assert model.path is not None and model.checkpoint is not None  # a model is one of both
    parameters = num_parameters(model.checkpoint)
    return ModelFacts(where=model.path, parameters=parameters, calls=model.calls)


@contextmanager
def _alone(out: Path) -> Iterator[None]:
    """Nobody else evaluates into `out` while the context lasts.

    Raises:
        OutputError: somebody does, or it cannot be written.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock = (out / _LOCK).open("a")
    except OSError as error:
        raise OutputError(f"{out}: cannot write: {why(error)}") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OutputError(f"{out}: another command is evaluating into it") from None
        yield
