"""Which models have a packed form, told from their configuration alone."""

from typing import Any

ARCHITECTURES = ("gptj", "gpt2", "llama", "mistral", "qwen2")
ACTIVATIONS = (
    "gelu", "gelu_new", "gelu_pytorch_tanh", "gelu_fast", "relu", "silu", "swish",
)  # fmt: skip
# Rotary tables that depend on the length of the text cannot be written down beforehand.
_FIXED_ROTARY = ("default", "linear", "llama3", "yarn")


def why_not_packed(config: Any) -> str | None:
    """What of a Hugging Face configuration the packed forward does not know; None if it does."""
    if config.model_type not in ARCHITECTURES:
        return f"of architecture {config.model_type}, not of {', '.join(ARCHITECTURES)}"
    activation = getattr(config, "activation_function", None) or config.hidden_act
    if activation not in ACTIVATIONS:
        return f"with activation {activation}"
    if config.model_type == "gpt2" and (
        not config.scale_attn_weights or config.scale_attn_by_inverse_layer_idx
    ):
        return "with attention that is scaled in another way"
    rotary = (getattr(config, "rope_parameters", None) or {}).get("rope_type", "default")
    if rotary not in _FIXED_ROTARY:
        return f"with rotary embeddings of type {rotary}"
    return None
