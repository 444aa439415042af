"""What there is to ask: each model on each benchmark in each way, and where the answers are."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.base import InputError, Tool, uses_date
from training.benchmarks.example import Benchmark, Criterion, Example
from training.evaluate.answer_file import AnswerFile, Asked, Line
from training.evaluate.answers import Answer, Answers
from training.evaluate.config import BenchmarkConfig, EvaluateConfig, EvaluatedModel
from training.evaluate.directories import Directories, name_of
from training.evaluate.registry import drawn, load_benchmark
from training.generate.identity import built_tools, digest_of, model_identity, tools_identity
from training.generate.params import GenerationParams

# The paper does not say how much it lets a model write. This is enough for what is judged: so many
# words, and in math the first number, which mostly stands in the first sentence.
MAX_NEW_TOKENS: Mapping[Criterion, int] = {
    "word_within_5": 24,
    "number": 64,
    "answer_within_20": 64,
    "answer_within_10": 48,
}
# Without calls these change nothing.
_OF_CALLS = {"api_top_k", "max_calls", "max_call_tokens", "without_tools", "interactive_search"}

# Each prompt, with the first example that has it.
ToAsk = dict[Asked, tuple[Example, GenerationParams]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A benchmark one model is asked in one way.

    `file` is of all tasks with these answers: its path tells what they depend on but for the
    prompt, and the day where `uses_date`. `repeats_errors`: another try may come to an answer.
    """

    model: str
    benchmark: Benchmark
    params: GenerationParams
    examples: tuple[tuple[Example, GenerationParams], ...]
    file: AnswerFile
    uses_date: bool
    repeats_errors: bool

    def left(self) -> ToAsk:
        """What is to be asked: prompts without an answer that can stay, each once.

        Raises:
            InputError: the file of answers cannot be read, or is damaged.
        """
        lines = self.file.lines()
        left: ToAsk = {}
        for example, params in self.examples:
            asked = self.asked(example, params)
            if asked not in lines or self._is_asked_again(lines[asked]):
                left.setdefault(asked, (example, params))
        return left

    def answers(self) -> Answers:
        """What the file of answers holds.

        Raises:
            InputError: it cannot be read, is damaged, or lacks an answer.
        """
        lines, found = self.file.lines(), []
        for example, params in self.examples:
            line = lines.get(self.asked(example, params))
            if line is None:
                raise InputError(f"{self.file.path}: no answer to {example.id}")
            found.append(
                Answer(
                    example=example,
                    completion=line.text,
                    tools_called=tuple(call.tool for call in line.calls),
                    error=line.error,
                    statuses=tuple(call.status for call in line.calls),
                )
            )
        return Answers(
            model=self.model,
            benchmark=self.benchmark,
            api_top_k=self.params.api_top_k,
            answers=tuple(found),
        )

    def asked(self, example: Example, params: GenerationParams) -> Asked:
        """What the answer to an example is found by."""
        return Asked(prompt=example.prompt, date=str(params.date) if self.uses_date else None)

    def _is_asked_again(self, line: Line) -> bool:
        return line.may_be_otherwise or (self.repeats_errors and line.error is not None)


def load_benchmarks(config: EvaluateConfig) -> list[tuple[BenchmarkConfig, Benchmark]]:
    """Each benchmark of the configuration, with the examples that are drawn of it.

    Raises:
        InputError: a file is missing or broken, or has no example.
    """
    return [
        (
            each,
            drawn(
                load_benchmark(each.name, each.path, each.language),
                config.max_examples,
                seed=config.seed,
            ),
        )
        for each in config.benchmarks
    ]


def plan(
    config: EvaluateConfig, benchmarks: Sequence[tuple[BenchmarkConfig, Benchmark]]
) -> list[Task]:
    """All there is to ask, model by model; models that answer alike have files together.

    Raises:
        ToolformerError: a checkpoint is not there, or a tool cannot be built.
    """
    calls = any(model.has_calls for model in config.models.values())
    tools = built_tools(config.tools) if calls and any(config.api_top_k) else {}
    directories = Directories(config.out / "answers")
    return [
        _task(config, name, benchmark, params, directory, tools)
        for name, model in config.models.items()
        for directory in [_directory(directories, model, config)]
        for settings, benchmark in benchmarks
        for params in _decodings(config, model, settings, benchmark)
    ]


def _directory(directories: Directories, model: EvaluatedModel, config: EvaluateConfig) -> Path:
    if model.endpoint is not None:
        url, name = model.endpoint.url, model.endpoint.model
        return directories.of(name, [url, name])
    checkpoint = model.checkpoint
    assert checkpoint is not None  # a model is one of both
    return directories.of(name_of(checkpoint), model_identity(checkpoint, config.engine))


def _decodings(
    config: EvaluateConfig,
    model: EvaluatedModel,
    settings: BenchmarkConfig,
    benchmark: Benchmark,
) -> list[GenerationParams]:
    """Greedy, with at most one call (section 4.2), for each k."""
    # Differs from the paper: " [" has probability 0 in GPT-J and GPT-J + CC too, which call no
    # tool, and not only in Toolformer (disabled). So all four are decoded alike.
    return [
        GenerationParams(
            max_new_tokens=settings.max_new_tokens or MAX_NEW_TOKENS[benchmark.criterion],
            api_top_k=k,
            without_tools=benchmark.without_tools,
        )
        for k in (config.api_top_k if model.has_calls else [0])
    ]


def _task(
    config: EvaluateConfig,
    name: str,
    benchmark: Benchmark,
    params: GenerationParams,
    directory: Path,
    built: Mapping[str, Tool],
) -> Task:
    file = f"{benchmark.name}-k{params.api_top_k}.{digest_of(_identity(config, params, built))}"
    return Task(
        model=name,
        benchmark=benchmark,
        params=params,
        examples=tuple(
            (example, params.model_copy(update={"date": example.date or config.date}))
            for example in benchmark.examples
        ),
        file=AnswerFile(directory / f"{file}.jsonl"),
        uses_date=not params.disabled and _date_matters(built, params.without_tools),
        repeats_errors=config.models[name].endpoint is not None,
    )


def _identity(
    config: EvaluateConfig, params: GenerationParams, built: Mapping[str, Tool]
) -> dict[str, Any]:
    """What answers depend on beside the model, the prompt and the day."""
    settings = params.model_dump(mode="json", exclude={"date"})
    if params.disabled:
        return {name: value for name, value in settings.items() if name not in _OF_CALLS}
    return settings | tools_identity(config.tools, built, config.max_result_tokens)


def _date_matters(built: Mapping[str, Tool], without: Iterable[str]) -> bool:
    return any(uses_date(tool) for name, tool in built.items() if name not in set(without))
