"""TorchEngine on a GPU against the slow reference on the CPU; skipped where there is no GPU."""

from pathlib import Path

import numpy as np
import pytest
import torch

from pipeline.engines.protocol import SamplingParams
from pipeline.engines.torch_engine import TorchEngine
from tests.pipeline.engines.asked import LOSSES, SAMPLES, STOP_IDS, WIDTH, every
from tests.pipeline.engines.test_reuse import TEXTS
from tests.pipeline.slow_reference import SlowReference

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")

TOLERANCE = {"float32": 1e-3, "bfloat16": 0.3}  # nats; tiny models with very peaked distributions


@pytest.fixture(params=["float32", "bfloat16"])
def on_gpu(request: pytest.FixtureRequest, checkpoint: Path) -> TorchEngine:
    return TorchEngine.load(str(checkpoint), device="cuda", dtype=request.param)


def test_positions_and_losses_on_a_gpu_equal_the_reference(
    on_gpu: TorchEngine, reference: SlowReference
) -> None:
    tolerance = TOLERANCE[on_gpu.info.dtype]
    positions = [position for position, _ in TEXTS]
    for position, logprobs_nA in zip(
        positions, every(on_gpu.position_logprobs(positions, [257, 3])), strict=True
    ):
        expected_nA = reference.position_logprobs(position, [257, 3])
        np.testing.assert_allclose(logprobs_nA, expected_nA, atol=tolerance)
    for loss, logprobs_QW in zip(LOSSES, every(on_gpu.window_logprobs(LOSSES, WIDTH)), strict=True):
        expected_QW = reference.window_logprobs(loss, WIDTH)
        np.testing.assert_allclose(logprobs_QW, expected_QW, atol=tolerance)


def test_samples_on_a_gpu_equal_the_reference(checkpoint: Path, reference: SlowReference) -> None:
    engine = TorchEngine.load(str(checkpoint), device="cuda")
    params = SamplingParams(stop_ids=STOP_IDS, max_new_tokens=12)
    requests = [*SAMPLES, *(sample for _, sample in TEXTS)]
    for request, samples_Km in zip(requests, every(engine.sample(requests, params)), strict=True):
        assert samples_Km == reference.draw(request, params)
