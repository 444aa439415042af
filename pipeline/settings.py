"""Settings in YAML files: unknown keys and wrong types are errors that name the key."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from tools.base import ConfigError, one_line

Settings = TypeVar("Settings", bound=BaseModel)


class Section(BaseModel):
    """A part of the configuration: immutable, no unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def read_settings(path: Path, kind: type[Settings], changes: Mapping[str, Any]) -> Settings:
    """What the YAML file `path` says, with `changes` to its top level.

    Raises:
        ConfigError: the file is missing or is not YAML, or a key is unknown or has a wrong type.
    """
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such configuration file") from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: not readable as YAML: {one_line(error)}") from None
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: expected a mapping of settings, got {type(data).__name__}")
    try:
        return kind.model_validate({**data, **changes})
    except ValidationError as error:
        raise ConfigError(f"{path}: {describe(error)}") from None


def describe(error: ValidationError) -> str:
    """All problems of a configuration in one line: `key: what is wrong`, joined by "; "."""
    return "; ".join(
        f"{'.'.join(str(part) for part in problem['loc']) or 'config'}: "
        + problem["msg"].removeprefix("Value error, ")
        for problem in error.errors()
    )
