"""Which model a benchmark runs: the demo's, or a GPT-J of any size with random weights."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.base import ConfigError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

PACKAGE = Path(__file__).parents[1]
DEMO_MODEL = PACKAGE / "demo" / "model"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The sizes of a GPT-J; `checkpoint` has the weights, which are random where there is none."""

    name: str
    width: int = 0
    layers: int = 0
    heads: int = 0
    vocabulary: int = 0
    rotary: int = 0  # dimensions of a head that are rotated
    context: int = 2048
    checkpoint: Path | None = None


PRESETS = {
    "demo": Shape(name="demo", checkpoint=DEMO_MODEL),
    "small": Shape(name="small", width=512, layers=8, heads=8, vocabulary=50_400, rotary=32),
    "gpt-j-6b": Shape(
        name="gpt-j-6b", width=4096, layers=28, heads=16, vocabulary=50_400, rotary=64
    ),
}


def parse_shape(text: str) -> Shape:
    """A preset by its name, or "width,layers,heads,vocabulary".

    Raises:
        ConfigError: it is neither, or no GPT-J has such sizes.
    """
    if text in PRESETS:
        return PRESETS[text]
    expected = f"{', '.join(PRESETS)}, or width,layers,heads,vocabulary as in 512,8,8,50400"
    try:
        width, layers, heads, vocabulary = map(int, text.split(","))
    except ValueError:
        raise ConfigError(f"--shape: got {text!r}, expected {expected}") from None
    if min(width, layers, heads) < 1 or width % heads or (width // heads) % 2 or vocabulary < 64:
        raise ConfigError(
            f"--shape: got {text}, expected heads of an even width, at least one layer and at "
            "least 64 tokens"
        )
    rotary = max(2, width // heads // 4 * 2)
    return Shape(
        name=text, width=width, layers=layers, heads=heads, vocabulary=vocabulary, rotary=rotary
    )


def make_model(shape: Shape, *, dtype: str, device: str, seed: int) -> "PreTrainedModel":
    """The model in evaluation mode on `device`; random weights are drawn there, in `dtype`."""
    import torch
    from transformers import AutoModelForCausalLM, GPTJConfig

    from pipeline.engines.checkpoint import load_model

    if shape.checkpoint is not None:
        loaded: Any = load_model(str(shape.checkpoint), None, dtype)
        model: PreTrainedModel = loaded.to(device)
        return model
    torch.manual_seed(seed)
    config = GPTJConfig(
        vocab_size=shape.vocabulary,
        n_positions=shape.context,
        n_embd=shape.width,
        n_layer=shape.layers,
        n_head=shape.heads,
        rotary_dim=shape.rotary,
        tie_word_embeddings=False,
        bos_token_id=0,
        eos_token_id=0,
    )
    with torch.device(device):
        made: Any = AutoModelForCausalLM.from_config(  # type: ignore[no-untyped-call]
            config, dtype=getattr(torch, dtype)
        )
    model = made.eval()
    return model
