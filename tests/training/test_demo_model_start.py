from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from training.world.model import new_model
from training.world.sizes import SHAPES, Size
from training.world.tokenizer import VOCAB_SIZE


@pytest.mark.parametrize("size", Size)
def test_the_first_heads_begin_by_attending_one_two_and_three_places_back(size: Size) -> None:
    tokenizer = AutoTokenizer.from_pretrained(Path("pipeline/demo/model"))
    assert isinstance(tokenizer, PreTrainedTokenizerFast)
    torch.manual_seed(0)
    model = new_model(tokenizer, size)
    model.set_attn_implementation("eager")
    tokens_BT = torch.randint(1, VOCAB_SIZE, (8, 40))
    with torch.inference_mode():
        first_BHTT = model(tokens_BT, output_attentions=True).attentions[0]
    for head, back in enumerate((1, 2, 3)):
        weights_BT = torch.stack([first_BHTT[:, head, at, at - back] for at in range(10, 40)])
        # The random part of the weights moves a few: 0.71, 0.75 and 0.77 with this seed.
        assert float(weights_BT.mean()) > 0.6
    # The other heads, where there are any, begin without a preference for a place.
    others_HT = first_BHTT[0, 3:, 39]
    assert others_HT.shape[0] == SHAPES[size].heads - 3
    assert bool((others_HT < 0.5).all())


def test_output_weights_begin_as_the_embedding_but_are_not_tied() -> None:
    tokenizer = AutoTokenizer.from_pretrained(Path("pipeline/demo/model"))
    assert isinstance(tokenizer, PreTrainedTokenizerFast)
    torch.manual_seed(0)
    model = new_model(tokenizer)
    embedding = model.get_parameter("transformer.wte.weight")
    output = model.get_parameter("lm_head.weight")
    assert torch.equal(embedding, output)
    assert embedding.data_ptr() != output.data_ptr()
