"""TorchEngine against what every engine must do, for GPT-J, GPT-2 and Llama."""

from pathlib import Path

import pytest

from tests.pipeline.engines.checkpoint_variants import save_vllm_checkpoint, with_other_weights
from tests.pipeline.engines.conformance import Conformance
from tests.pipeline.tiny_checkpoints import CONTEXT


@pytest.fixture(scope="session")
def other(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return with_other_weights(checkpoint, tmp_path_factory.mktemp("other"))


@pytest.fixture(scope="session")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_vllm_checkpoint(tmp_path_factory.mktemp("foreign"), context=2 * CONTEXT)


class TestTorchEngine(Conformance):
    """The fixtures `engine`, `reference` and `codec` are those of conftest.py."""
