"""The demo model before training: a small GPT-J whose first layer already looks back.

A copy needs two layers that work together: a head that tells each token what stood before it,
and a later head that finds the place where the same stood before. A small model trained on a
few million tokens spends most of them until both appear. So three heads of the first layer begin
as heads that attend to the token 1, 2 and 3 places back; everything stays trainable. Repetitions
are then copied after some 150 steps, and not at all after 600 without it.
"""

import torch
from transformers import GPTJConfig, GPTJForCausalLM, PreTrainedTokenizerFast

from training.world.tokenizer import VOCAB_SIZE

_ROTARY_BASE = 10000.0
_PLACES_BACK = (1, 2, 3)
_CONSTANT = 2.0  # what the layer norm puts into the last channel of every token
_SHARPNESS = 3.3  # (2 * 3.3)^2 / sqrt(32) = 7.7: a neighbour's weight is e^-4 of the right one's


def model_config(tokenizer: PreTrainedTokenizerFast) -> GPTJConfig:
    """2.4 M parameters: 4 layers * 12 * 192^2 = 1.8 M, two embeddings of 1536 * 192 = 0.6 M."""
    return GPTJConfig(
        vocab_size=VOCAB_SIZE,
        n_positions=1024,
        n_embd=192,
        n_layer=4,
        n_head=6,
        rotary_dim=16,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        initializer_range=0.05,
        tie_word_embeddings=False,
        use_cache=False,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )


def new_model(tokenizer: PreTrainedTokenizerFast) -> GPTJForCausalLM:
    """A model to train. Draws from torch's global generator."""
    model = GPTJForCausalLM(model_config(tokenizer))  # type: ignore[no-untyped-call]
    with torch.no_grad():
        model.lm_head.weight.copy_(model.transformer.wte.weight)
        _look_back(model)
    return model


def _look_back(model: GPTJForCausalLM) -> None:
    """Sets head j of the first layer to attend _PLACES_BACK[j] tokens back.

    Query and key are the same two vectors at every position, so that only the rotation by
    distance is left: the key is turned ahead by `back` places, and the product
    sum_i cos((distance - back) * theta_i) is largest there.
    """
    config, first = model.config, "transformer.h.0"
    channel, head_dim = config.n_embd - 1, config.n_embd // config.n_head
    model.get_parameter(f"{first}.ln_1.weight")[channel] = 0.0
    model.get_parameter(f"{first}.ln_1.bias")[channel] = _CONSTANT
    exponents_R = torch.arange(0, config.rotary_dim, 2) / config.rotary_dim
    theta_R = _ROTARY_BASE**-exponents_R
    query = model.get_parameter(f"{first}.attn.q_proj.weight")
    key = model.get_parameter(f"{first}.attn.k_proj.weight")
    for head, back in enumerate(_PLACES_BACK):
        start = head * head_dim
        rotary = slice(start, start + config.rotary_dim, 2)
        rotary_odd = slice(start + 1, start + config.rotary_dim, 2)
        for weight in (query, key):
            weight[start : start + head_dim, channel] = 0.0
        query[rotary, channel] = _SHARPNESS
        key[rotary, channel] = _SHARPNESS * torch.cos(back * theta_R)
        key[rotary_odd, channel] = _SHARPNESS * torch.sin(back * theta_R)
