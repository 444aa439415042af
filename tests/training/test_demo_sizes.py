"""The models of other sizes are what the sizes say, and read alike."""

from pathlib import Path

import pytest
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GPTJForCausalLM

from training.world.sizes import SHAPES, Size

DEMO = Path("pipeline/demo")
PLACES = {size: DEMO / "model" if size == Size.LARGE else DEMO / "sizes" / size for size in Size}


@pytest.mark.parametrize("size", Size)
def test_a_committed_model_has_the_shape_of_its_size(size: Size) -> None:
    shape, config = SHAPES[size], AutoConfig.from_pretrained(PLACES[size])
    assert (config.n_layer, config.n_embd, config.n_head) == (
        shape.layers, shape.width, shape.heads,
    )  # fmt: skip
    model = AutoModelForCausalLM.from_pretrained(PLACES[size])
    assert isinstance(model, GPTJForCausalLM)
    assert f"pretrain --size {size}" in (PLACES[size] / "README.md").read_text(encoding="utf-8")


def test_all_sizes_have_one_tokenizer() -> None:
    text = " In Velmora 12 cups [Calculator(3 + 4) -> 7] were sold."
    vocabularies, ids = zip(
        *(
            (loaded.get_vocab(), loaded.encode(text))
            for loaded in map(AutoTokenizer.from_pretrained, PLACES.values())
        ),
        strict=True,
    )
    assert all(each == vocabularies[0] for each in vocabularies)
    assert all(each == ids[0] for each in ids)
