"""Hugging Face models as packed weights.

Weights are taken as they are, but for two rearrangements that change no number: Q, K and V become
one matrix, and GPT-J's rotary dimensions, which turn in neighbouring pairs, are reordered to turn
by halves as Llama's do.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from pipeline.engines.packed.known import why_not_packed
from pipeline.engines.packed.weights import Layer, Linear, Mlp, Norm, Weights, joined

_GELU_TANH = partial(functional.gelu, approximate="tanh")
FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": functional.gelu,
    "gelu_new": _GELU_TANH,
    "gelu_pytorch_tanh": _GELU_TANH,
    "gelu_fast": _GELU_TANH,
    "relu": functional.relu,
    "silu": functional.silu,
    "swish": functional.silu,
}


class NotPacked(Exception):
    """The packed forward does not know this model; the text says what it does not know."""


def packed_weights(model: Any, max_len: int) -> Weights:
    """The weights of a Hugging Face causal language model, sharing memory where they can.

    Raises:
        NotPacked: its architecture or a setting of it is not one of those known here.
    """
    reason = why_not_packed(model.config)
    if reason is not None:
        raise NotPacked(reason)
    with torch.no_grad():
        return READERS[model.config.model_type](model, model.config, max_len)


def _gptj(model: Any, config: Any, max_len: int) -> Weights:
    body, H = model.transformer, config.n_head
    rotary_dim = config.rotary_dim or config.n_embd
    inverse = 1.0 / 10_000 ** (torch.arange(0, rotary_dim, 2).float() / rotary_dim)
    angles = torch.outer(torch.arange(max_len).float(), inverse).to(model.device)
    act = FUNCTIONS[config.activation_function]
    return Weights(
        embedding=body.wte.weight.detach(),
        places=None,
        rotary=(angles.cos(), angles.sin()),
        layers=[
            Layer(
                norm=_layer_norm(block.ln_1),
                qkv=_by_halves(
                    joined(block.attn.q_proj, block.attn.k_proj, block.attn.v_proj), H, rotary_dim
                ),
                out=_linear(block.attn.out_proj),
                norm_mlp=None,
                mlp=Mlp(
                    up=_linear(block.mlp.fc_in),
                    down=_linear(block.mlp.fc_out),
                    act=act,
                    gated=False,
                ),
            )
            for block in body.h
        ],
        norm=_layer_norm(body.ln_f),
        **_head(model),
        num_heads=H,
        num_kv_heads=H,
        head_size=config.n_embd // H,
    )


def _gpt2(model: Any, config: Any, max_len: int) -> Weights:
    body, act = model.transformer, FUNCTIONS[config.activation_function]
    return Weights(
        embedding=body.wte.weight.detach(),
        places=body.wpe.weight.detach(),
        rotary=None,
        layers=[
            Layer(
                norm=_layer_norm(block.ln_1),
                qkv=_transposed(block.attn.c_attn),
                out=_transposed(block.attn.c_proj),
                norm_mlp=_layer_norm(block.ln_2),
                mlp=Mlp(
                    up=_transposed(block.mlp.c_fc),
                    down=_transposed(block.mlp.c_proj),
                    act=act,
                    gated=False,
                ),
            )
            for block in body.h
        ],
        norm=_layer_norm(body.ln_f),
        **_head(model),
        num_heads=config.n_head,
        num_kv_heads=config.n_head,
        head_size=config.n_embd // config.n_head,
    )


def _llama(model: Any, config: Any, max_len: int) -> Weights:
    body = model.model
    act = FUNCTIONS[config.hidden_act]
    places = torch.arange(max_len, device=model.device)[None]
    cos, sin = body.rotary_emb(torch.zeros(1, device=model.device), places)
    P = cos.shape[-1] // 2
    return Weights(
        embedding=body.embed_tokens.weight.detach(),
        places=None,
        rotary=(cos[0, :, :P].float(), sin[0, :, :P].float()),
        layers=[
            Layer(
                norm=_rms_norm(block.input_layernorm),
                qkv=joined(block.self_attn.q_proj, block.self_attn.k_proj, block.self_attn.v_proj),
                out=_linear(block.self_attn.o_proj),
                norm_mlp=_rms_norm(block.post_attention_layernorm),
                mlp=Mlp(
                    up=joined(block.mlp.gate_proj, block.mlp.up_proj),
                    down=_linear(block.mlp.down_proj),
                    act=act,
                    gated=True,
                ),
            )
            for block in body.layers
        ],
        norm=_rms_norm(body.norm),
        **_head(model),
        num_heads=config.num_attention_heads,
        num_kv_heads=config.num_key_value_heads,
        head_size=body.layers[0].self_attn.head_dim,
    )


READERS: dict[str, Callable[[Any, Any, int], Weights]] = {
    "gptj": _gptj,
    "gpt2": _gpt2,
    "llama": _llama,
    "mistral": _llama,
    "qwen2": _llama,
}


def _linear(module: Any) -> Linear:
    return Linear(
        weight=module.weight.detach(), bias=None if module.bias is None else module.bias.detach()
    )


def _transposed(module: Any) -> Linear:
    """GPT-2 keeps its matrices as [in, out]."""
    return Linear(weight=module.weight.detach().T.contiguous(), bias=module.bias.detach())


def _layer_norm(module: Any) -> Norm:
    return Norm(
        weight=module.weight.detach(), bias=module.bias.detach(), eps=module.eps, is_rms=False
    )


def _rms_norm(module: Any) -> Norm:
    return Norm(weight=module.weight.detach(), bias=None, eps=module.variance_epsilon, is_rms=True)


def _head(model: Any) -> dict[str, Any]:
    head = model.get_output_embeddings()
    bias = None if head.bias is None else head.bias.detach()
    return {"head": head.weight.detach(), "head_bias": bias}


def _by_halves(qkv: Linear, num_heads: int, rotary_dim: int) -> Linear:
    """Rows of Q and K reordered: of each head first the even, then the odd rotary dimensions."""
    D = qkv.weight.shape[1]
    head_size = len(qkv.weight) // (3 * num_heads)
    order = torch.arange(head_size)
    order[:rotary_dim] = torch.cat([torch.arange(0, rotary_dim, 2), torch.arange(1, rotary_dim, 2)])
    weight = qkv.weight.view(3, num_heads, head_size, D)
    weight[:2] = weight[:2][:, :, order]  # joined() made a copy: it is ours to change
    if qkv.bias is not None:
        bias = qkv.bias.view(3, num_heads, head_size)
        bias[:2] = bias[:2][:, :, order]
    return qkv
