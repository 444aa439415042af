"""The engine that dies where a document says so, without transformers, which loads for seconds."""

from pathlib import Path

from pipeline.config import ModelConfig
from pipeline.engine_config import EngineConfig
from pipeline.engines.protocol import EngineInfo
from pipeline.engines.scripted import Script, ScriptedEngine
from pipeline.tokens import TokenCodec
from tests.pipeline.killing_engine import KillingEngine


class QuickEngine(KillingEngine):
    """For a pool whose replicas are started again many times."""

    @staticmethod
    def describe(model: ModelConfig, engine: EngineConfig) -> EngineInfo:
        return EngineInfo("quick", "1", "cpu", model.dtype, 1024, 50_000, "none")

    @classmethod
    def load(cls, model: ModelConfig, engine: EngineConfig) -> "QuickEngine":
        codec = TokenCodec.load(model.path, model.revision)
        scripted = ScriptedEngine(cls.describe(model, engine), codec, Script())
        return cls(scripted, codec, Path(engine.options["directory"]))
