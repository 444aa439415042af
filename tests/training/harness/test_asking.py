"""What a task asks for, and prompts that do not fit."""

import datetime as dt
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.training.generate.reciting import CODEC
from tools.base import ConfigError
from training.generate.params import GenerationParams
from training.harness.asking import decoding, params_of, seeded, shortened

DEFAULTS = GenerationParams(max_new_tokens=24, temperature=0.5, api_top_k=3, stop=("###",))


@pytest.mark.parametrize(
    ("gen_kwargs", "changes"),
    [
        ({}, {}),
        ({"until": ["\n", "."], "max_gen_toks": 5}, {"stop": ("\n", "."), "max_new_tokens": 5}),
        ({"until": "\n"}, {"stop": ("\n",)}),
        ({"until": []}, {"stop": ()}),
        ({"max_new_tokens": 6}, {"max_new_tokens": 6}),
        ({"max_tokens": 9, "max_gen_toks": 7}, {"max_new_tokens": 7}),
        ({"do_sample": False, "temperature": 0.7}, {"temperature": 0.0}),
        ({"do_sample": True, "temperature": 0.7, "top_p": 0.9}, {"temperature": 0.7, "top_p": 0.9}),
        ({"temperature": 0.7}, {"temperature": 0.7}),
        ({"do_sample": True}, {}),
        ({"num_beams": 1}, {}),
        ({"api_top_k": 1, "max_calls": 2}, {"api_top_k": 1, "max_calls": 2}),
    ],
)
def test_a_task_says_how_its_texts_are_generated(
    gen_kwargs: dict[str, Any], changes: dict[str, Any]
) -> None:
    before = dict(gen_kwargs)
    assert params_of(gen_kwargs, DEFAULTS) == DEFAULTS.model_copy(update=changes)
    assert gen_kwargs == before  # the harness has them in its results


@pytest.mark.parametrize(
    ("gen_kwargs", "reason"),
    [
        ({"num_beams": 4}, "generation_kwargs: num_beams: Extra inputs are not permitted"),
        ({"max_gen_toks": 0}, "generation_kwargs: max_new_tokens: .*greater than or equal to 1"),
        ({"temperature": 9.0}, "generation_kwargs: temperature: .*less than or equal to 2"),
    ],
)
def test_what_cannot_be_done_is_named(gen_kwargs: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        params_of(gen_kwargs, DEFAULTS)


def test_a_date_is_read_as_the_harness_passes_it_on() -> None:
    assert decoding(DEFAULTS, {"date": "2021-03-09"}, "x").date == dt.date(2021, 3, 9)


def test_samples_of_one_prompt_have_seeds_of_their_own() -> None:
    one, other = DEFAULTS, DEFAULTS.model_copy(update={"seed": 7})
    asked = [("a", one), ("a", one), ("b", one), ("a", other), ("a", one)]
    assert [(prompt, params.seed) for prompt, params in seeded(asked)] == [
        ("a", 0),
        ("a", 1),
        ("b", 0),
        ("a", 7),
        ("a", 2),
    ]


def test_the_end_of_a_long_prompt_is_kept() -> None:
    prompt = "Question: " + "word " * 50 + "What is the sum of 95 and 86? Answer:"
    assert shortened(prompt, CODEC, 1000) == prompt
    kept = shortened(prompt, CODEC, 12)
    assert prompt.endswith(kept) and kept.endswith("86? Answer:")
    assert len(CODEC.beginning(kept)) == 12


@given(
    st.text(st.sampled_from("ab 1.\n\u00e9\u4e2d\U0001f600"), max_size=60),
    st.integers(min_value=1, max_value=30),
)
def test_what_is_kept_fits_and_is_the_end(prompt: str, at_most: int) -> None:
    kept = shortened(prompt, CODEC, at_most)
    assert len(CODEC.beginning(kept)) <= at_most
    assert re.sub(r"\s", "", prompt).endswith(re.sub(r"\s", "", kept))
    if len(CODEC.beginning(prompt)) <= at_most:
        assert kept == prompt
