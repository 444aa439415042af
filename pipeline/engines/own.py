"""Engines of one's own: a class named in the configuration as "package.module:Class"."""

from typing import Any, Protocol, cast

from pipeline.config import ModelConfig
from pipeline.engine_config import EngineConfig
from pipeline.engines.protocol import EngineInfo, LMEngine
from tools.base import ConfigError, ToolformerError, one_line
from tools.import_path import imported


class OwnEngine(Protocol):
    """What such a class offers. Both are told everything the configuration says.

    Either may raise a ConfigError, whose text the user is shown.
    """

    def describe(self, model: ModelConfig, engine: EngineConfig) -> EngineInfo:
        """What `info` of the engine says once it is loaded, without loading anything."""
        ...

    def load(self, model: ModelConfig, engine: EngineConfig) -> LMEngine: ...


def describe_own(model: ModelConfig, engine: EngineConfig) -> EngineInfo:
    """What an engine of one's own says it is; asked in the driver.

    Raises:
        ConfigError: there is no such class, or its options are wrong.
    """
    return cast(EngineInfo, _asked(engine, "describe", model))


def load_own(model: ModelConfig, engine: EngineConfig) -> LMEngine:
    """The engine, ready to answer; where a replica lives.

    Raises:
        ConfigError: there is no such class, or it cannot load.
    """
    return cast(LMEngine, _asked(engine, "load", model))


def _asked(engine: EngineConfig, method: str, model: ModelConfig) -> Any:
    kind = imported(engine.name, who=f"engine {engine.name}")
    ask = getattr(kind, method, None)
    if not callable(ask):
        raise ConfigError(f"engine {engine.name}: the class has no {method}(model, engine)")
    try:
        return ask(model, engine)
    except ToolformerError:
        raise
    except Exception as error:  # the class may be anyone's code
        raise ConfigError(
            f"engine {engine.name}: {method} failed with the options {engine.options}: "
            f"{type(error).__name__}: {one_line(error)}"
        ) from error
