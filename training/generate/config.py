"""What generates: a model, an engine, and tools that answer. Written in YAML."""

from pathlib import Path

from pydantic import Field, field_validator

from pipeline.config import ModelConfig
from pipeline.engine_config import EngineConfig
from pipeline.settings import Section, read_settings
from pipeline.tool_config import ServedTool, check_tool_names
from training.generate.params import GenerationParams


class GenerateConfig(Section):
    """A finetuned model with its tools. `decoding` are the defaults of a request."""

    model: ModelConfig
    engine: EngineConfig = EngineConfig()
    tools: dict[str, ServedTool] = Field(default_factory=dict)
    tool_cache: Path | None = None  # a directory on a local disk
    max_result_tokens: int = Field(default=100, ge=1)  # longer results are cut at a sentence end
    decoding: GenerationParams = GenerationParams()

    @field_validator("tools")
    @classmethod
    def _tool_names_can_stand_in_a_call(cls, tools: dict[str, ServedTool]) -> dict[str, ServedTool]:
        check_tool_names(tools)
        return tools


def load_generate_config(path: Path, *, model: str | None = None) -> GenerateConfig:
    """The configuration in the YAML file `path`, with another model if one is named.

    Raises:
        ConfigError: the file is missing or is not YAML, or a key is unknown or has a wrong type.
    """
    config = read_settings(path, GenerateConfig, {})
    if model is None:
        return config
    return config.model_copy(update={"model": ModelConfig(path=model, dtype=config.model.dtype)})
