"""What there is to ask: each model on each benchmark in each way, with a file for each."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pipeline.engines.checkpoint import weights_id
from tools.base import InputError
from tools.places import why
from training.benchmarks.example import Benchmark, Criterion, Example
from training.evaluate.answers import Answer, Answers
from training.evaluate.config import BenchmarkConfig, EvaluateConfig, EvaluatedModel, slug
from training.evaluate.models import Completion
from training.evaluate.registry import drawn, load_benchmark
from training.generate.params import GenerationParams

# The paper does not say how much it lets a model write. This is enough for what is judged: so many
# words, and in math the first number, which mostly stands in the first sentence.
MAX_NEW_TOKENS: Mapping[Criterion, int] = {
    "word_within_5": 24,
    "number": 64,
    "answer_within_20": 64,
    "answer_within_10": 48,
}
_DIGEST_BYTES = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A benchmark one model is asked in one way; `identity` is all that its answers depend on."""

    model: str
    benchmark: Benchmark
    params: GenerationParams
    asked: tuple[tuple[Example, GenerationParams], ...]
    path: Path  # of the answers, once all are there
    identity: Mapping[str, Any]

    @property
    def is_finished(self) -> bool:
        return self.path.exists()

    def answers(self) -> Answers:
        """What the file of answers holds.

        Raises:
            InputError: it cannot be read, or does not hold the answers to this.
        """
        try:
            lines = [json.loads(line) for line in self.path.read_bytes().splitlines()]
            found = [
                Answer(
                    example=example,
                    completion=line["text"],
                    tools_called=tuple(line["tools_called"]),
                    error=line["error"],
                    statuses=tuple(call["status"] for call in line.get("calls", ())),
                )
                for (example, _), line in zip(self.asked, lines, strict=True)
                if line["id"] == example.id
            ]
            if len(found) != len(lines):
                raise ValueError("they are of other examples")
        except OSError as error:
            raise InputError(f"{self.path}: cannot read: {why(error)}") from None
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{self.path}: not the {len(self.asked)} answers it was written with ({error}); "
                "remove it to ask again"
            ) from None
        return Answers(
            model=self.model,
            benchmark=self.benchmark,
            api_top_k=self.params.api_top_k,
            answers=tuple(found),
        )


def line_of(example: Example, params: GenerationParams, completion: Completion) -> dict[str, Any]:
    """An example, "today" as the Calendar has it, and what became of it, as its file has them."""
    return {
        "id": example.id,
        "prompt": example.prompt,
        "answers": example.answers,
        "date": str(params.date),
        "text": completion.text,
        "tools_called": completion.tools_called,
        "error": completion.error,
        **completion.line,
    }


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
    """All there is to ask, model by model.

    Raises:
        ConfigError: a checkpoint is not there.
    """
    return [
        _task(config, name, benchmark, params)
        for name, model in config.models.items()
        for settings, benchmark in benchmarks
        for params in _decodings(config, model, settings, benchmark)
    ]


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
    config: EvaluateConfig, name: str, benchmark: Benchmark, params: GenerationParams
) -> Task:
    model = config.models[name]
    asked = tuple(
        (example, params.model_copy(update={"date": example.date or config.date}))
        for example in benchmark.examples
    )
    identity = {
        **model_identity(model, config),
        "tools": {} if params.disabled else tools_identity(config),
        "params": params.model_dump(mode="json"),
        "examples": [
            asdict(example) | {"date": str(of_example.date)} for example, of_example in asked
        ],
    }
    file = f"{benchmark.name}-k{params.api_top_k}.{digest_of(identity)}.jsonl"
    return Task(
        model=name,
        benchmark=benchmark,
        params=params,
        asked=asked,
        path=config.out / "answers" / slug(name) / file,
        identity=identity,
    )


def model_identity(model: EvaluatedModel, config: EvaluateConfig) -> dict[str, Any]:
    """What tells a model from others, however it is served.

    Raises:
        ConfigError: there is no such checkpoint.
    """
    if model.endpoint is not None:
        return {"endpoint": [model.endpoint.url, model.endpoint.model]}
    checkpoint, engine = model.checkpoint, config.engine
    assert checkpoint is not None  # a model is one of both
    weights = weights_id(checkpoint.path, checkpoint.revision)
    return {"model": [weights, checkpoint.dtype, engine.name, engine.options]}


def tools_identity(config: EvaluateConfig) -> dict[str, Any]:
    """What the tools answer with."""
    tools = {name: [tool.factory, tool.options] for name, tool in config.tools.items()}
    return {"tools": tools, "max_result_tokens": config.max_result_tokens}


def digest_of(identity: Mapping[str, Any]) -> str:
    """A short name for it in that of a file."""
    data = json.dumps(identity, sort_keys=True).encode()
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).hexdigest()
