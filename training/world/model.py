"""The demo model before training: a small GPT-J whose first layer already looks back.

A copy needs two layers that work together: a head that tells each token what stood before it,
and a later head that finds the place where the same stood before. A small model trained on a
few million tokens spends most of them until both appear. So three heads of the first layer begin
as heads that attend to the token 1, 2 and 3 places back; everything stays trainable. Repetitions
are then copied after some 150 steps, and not at all after 600 without it.
"""

import torch
from transformers import GPTJConfig, GPTJForCausalLM, PreTrainedTokenizerFast

from training.world.sizes import SHAPES, Size
from training.world.tokenizer import VOCAB_SIZE

_ROTARY_BASE = 10000.0
_PLACES_BACK = (1, 2, 3)
_CONSTANT = 2.0  # what the layer norm puts into the last channel of every token
# With 32 channels in a head (2 * 3.3)^2 / sqrt(32) = 7.7: a neighbour's weight is e^-4 of the right
# one's. With others it is made the same.
_SHARPNESS, _HEAD_DIM = 3.3, 32


def model_config(tokenizer: PreTrainedTokenizerFast, size: Size) -> GPTJConfig:
    """The architecture of a size."""
    shape = SHAPES[size]
    return GPTJConfig(
        vocab_size=VOCAB_SIZE,
        n_positions=1024,
        n_embd=shape.width,
        n_layer=shape.layers,
        n_head=shape.heads,
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


def new_model(tokenizer: PreTrainedTokenizerFast, size: Size = Size.LARGE) -> GPTJForCausalLM:
    """A model to train. Draws from torch's global generator."""
    config = model_config(tokenizer, size)
    model = GPTJForCausalLM(config)  # type: ignore[no-untyped-call]
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
    sharpness = _SHARPNESS * (head_dim / _HEAD_DIM) ** 0.25
    for head, back in enumerate(_PLACES_BACK):
        start = head * head_dim
        rotary = slice(start, start + config.rotary_dim, 2)
        rotary_odd = slice(start + 1, start + config.rotary_dim, 2)
        for weight in (query, key):
            weight[start : start + head_dim, channel] = 0.0
        query[rotary, channel] = sharpness
        key[rotary, channel] = sharpness * torch.cos(back * theta_R)
        key[rotary_odd, channel] = sharpness * torch.sin(back * theta_R)
