"""An evaluation: whatever is not there yet is asked and measured, and then all of it is told.

Each model on each benchmark has a file of answers, which grows line by line. What was answered is
not asked again: after a kill, with more examples, or where a model is called by another name.
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
from training.evaluate.answers import TextPerplexity
from training.evaluate.config import EvaluateConfig, EvaluatedModel
from training.evaluate.endpoint import EndpointModel
from training.evaluate.endpoint_cost import agree_to_cost, expected_cost
from training.evaluate.measured import (
    Measurement,
    load_corpora,
    measure,
    measured,
    measurements,
)
from training.evaluate.models import Model
from training.evaluate.parameters import num_parameters
from training.evaluate.perplexity import perplexity_of
from training.evaluate.plan import Task, ToAsk, load_benchmarks, plan
from training.evaluate.progress import EvaluationProgress, evaluation_progress
from training.evaluate.results import ModelFacts, Results, write_results
from training.evaluate.scores import score

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
        facts = {name: _facts(model) for name, model in config.models.items()}
        left = {task.file.path: (task, task.left()) for task in tasks}
        unfinished = [(task, asked) for task, asked in left.values() if asked]
        _agree_to_costs(config, unfinished, console, yes=yes)

        def tell(perplexities: Sequence[TextPerplexity]) -> Results:
            scores = [score(task.answers(), seed=config.seed) for task in tasks]
            results = Results(
                seed=config.seed, models=facts, scores=scores, perplexities=perplexities
            )
            write_results(config.out, results, {each.name: each.models for each in config.scaling})
            return results

        num_asked = sum(len(asked) for _, asked in unfinished)
        with evaluation_progress(console, total=num_asked) as progress:
            for name, of_model in _by_model(unfinished).items():
                asyncio.run(_ask(config, config.models[name], of_model, address, progress))
            if to_measure and tasks:  # told before what may fail for another reason
                tell([_told(each, config) for each in to_measure if each.path.exists()])
            for each in to_measure:
                measure(config, each, corpora[each.corpus], progress)
        results = tell([_told(each, config) for each in to_measure])
    return Evaluation(
        results=results, num_asked=num_asked, num_answers=sum(len(task.examples) for task in tasks)
    )


async def _ask(
    config: EvaluateConfig,
    settings: EvaluatedModel,
    tasks: Sequence[tuple[Task, ToAsk]],
    address: str | None,
    progress: EvaluationProgress,
) -> None:
    """Asks one model all that is left of its tasks."""
    async with _loaded(config, settings, address) as model:
        for task, left in tasks:
            progress.say(task.model, task.benchmark.name, task.params.api_top_k)
            asked, examples = list(left), list(left.values())
            with task.file.adding() as add:
                async with aclosing(model.answers(examples)) as completions:
                    async for number, completion in completions:
                        add(examples[number][0].id, asked[number], completion)
                        progress.advance()


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
    config: EvaluateConfig,
    unfinished: Sequence[tuple[Task, ToAsk]],
    console: Console,
    *,
    yes: bool,
) -> None:
    costs = {}
    for task, left in unfinished:
        endpoint = config.models[task.model].endpoint
        if endpoint is not None:
            EndpointModel(endpoint)  # says at once that there is no key
            prompts = [asked.prompt for asked in left]
            cost = expected_cost(endpoint, prompts, task.params.max_new_tokens)
            costs[f"{task.model}: {task.benchmark.name}"] = cost
    if costs:
        agree_to_cost(costs, console, yes=yes)


def _by_model(
    unfinished: Sequence[tuple[Task, ToAsk]],
) -> dict[str, list[tuple[Task, ToAsk]]]:
    by_model: defaultdict[str, list[tuple[Task, ToAsk]]] = defaultdict(list)
    for task, left in unfinished:
        by_model[task.model].append((task, left))
    return by_model


def _told(measurement: Measurement, config: EvaluateConfig) -> TextPerplexity:
    losses = measured(measurement)
    model, corpus = measurement.model, measurement.corpus
    return perplexity_of(losses, name=model, corpus=corpus, seed=config.seed)


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
        except OSError as error:
            raise OutputError(f"{out}: cannot be locked: {why(error)}") from None
        yield
