"""What texts depend on, however and wherever they are generated."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from pipeline.config import ModelConfig
from pipeline.engine_config import EngineConfig
from pipeline.engines.checkpoint import weights_id
from pipeline.tool_config import ServedTool
from tools.base import Tool
from tools.registry import build_tool

_DIGEST_BYTES = 6


def model_identity(model: ModelConfig, engine: EngineConfig) -> list[Any]:
    """What tells a model and its engine from others.

    Raises:
        ConfigError: there is no such checkpoint.
    """
    weights = weights_id(model.path, model.revision)
    return [weights, model.dtype, engine.name, engine.options]


def built_tools(tools: Mapping[str, ServedTool]) -> dict[str, Tool]:
    """The tools, which know their versions without being loaded.

    Raises:
        ToolformerError: one cannot be built.
    """
    return {
        name: build_tool(name, factory=tool.factory, options=tool.options)
        for name, tool in tools.items()
    }


def tools_identity(
    tools: Mapping[str, ServedTool], built: Mapping[str, Tool], max_result_tokens: int
) -> dict[str, Any]:
    """What `tools`, once `built`, answer with: the version tells of files that were replaced."""
    answering = {
        name: [tool.factory, tool.options, built[name].version] for name, tool in tools.items()
    }
    return {"tools": answering, "max_result_tokens": max_result_tokens}


def digest_of(identity: object) -> str:
    """A short name for it, in that of a file."""
    data = json.dumps(identity, sort_keys=True).encode()
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).hexdigest()
