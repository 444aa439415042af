"""The engine under test over a model that is in memory."""

from collections.abc import Sequence

from transformers import PreTrainedModel

from pipeline.bench.metered import MeteredEngine
from pipeline.engines.torch_engine import TorchEngine

BOS_ID = 0


def engine_over(
    model: PreTrainedModel, *, device: str, threads: int, token_budget: int
) -> MeteredEngine:
    """A TorchEngine for which no token ends a text."""
    return MeteredEngine(
        TorchEngine(
            model,
            bos_id=BOS_ID,
            eos_id=None,
            token_bytes=_letters,
            weights_id="bench",
            device=device,
            token_budget=token_budget,
            num_threads=threads,
        )
    )


def _letters(token_ids: Sequence[int]) -> list[bytes]:
    """The bytes of tokens that mean nothing."""
    return [b"x" for _ in token_ids]
