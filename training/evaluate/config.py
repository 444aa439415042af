"""What is evaluated: models, benchmarks and corpora. Written in YAML."""

import datetime as dt
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from pipeline.config import ModelConfig
from pipeline.engine_config import EngineConfig
from pipeline.settings import Section, read_settings
from pipeline.tool_config import ServedTool, check_tool_names
from tools.base import ConfigError
from training.evaluate.corpus import CorpusConfig
from training.evaluate.endpoint import EndpointConfig
from training.evaluate.registry import check_benchmark
from training.generate.params import PAPER_API_TOP_K

# The paper is of this day; it does not say what the Calendar was told where it asks for no date.
PAPER_DATE = dt.date(2023, 2, 9)

TopK = Annotated[int, Field(ge=0, lt=2**31)]


class EvaluatedModel(Section):
    """A checkpoint (`path`, as in `model` elsewhere) or what is behind an `endpoint`.

    One without `calls` gets no tools, and " [" has probability 0.
    """

    path: str | None = None
    revision: str | None = None
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    calls: bool = True
    endpoint: EndpointConfig | None = None

    @model_validator(mode="after")
    def _a_checkpoint_or_an_endpoint(self) -> "EvaluatedModel":
        if (self.path is None) == (self.endpoint is None):
            raise ValueError("expected one of path and endpoint")
        others = self.model_fields_set - {"endpoint"}
        if self.endpoint is not None and others:
            raise ValueError(f"{', '.join(sorted(others))}: not of a model behind an endpoint")
        return self

    @property
    def checkpoint(self) -> ModelConfig | None:
        """What is loaded; nothing, of a model behind an endpoint."""
        if self.path is None:
            return None
        return ModelConfig(path=self.path, revision=self.revision, dtype=self.dtype)

    @property
    def has_calls(self) -> bool:
        """Whether the model may call tools."""
        return self.calls and self.endpoint is None


class BenchmarkConfig(Section):
    """A benchmark of training/evaluate/registry.py, and where its published files are.

    `language` is for MLQA: all six where it is absent. `max_new_tokens` defaults to what the way
    it is judged needs (training/evaluate/plan.py).
    """

    name: str
    path: Path | None = None
    language: str | None = None
    max_new_tokens: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _there_is_such_a_benchmark(self) -> "BenchmarkConfig":
        try:
            check_benchmark(self.name, self.path, self.language)
        except ConfigError as error:
            raise ValueError(str(error)) from None
        return self


class ScalingConfig(Section):
    """A curve of Figure 4: models of one kind that differ in size."""

    name: str
    models: list[str] = Field(min_length=1)


class EvaluateConfig(Section):
    """Models by their names in the tables, in that order, on benchmarks and corpora.

    `engine`, `tools` and `tool_cache` are those of a generate configuration. `date` is "today" for
    the Calendar in a benchmark that has no dates.
    """

    out: Path
    models: dict[str, EvaluatedModel] = Field(min_length=1)
    benchmarks: list[BenchmarkConfig] = Field(default_factory=list)
    perplexity: list[CorpusConfig] = Field(default_factory=list)
    scaling: list[ScalingConfig] = Field(default_factory=list)
    api_top_k: list[TopK] = Field(default=[PAPER_API_TOP_K], min_length=1)  # several: Table 9
    max_examples: int | None = Field(default=None, ge=1)  # of each benchmark; all when absent
    seed: int = 0  # of the examples that are drawn, and of the bootstrap
    date: dt.date = PAPER_DATE
    engine: EngineConfig = EngineConfig()
    tools: dict[str, ServedTool] = Field(default_factory=dict)
    tool_cache: Path | None = None  # a directory on a local disk
    max_result_tokens: int = Field(default=100, ge=1)

    @field_validator("tools")
    @classmethod
    def _tool_names_can_stand_in_a_call(cls, tools: dict[str, ServedTool]) -> dict[str, ServedTool]:
        check_tool_names(tools)
        return tools

    @field_validator("api_top_k", mode="before")
    @classmethod
    def _one_k_is_a_list(cls, value: Any) -> Any:
        return [value] if isinstance(value, int) else value

    @field_validator("api_top_k")
    @classmethod
    def _every_k_once(cls, values: list[int]) -> list[int]:
        _no_two("values", map(str, values))
        return values

    @model_validator(mode="after")
    def _there_is_something_to_do(self) -> "EvaluateConfig":
        if not self.benchmarks and not self.perplexity:
            raise ValueError("expected benchmarks, perplexity, or both")
        languages: dict[str, list[str]] = {}
        for each in self.benchmarks:
            languages.setdefault(each.name, []).append(each.language or "")
        for name, asked in languages.items():
            _no_two("benchmarks are", (f"{name} {language}".strip() for language in asked))
            if "" in asked and len(asked) > 1:
                raise ValueError(f"{name} without a language has all six; expected it alone")
        _no_two("corpora are", (corpus.name for corpus in self.perplexity))
        _no_two("curves are", (curve.name for curve in self.scaling))
        for curve in self.scaling:
            for name in curve.models:
                if name not in self.models:
                    raise ValueError(
                        f"scaling: {name!r} is none of the models: {', '.join(self.models)}"
                    )
        if self.perplexity and self.engine.tensor_parallel_size > 1:
            raise ValueError(
                "perplexity is measured by torch, which does not split a model: "
                f"engine.tensor_parallel_size is {self.engine.tensor_parallel_size}, expected 1"
            )
        return self


def load_evaluate_config(path: Path, **changes: object) -> EvaluateConfig:
    """The configuration in the YAML file `path`, with `changes` to its top level.

    Raises:
        ConfigError: the file is missing or is not YAML, or a key is unknown or has a wrong type.
    """
    return read_settings(path, EvaluateConfig, changes)


def _no_two(what: str, names: Iterable[str]) -> None:
    for name, number in Counter(names).items():
        if number > 1:
            raise ValueError(f"{number} {what} {name}")
