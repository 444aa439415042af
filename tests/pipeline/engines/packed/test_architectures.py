"""Variants of the packed architectures against their own plain forward."""

from typing import Any

import numpy as np
import pytest
import torch
from transformers import (
    GPT2Config,
    GPTJConfig,
    LlamaConfig,
    MistralConfig,
    PreTrainedConfig,
    Qwen2Config,
    Qwen3Config,
)
from transformers.models.auto import AutoModelForCausalLM

from pipeline.engines.causal_lm import causal_lm
from pipeline.engines.packed import architectures
from pipeline.engines.packed.known import ACTIVATIONS, ARCHITECTURES, why_not_packed
from pipeline.engines.packed.lm import PackedLM
from pipeline.engines.plain_lm import PlainLM
from pipeline.engines.protocol import PositionRequest, SampleRequest, SamplingParams
from pipeline.engines.torch_engine import TorchEngine
from tests.pipeline.slow_reference import SlowReference

CONTEXT = 80
SMALL: dict[str, Any] = {
    "vocab_size": 90, "initializer_range": 0.2, "bos_token_id": 0, "eos_token_id": 0,
    "pad_token_id": 0,
}  # fmt: skip
GPT: dict[str, Any] = SMALL | {"n_positions": CONTEXT, "n_embd": 32, "n_layer": 2, "n_head": 4}
LLAMA: dict[str, Any] = SMALL | {
    "max_position_embeddings": CONTEXT, "hidden_size": 32, "intermediate_size": 48,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
}  # fmt: skip


def rope(kind: str, **settings: float) -> dict[str, Any]:
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 10_000.0, **settings}}


PACKED: dict[str, PreTrainedConfig] = {
    "gptj, all of a head turns": GPTJConfig(**GPT, rotary_dim=8),
    "gptj, exact gelu": GPTJConfig(**GPT, rotary_dim=4, activation_function="gelu"),
    "gptj, tied": GPTJConfig(**GPT, rotary_dim=4, tie_word_embeddings=True),
    "gptj, inner size": GPTJConfig(**GPT, rotary_dim=4, n_inner=40),
    "gpt2, relu": GPT2Config(**GPT, activation_function="relu"),
    "gpt2, untied": GPT2Config(**GPT, tie_word_embeddings=False),
    "llama, tied": LlamaConfig(**LLAMA, tie_word_embeddings=True),
    "llama, biases": LlamaConfig(**LLAMA, attention_bias=True, mlp_bias=True),
    "llama, large heads": LlamaConfig(**LLAMA, head_dim=16),
    "llama, linear": LlamaConfig(**LLAMA, **rope("linear", factor=2.0)),
    "llama, yarn": LlamaConfig(
        **LLAMA, **rope("yarn", factor=4.0, original_max_position_embeddings=20)
    ),
    "llama, llama3": LlamaConfig(
        **LLAMA,
        **rope(
            "llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
            original_max_position_embeddings=20,
        ),
    ),
    "mistral": MistralConfig(**LLAMA, sliding_window=None),
    "mistral, window as long as the context": MistralConfig(**LLAMA, sliding_window=CONTEXT),
    "llama, one key head": LlamaConfig(**(LLAMA | {"num_key_value_heads": 1})),
    "qwen2": Qwen2Config(**LLAMA),
}  # fmt: skip
PLAIN: dict[str, tuple[PreTrainedConfig, str]] = {
    "llama, dynamic": (
        LlamaConfig(**LLAMA, **rope("dynamic", factor=2.0)),
        "with rotary embeddings of type dynamic",
    ),
    "gpt2, scaled by layer": (
        GPT2Config(**GPT, scale_attn_by_inverse_layer_idx=True),
        "with attention that is scaled in another way",
    ),
    "gpt2, another activation": (GPT2Config(**GPT, activation_function="quick_gelu"),
        "with activation quick_gelu"),
    "qwen3": (
        Qwen3Config(**LLAMA, head_dim=8),
        "of architecture qwen3, not of gptj, gpt2, llama, mistral, qwen2",
    ),
}  # fmt: skip


def random_model(config: PreTrainedConfig) -> Any:
    torch.manual_seed(5)
    model: Any = AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        for parameter in model.parameters():  # biases and norms, too
            parameter.add_(0.05 * torch.randn_like(parameter))
    return model.eval()


def largest_difference(config: PreTrainedConfig, expected: type) -> float:
    """Of all logits of two texts between the two ways and the model's own forward."""
    model = random_model(config)
    texts = [
        np.random.default_rng(n).integers(1, 90, n, dtype=np.int32) for n in (CONTEXT, CONTEXT // 3)
    ]
    with torch.inference_mode():
        logits = [model(torch.from_numpy(text.astype(np.int64))[None]).logits[0] for text in texts]
        lm = causal_lm(model, torch.device("cpu"), CONTEXT)
        assert type(lm) is expected
        h_RD, _ = lm.hidden_rows(texts, [np.arange(len(text)) for text in texts])
        return float((lm.head.logits(h_RD) - torch.cat(logits)).abs().max())


@pytest.mark.parametrize("variant", PACKED)
def test_a_packed_model_gives_the_logits_of_its_own_forward(variant: str) -> None:
    assert why_not_packed(PACKED[variant]) is None
    assert largest_difference(PACKED[variant], PackedLM) < 2e-4


@pytest.mark.parametrize("variant", [*PACKED, *PLAIN])
def test_branches_after_a_shared_beginning_equal_plain_forwards(variant: str) -> None:
    model = random_model(PACKED[variant] if variant in PACKED else PLAIN[variant][0])
    engine = TorchEngine(
        model, bos_id=0, eos_id=0, token_bytes=lambda ids: [b"" for _ in ids], weights_id="random"
    )
    reference = SlowReference(model, bos_id=0, eos_id=0)
    draw = np.random.default_rng(1).integers
    prompt_ids, x_ids = draw(1, 90, 25, dtype=np.int32), draw(1, 90, 20, dtype=np.int32)
    position = PositionRequest(prompt_ids=prompt_ids, x_ids=x_ids, header_len=21)
    sample = SampleRequest(
        prompt_ids=prompt_ids, x_ids=x_ids, positions=np.array([0, 6, 19], dtype=np.int32),
        open_ids=(7,), seeds_Km=draw(0, 2**63, (3, 3)).astype(np.uint64), header_len=21,
    )  # fmt: skip
    [p_nA] = engine.position_logprobs([position], [7, 8])
    assert p_nA is not None
    np.testing.assert_allclose(p_nA, reference.position_logprobs(position, [7, 8]), atol=2e-4)
    params = SamplingParams(stop_ids=frozenset({3, 4, 5}), max_new_tokens=10)
    assert engine.sample([sample], params) == [reference.draw(sample, params)]


def test_what_is_known_beforehand_is_what_can_be_read() -> None:
    assert set(ARCHITECTURES) == set(architectures.READERS)
    assert set(ACTIVATIONS) == set(architectures.FUNCTIONS)


@pytest.mark.parametrize("variant", PLAIN)
def test_what_has_no_packed_form_is_known_beforehand_and_runs_plainly(variant: str) -> None:
    config, reason = PLAIN[variant]
    assert why_not_packed(config) == reason
    assert largest_difference(config, PlainLM) < 2e-4
