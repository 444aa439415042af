"""Work against numbers computed by hand."""

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, GPT2Config, GPTJConfig, LlamaConfig

from pipeline.bench.shapes import PRESETS, make_model, parse_shape
from pipeline.bench.work import (
    Work,
    loss_pairs,
    model_cost,
    pairs_of,
    position_pairs,
    sample_pairs,
)
from pipeline.engines.protocol import LossRequest, PositionRequest, Sample, SampleRequest
from tools.base import ConfigError


def ids(length: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.arange(length, dtype=np.int32)


def test_a_gpt_j_of_width_8_costs_what_its_matrices_say() -> None:
    cost = model_cost(make_model(parse_shape("8,1,2,64"), dtype="float32", device="cpu", seed=0))
    # q, k, v and out of 8 x 8, up of 8 x 32 and down of 32 x 8; a head of 64 x 8.
    assert cost.linear_per_token == 2 * (4 * 64 + 2 * 256)
    assert cost.attention_per_pair == 4 * 8
    assert cost.head_per_row == 2 * 512
    assert cost.kv_bytes_per_token == 2 * 8 * 4
    assert cost.flops(Work(tokens=3, rows=1, pairs=6)) == 3 * 1536 + 6 * 32 + 1024


def test_gpt_j_6b_costs_11_27_gflop_a_token() -> None:
    shape = PRESETS["gpt-j-6b"]
    config = GPTJConfig(
        n_embd=shape.width, n_layer=shape.layers, n_head=shape.heads, vocab_size=shape.vocabulary,
        tie_word_embeddings=False,
    )  # fmt: skip
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(  # type: ignore[no-untyped-call]
            config, dtype=torch.bfloat16
        )
    cost = model_cost(model)
    assert cost.linear_per_token == 11_274_289_152
    assert cost.attention_per_pair == 458_752
    assert cost.head_per_row == 412_876_800
    assert cost.kv_bytes_per_token == 458_752
    assert cost.parameters == 6_050_882_784


def test_embeddings_cost_nothing_and_groups_of_heads_share_keys() -> None:
    gpt2 = AutoModelForCausalLM.from_config(  # type: ignore[no-untyped-call]
        GPT2Config(n_embd=8, n_layer=2, n_head=2, vocab_size=64, n_positions=16)
    )
    assert model_cost(gpt2).linear_per_token == 2 * 2 * (8 * 24 + 8 * 8 + 2 * 8 * 32)
    assert model_cost(gpt2).head_per_row == 2 * 512  # tied to the embedding, but multiplied
    llama = AutoModelForCausalLM.from_config(  # type: ignore[no-untyped-call]
        LlamaConfig(
            hidden_size=8, intermediate_size=16, num_hidden_layers=1, num_attention_heads=4,
            num_key_value_heads=2, vocab_size=64,
        )
    )  # fmt: skip
    assert model_cost(llama).linear_per_token == 2 * (8 * 8 + 2 * 8 * 4 + 8 * 8 + 3 * 8 * 16)
    assert model_cost(llama).kv_bytes_per_token == 2 * 4 * 4


def test_pairs_are_counted_with_the_token_itself() -> None:
    assert pairs_of(0, 4) == 1 + 2 + 3 + 4
    assert pairs_of(2, 4) == 3 + 4


def test_p_of_a_shared_header_counts_the_tokens_past_it() -> None:
    whole = PositionRequest(prompt_ids=ids(3), x_ids=ids(2))
    assert position_pairs([whole], tokens=5) == 15
    shared = PositionRequest(prompt_ids=ids(3), x_ids=ids(2), header_len=2)
    assert position_pairs([shared], tokens=3) == 3 + 4 + 5


def test_s_counts_samples_and_what_was_left_of_their_prefix() -> None:
    request = SampleRequest(
        prompt_ids=ids(3), x_ids=ids(4), positions=np.array([2], dtype=np.int32), open_ids=(1,),
        seeds_Km=np.zeros((1, 2), dtype=np.uint64),
    )  # fmt: skip
    samples = [[[Sample((5, 6), False), Sample((7, 8), False)]]]
    # Each sample feeds " [" and its first token, the seventh and eighth of their sequence.
    assert sample_pairs([request], samples, tokens=4) == 2 * (7 + 8)
    assert sample_pairs([request], samples, tokens=4 + 6) == 2 * (7 + 8) + 21
    assert sample_pairs([request], samples, tokens=2) == 7 + 8


def test_l_counts_one_pass_for_each_prefix_up_to_the_last_window() -> None:
    requests = [
        LossRequest(z_ids=ids(2), x_ids=ids(10), positions=np.array([place], dtype=np.int32))
        for place in (1, 3)
    ]
    assert loss_pairs(requests, 5, tokens=10) == 55  # begin, z, and 7 tokens before the last
    at_the_end = LossRequest(z_ids=ids(0), x_ids=ids(4), positions=np.array([3], dtype=np.int32))
    assert loss_pairs([at_the_end], 5, tokens=4) == 10
    nowhere = LossRequest(z_ids=ids(0), x_ids=ids(4), positions=np.zeros(0, dtype=np.int32))
    assert loss_pairs([nowhere], 5, tokens=0) == 0


@pytest.mark.parametrize("text", ["gpt-j", "8,1,2", "8,1,3,64", "6,1,2,64", "8,0,2,64", "8,1,2,9"])
def test_a_shape_no_gpt_j_has_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--shape: got .*, expected"):
        parse_shape(text)
