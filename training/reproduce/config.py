"""What a reproduction is made of, written in YAML: training/configs/reproduce.yaml."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field, model_validator

from pipeline.settings import Section, read_settings
from tools.base import ConfigError
from training.world.grammar import Forms


class ReproduceConfig(Section):
    """The paper in miniature: each of `models` annotates, learns and is evaluated.

    `models` are directories by the name of their size, the smallest first. `annotate`, `finetune`
    and `evaluate` are what the configurations of these commands say beyond what is written here;
    the commands check them. Paths are relative to the directory the command is started in.
    """

    out: Path  # what the steps write
    results: Path  # the directory of reproduce.md, reproduce.json and the pictures
    seed: int = Field(default=0, ge=0)
    models: dict[str, str] = Field(min_length=1)

    forms: Forms = "known"  # of what is annotated and learned
    documents: int = Field(ge=1)  # that each model annotates
    development_documents: int = Field(ge=1)  # of finetuning
    perplexity_documents: int = Field(ge=1)  # of each of the two corpora of Table 8
    atlas: Path | None = None  # of QA; it gets an index of what the documents to annotate know

    annotate: dict[str, Any]
    finetune: dict[str, Any]
    evaluate: dict[str, Any]

    benchmarks: list[str] = Field(min_length=1)  # made here, not read from files
    max_examples: int = Field(ge=1)  # of each benchmark
    api_top_k: list[int] = Field(default=[0, 10], min_length=2)
    api_top_k_of_largest: list[int] = Field(default=[0, 1, 3, 10], min_length=2)  # Table 9
    max_samples: int = Field(default=50, ge=1)  # of each benchmark whose files are given

    @model_validator(mode="after")
    def _disabled_is_always_measured(self) -> "ReproduceConfig":
        for key, values in (
            ("api_top_k", self.api_top_k),
            ("api_top_k_of_largest", self.api_top_k_of_largest),
        ):
            if values != sorted(set(values)) or values[0] != 0:
                raise ValueError(f"{key}: expected 0 and larger ones in order, got {values}")
        return self

    @property
    def largest(self) -> str:
        """The size that is looked at most closely."""
        return list(self.models)[-1]

    def what_it_measures(self) -> Mapping[str, Any]:
        """The settings that decide what the steps write: all but where the tables go."""
        return self.model_dump(mode="json", exclude={"results", "max_samples"})


def load_reproduce_config(path: Path) -> ReproduceConfig:
    """The configuration in the YAML file `path`.

    Raises:
        ConfigError: it is missing or wrong, or a directory that it names is not there.
    """
    config = read_settings(path, ReproduceConfig, {})
    for size, model in config.models.items():
        if not Path(model).is_dir():
            raise ConfigError(f"{path}: models.{size}: no directory {model}")
    if config.atlas is not None and not config.atlas.is_dir():
        raise ConfigError(f"{path}: atlas: no directory {config.atlas}")
    return config
