"""The run configuration: what a user writes in YAML. Defaults are the paper's (Appendix A).

Relative paths are relative to the directory the command is started in; `run` and `input` may be
places in a store, as s3://bucket/name. Unknown keys and wrong types are errors that name the key.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from pipeline.engine_config import EngineConfig as EngineConfig
from pipeline.engine_config import EnginesConfig, Kind, PoolPlan, plan_pools
from pipeline.settings import Section, read_settings
from pipeline.tool_config import ServedTool, check_tool_names
from tools.places import OutputField, Place, PlaceField

# Appendix A: tools whose documents are pre-filtered get more positions and samples.
PAPER_DEFAULTS: dict[str, float | int] = {"tau_s": 0.05, "tau_f": 1.0, "k": 5, "m": 5}
PAPER_RARE_TOOL_DEFAULTS: dict[str, float | int] = {"tau_s": 0.0, "tau_f": 0.5, "k": 20, "m": 10}
MT = "MT"  # it reads single paragraphs, and its calls must not look ahead (Appendix A.1)
RARE_TOOLS = ("Calculator", MT)


class ModelConfig(Section):
    """The language model M: a directory in Hugging Face layout or a Hub name."""

    path: str
    revision: str | None = None
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"

    @field_validator("path")
    @classmethod
    def _a_directory_is_the_same_one_everywhere(cls, path: str) -> str:
        """Absolute: actors and later commands may be started in another directory."""
        return str(Path(path).resolve()) if Path(path).is_dir() else path


class SamplingConfig(Section):
    """S. The paper does not state how calls are decoded; plain ancestral sampling is assumed."""

    temperature: float = Field(default=1.0, ge=0.0)
    top_p: float = Field(default=1.0, gt=0.0, le=1.0)
    max_new_tokens: int = Field(default=64, ge=1)


class ToolConfig(ServedTool):
    """One tool: how it is served, its prompt, and its thresholds (Appendix A)."""

    prompt: Path | None = None  # P(x); the paper's prompt for this tool when not given
    tau_s: float = Field(default=0.05, ge=0.0, lt=1.0)
    tau_f: float = Field(default=1.0, ge=0.0, allow_inf_nan=False)
    k: int = Field(default=5, ge=1)
    m: int = Field(default=5, ge=1)
    max_examples: int = Field(default=25_000, ge=1)  # Appendix B: up to 25k examples per API


class MtFilterConfig(Section):
    """Which paragraphs MT is offered: foreign chunks between English ones (Appendix A.1)."""

    chunk_tokens: int = Field(default=10, ge=1)
    min_confidence: float = Field(default=0.8, ge=0.0, le=1.0)  # a foreign chunk has more
    english_confidence: float = Field(default=0.5, ge=0.0, le=1.0)  # an English one, at least
    language_id: Path | None = None  # a fastText model; the small bundled one when not given

    @field_validator("language_id")
    @classmethod
    def _a_file_is_the_same_one_everywhere(cls, path: Path | None) -> Path | None:
        """Absolute: stages run in other directories."""
        return None if path is None else path.resolve()


class RunConfig(Section):
    """A whole annotation run."""

    run: OutputField  # the run directory; `--run` overrides it
    input: list[PlaceField] = Field(min_length=1)  # DOCUMENTS Parquet, or directories of it
    model: ModelConfig
    tools: dict[str, ToolConfig] = Field(min_length=1)
    seed: int = 0
    engine: EngineConfig = EngineConfig()
    engines: EnginesConfig = EnginesConfig()
    sampling: SamplingConfig = SamplingConfig()
    mt_filter: MtFilterConfig = MtFilterConfig()
    max_document_tokens: int = Field(default=768, ge=8)  # longer documents are split
    max_result_tokens: int = Field(default=100, ge=1)  # longer results are cut at a sentence end
    max_document_bytes: int = Field(default=2_000_000, ge=1)  # larger ones are dropped, counted
    unit_documents: int = Field(default=64, ge=1)
    tool_cache: Path | None = None  # a directory on a local disk; runs that name it share results
    max_failed_documents: float = Field(default=0.05, ge=0.0, le=1.0)  # a larger share stops a run
    max_failed_calls: float = Field(default=0.5, ge=0.0, le=1.0)  # of one tool; so does this
    exact_reductions: bool = True  # skip what provably cannot be kept
    report_tau_f: list[Annotated[float, Field(ge=0.0, allow_inf_nan=False)]] = Field(
        default=[0.5, 1.0, 2.0], min_length=1
    )  # Table 2

    @field_validator("input", mode="before")
    @classmethod
    def _one_path_is_a_list(cls, value: Any) -> Any:
        return [value] if isinstance(value, str | Place) else value

    @field_validator("tool_cache")
    @classmethod
    def _the_cache_is_one_directory_everywhere(cls, directory: Path | None) -> Path | None:
        """Absolute: the stages may be started in another directory."""
        return None if directory is None else directory.resolve()

    @field_validator("tools")
    @classmethod
    def _tool_names_can_stand_in_a_call(cls, tools: dict[str, ToolConfig]) -> dict[str, ToolConfig]:
        check_tool_names(tools)
        return tools

    @model_validator(mode="before")
    @classmethod
    def _fill_in_the_papers_thresholds(cls, data: Any) -> Any:
        if not isinstance(data, dict) or not isinstance(data.get("tools"), dict):
            return data
        filled = {}
        for name, settings in data["tools"].items():
            paper = PAPER_RARE_TOOL_DEFAULTS if name in RARE_TOOLS else PAPER_DEFAULTS
            known = settings if isinstance(settings, dict) else {} if settings is None else None
            filled[name] = settings if known is None else paper | known
        return data | {"tools": filled}

    @property
    def smallest_tau_f(self) -> float:
        """The smallest threshold any result of this run is ever reported or built at."""
        return min([*self.report_tau_f, *(tool.tau_f for tool in self.tools.values())])

    @property
    def pools(self) -> tuple[PoolPlan, ...]:
        """The pools of replicas of M: together they answer every kind, each kind one of them."""
        return plan_pools(self.engine, self.engines)

    def pool_of(self, kind: Kind) -> PoolPlan:
        """The pool that answers `kind`."""
        return next(pool for pool in self.pools if kind in pool.kinds)


def load_config(path: Path, *, run: Place | None = None, model: str | None = None) -> RunConfig:
    """The configuration in the YAML file `path`, with another run directory or language model.

    Of the configured `model` the dtype stays; a revision is of another checkpoint.

    Raises:
        ConfigError: the file is missing or is not YAML, or a key is unknown or has a wrong type.
    """
    config = read_settings(path, RunConfig, {} if run is None else {"run": str(run)})
    if model is None:
        return config
    other = ModelConfig(path=model, dtype=config.model.dtype)
    return config.model_copy(update={"model": other})
