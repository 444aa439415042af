"""What scenes without marks are compared with."""

import pytest

from tests.pipeline.survival.plain import undisturbed
from tests.pipeline.survival.scenes import NUM_DOCUMENTS, Scene, Undisturbed


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    return undisturbed(Scene(tmp_path_factory.mktemp("plain"), NUM_DOCUMENTS))
