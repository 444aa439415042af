"""Reads what the steps of a reproduction wrote."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from pipeline.config import ModelConfig
from pipeline.report.calls import CallFilter, CallQuery, ShownCall, find_calls
from pipeline.rundir import RunDir
from tools.base import InputError
from tools.places import why
from training.evaluate.config import EvaluateConfig, load_evaluate_config
from training.evaluate.measured import load_corpora, measurements
from training.evaluate.measured import measured as measured_losses
from training.evaluate.parameters import num_parameters
from training.evaluate.perplexity import DocumentLosses
from training.evaluate.plan import load_benchmarks
from training.evaluate.plan import plan as evaluation_plan
from training.reproduce.config import ReproduceConfig
from training.reproduce.measured import Built, SizeMeasured
from training.reproduce.plan import Places

_EVERY = 10**9


def gather(config: ReproduceConfig, *, on_size: Callable[[str], None]) -> list[SizeMeasured]:
    """What was measured of each size, in their order; `on_size` is told which is looked at.

    Raises:
        InputError: what a step wrote is missing or torn.
    """
    places, measured = Places(config.out), []
    for size, base in config.models.items():
        on_size(size)
        evaluated = load_evaluate_config(places.config(f"evaluate-{size}"))
        tasks = evaluation_plan(evaluated, load_benchmarks(evaluated))
        measured.append(
            SizeMeasured(
                name=size,
                parameters=num_parameters(ModelConfig(path=base)),
                built=built(places.run(size)),
                answers={
                    (task.model, task.params.api_top_k, task.benchmark.name): task.answers()
                    for task in tasks
                },
                losses=_losses(evaluated),
            )
        )
    return measured


def built(run: Path) -> Built:
    """What a build counted.

    Raises:
        InputError: there is none, or it is not readable.
    """
    path = run / "build.json"
    try:
        told = json.loads(path.read_bytes())
        return Built(
            documents=told["documents"],
            calls=told["calls"],
            tokens=told["tokens"],
            tokens_plain=told["tokens_plain"],
            kept={tool: counts["kept"] for tool, counts in told["tools"].items()},
            examples_at={tool: counts["examples_at"] for tool, counts in told["tools"].items()},
        )
    except OSError as error:
        raise InputError(f"{path}: cannot read: {why(error)}") from None
    except (ValueError, KeyError) as error:
        raise InputError(f"{path}: not what a build counted: {error!r}") from None


def calls_by_gain(run: Path, *, each: int) -> list[ShownCall]:
    """For each tool of a run its calls with the highest, middle and lowest gains, by gain.

    Each is of a document of its own.
    """
    directory = RunDir(run)
    tools = directory.config().tools
    tau_f = {name: tool.tau_f for name, tool in tools.items()}
    files = list(directory.finished_unit_files())
    every = find_calls(
        files,
        tau_f,
        [CallQuery(where=CallFilter(tool=tool, scored=True), limit=_EVERY) for tool in tools],
    )
    chosen = [shown for calls in every for shown in _spread(_known(calls), each)]
    return sorted(chosen, key=lambda shown: -shown.worth)


def _known(calls: Sequence[ShownCall]) -> list[ShownCall]:
    """Those with a gain, the best of each document."""
    best: dict[str, ShownCall] = {}
    for shown in calls:
        if shown.gain is not None:
            best.setdefault(shown.doc_id, shown)
    return list(best.values())


def _spread(calls: Sequence[ShownCall], count: int) -> list[ShownCall]:
    """`count` of them, at even distances from the first to the last."""
    if len(calls) <= count:
        return list(calls)
    return [calls[round(number * (len(calls) - 1) / (count - 1))] for number in range(count)]


def _losses(evaluated: EvaluateConfig) -> dict[tuple[str, str], DocumentLosses]:
    return {
        (each.model, each.corpus): measured_losses(each)
        for each in measurements(evaluated, load_corpora(evaluated))
    }
