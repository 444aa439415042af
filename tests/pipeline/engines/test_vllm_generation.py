"""What a stretch asks of vLLM and what is read from its answers, without vLLM."""

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.engines.generation import Choosing, Step
from pipeline.engines.vllm_generation import VLLMGeneration, asked, chosen
from tools.base import ConfigError

TRIGGERS = Choosing(max_new_tokens=5, stop_ids=frozenset({9, 7}), trigger_id=7, trigger_k=2)


def answered(token_ids: Sequence[int], *rows: Sequence[int]) -> Any:
    """A part of vLLM's answer: for each token, itself and the likeliest in its place."""
    ends = [sum(len(row) for row in rows[: number + 1]) for number in range(len(rows))]
    told = SimpleNamespace(
        start_indices=[0, *ends[:-1]],
        end_indices=ends,
        token_ids=[token_id for row in rows for token_id in row],
    )
    return SimpleNamespace(token_ids=list(token_ids), logprobs=told if rows else None)


def test_a_greedy_stretch_asks_for_nothing_more() -> None:
    plain = Choosing(max_new_tokens=5, stop_ids=frozenset({9, 7}))
    assert asked(plain, 3) == {"max_tokens": 5, "temperature": 0.0, "stop_token_ids": [7, 9]}
    assert list(chosen(answered([4, 7]), plain)) == [Step(4), Step(7)]


def test_the_likeliest_are_asked_for_where_one_may_trigger() -> None:
    assert asked(TRIGGERS, 3).items() >= {"logprobs": 2, "flat_logprobs": True}.items()
    for never in (
        replace(TRIGGERS, trigger_k=0),
        replace(TRIGGERS, trigger_id=None),
        replace(TRIGGERS, banned_ids=frozenset({7})),  # its probability is 0, so it is not likely
    ):
        assert "logprobs" not in asked(never, 3)


def test_the_first_place_where_the_token_is_likely_ends_the_stretch() -> None:
    answer = answered([4, 5, 6, 8], [4, 4, 1], [5, 1, 5], [6, 6, 7], [8, 7, 8])
    assert list(chosen(answer, TRIGGERS)) == [Step(4), Step(5), Step(7, triggered=True)]


def test_rows_need_not_repeat_the_token_that_was_chosen() -> None:
    # So come those of answers that vLLM has put together while nobody read them.
    answer = answered([4, 5, 6], [4, 1], [5, 1, 2], [6, 7])
    assert list(chosen(answer, TRIGGERS)) == [Step(4), Step(5), Step(7, triggered=True)]


def test_the_token_itself_is_not_triggered_where_it_was_chosen() -> None:
    assert list(chosen(answered([7], [7, 7, 1]), TRIGGERS)) == [Step(7)]


def test_more_of_the_likeliest_than_vllm_tells_are_refused() -> None:
    assert asked(replace(TRIGGERS, trigger_k=20), 3)["logprobs"] == 20
    with pytest.raises(ConfigError, match=r"^api_top_k: got 21, expected at most 20: "):
        asked(replace(TRIGGERS, trigger_k=21), 3)
    # Nor is it known yet, when a text is asked for, which token may begin a call.
    with pytest.raises(ConfigError, match=r"^api_top_k: got 21"):
        VLLMGeneration.check(Choosing(max_new_tokens=1, trigger_k=21))
    VLLMGeneration.check(Choosing(max_new_tokens=1, trigger_k=20, temperature=2.0))


def test_temperatures_vllm_would_change_are_refused() -> None:
    for temperature in (0.005, 2.1):
        choosing = Choosing(max_new_tokens=1, temperature=temperature)
        message = rf"^temperature: got {temperature}, expected 0 or 0\.01 to 2: "
        with pytest.raises(ConfigError, match=message):
            asked(choosing, 3)
        with pytest.raises(ConfigError, match=message):
            VLLMGeneration.check(choosing)


def test_banned_tokens_have_no_probability_left() -> None:
    banned = Choosing(max_new_tokens=1, banned_ids=frozenset({8, 3}))
    assert asked(banned, 3)["logit_bias"] == {3: float("-inf"), 8: float("-inf")}


def test_every_place_and_seed_draws_with_a_seed_of_its_own() -> None:
    drawn = Choosing(max_new_tokens=1, temperature=0.7, top_p=0.9)
    seeds = {
        asked(replace(drawn, seed=seed), length)["seed"]
        for seed in (0, 1, 2**63 - 1)
        for length in range(100)
    }
    assert len(seeds) == 300 and all(0 <= seed < 2**63 for seed in seeds)
    assert asked(drawn, 5) == asked(drawn, 5) and asked(drawn, 5)["top_p"] == 0.9
