"""Tiny checkpoints of four architectures, written once."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoModelForCausalLM

from pipeline.engines.torch_engine import TorchEngine
from pipeline.engines.torch_generation import TorchGeneration
from pipeline.tokens import TokenCodec
from tests.pipeline.slow_reference import SlowReference
from tests.pipeline.tiny_checkpoints import save_checkpoint

ARCHITECTURES = ("gptj", "gpt2", "llama", "gpt_neox")


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Directories by architecture."""
    return {name: save_checkpoint(tmp_path_factory.mktemp(name), name) for name in ARCHITECTURES}


@pytest.fixture(scope="session", params=ARCHITECTURES)
def checkpoint(request: pytest.FixtureRequest, checkpoints: dict[str, Path]) -> Path:
    return checkpoints[request.param]


@pytest.fixture(scope="session")
def engine(checkpoint: Path) -> TorchEngine:
    return TorchEngine.load(str(checkpoint))


@pytest.fixture(scope="session")
def codec(checkpoint: Path) -> TokenCodec:
    return TokenCodec.load(str(checkpoint))


@pytest.fixture(scope="session")
def reference(checkpoint: Path) -> SlowReference:
    return reference_of(checkpoint)


def reference_of(checkpoint: Path) -> SlowReference:
    codec = TokenCodec.load(str(checkpoint))
    assert codec.bos_id is not None and codec.eos_id is not None
    model: Any = AutoModelForCausalLM.from_pretrained(checkpoint)
    return SlowReference(model.eval(), bos_id=codec.bos_id, eos_id=codec.eos_id)


def opened(path: Path, **settings: int) -> Iterator[TorchGeneration]:
    engine = TorchGeneration.load(str(path), **settings)  # type: ignore[arg-type]
    yield engine
    asyncio.run(engine.close())


@pytest.fixture
def gptj(checkpoints: dict[str, Path]) -> Iterator[TorchGeneration]:
    yield from opened(checkpoints["gptj"])


@pytest.fixture
def narrow(checkpoints: dict[str, Path]) -> Iterator[TorchGeneration]:
    """Passes of 64 tokens, and room for 100."""
    yield from opened(checkpoints["gptj"], token_budget=64, kept_tokens=100)
