"""The model class as the harness uses it, with a small real model and live tools."""

import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from lm_eval.api.model import CachingLM
from lm_eval.models.huggingface import HFLM
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.training.harness.asked import config_of_small_model, requests
from tools.base import ConfigError
from training.harness.model import ToolformerLM

PAIRS = [
    ("The sum", " is"),
    ("The sum is", " 181."),
    ("The sum is ", "182"),  # the space belongs to what follows
    ("All is", " well."),
    ("All is", " ill."),
    ("", " It is"),
    ("word " * 200, " well."),  # longer than the context: cut from the left
    ("The sum", " is"),
]
DEMO = "pipeline/demo/model"


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(config_of_small_model(tmp_path_factory.mktemp("harness")))


def texts(model: Any, *asked: tuple[str, dict[str, Any]]) -> list[str]:
    generated: list[str] = model.generate_until(requests("generate_until", asked))
    return generated


def test_texts_have_results_but_no_calls_and_the_results_tell_of_them(
    config: str, caplog: pytest.LogCaptureFixture
) -> None:
    model = ToolformerLM(config=config, date="2021-03-09")
    with caplog.at_level(logging.INFO, "training.harness"):
        assert texts(
            model, ("All", {}), ("The sum", {}), ("It is", {"max_gen_toks": 8}), ("The sum is", {})
        ) == [" is well.", " is 181.", " Tuesday.", " 181."]
    told = model.get_model_info()["toolformer"]
    assert told["decoding"]["date"] == "2021-03-09"
    assert (told["texts"], told["texts_with_call"], told["prompts_shortened"]) == (4, 3, 0)
    assert told["calls"] == {"Calculator": {"ok": 2}, "Calendar": {"ok": 1}}
    assert caplog.messages[-1] == "4 texts, 3 with a call: Calculator 2 ok, Calendar 1 ok"


def test_a_text_ends_before_what_the_task_stops_at(config: str) -> None:
    model = ToolformerLM(config=config)
    stopped = texts(
        model,
        ("The sum", {"until": ["nowhere", " 181"]}),
        ("The sum", {"until": ["."], "do_sample": False, "temperature": 1.0}),
        ("All", {"max_gen_toks": 1}),
    )
    assert stopped == [" is", " is 181", " is"]


@pytest.mark.parametrize("changes", [{"disabled": True}, {"api_top_k": 0}, {"max_calls": 0}])
def test_no_call_is_made_where_they_are_disabled(config: str, changes: dict[str, Any]) -> None:
    model = ToolformerLM(config=config, **changes)
    (text,) = texts(model, ("The sum is", {}))
    assert "[" not in text
    told = model.get_model_info()["toolformer"]
    assert (told["texts"], told["texts_with_call"], told["calls"]) == (1, 0, {})


def test_a_prompt_that_does_not_fit_is_used_from_its_end(
    config: str, caplog: pytest.LogCaptureFixture
) -> None:
    model = ToolformerLM(config=config, max_calls=0)
    wanted = {"max_gen_toks": 100}
    long, end = "word " * 200 + "All is", "word " * 25 + "All is"
    # The context of 128 tokens has room for the begin-of-text token, 100 new ones and 27 more.
    assert texts(model, (long, wanted)) == texts(model, (end, wanted))
    assert model.get_model_info()["toolformer"]["prompts_shortened"] == 1
    warned = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert (
        "a prompt was shortened, perhaps others too: only its last 27 tokens, as many as fit"
        in (warned)
    )


def test_a_prompt_that_is_no_text_has_an_empty_one(config: str) -> None:
    model = ToolformerLM(config=config)
    assert texts(model, ("\ud800", {}), ("All", {})) == ["", " is well."]
    told = model.get_model_info()["toolformer"]
    assert (told["texts"], told["prompts_refused"]) == (1, 1)


def test_samples_of_a_prompt_differ(config: str) -> None:
    drawn = texts(
        ToolformerLM(config=config),
        *[("The", {"do_sample": True, "temperature": 2.0, "max_gen_toks": 8})] * 4,
    )
    assert len(set(drawn)) > 1


def test_what_is_in_the_cache_is_not_generated_again(config: str, tmp_path: Path) -> None:
    cache = str(tmp_path / "answers.db")
    first = ToolformerLM(config=config)
    asked = ("The sum", {"until": ["\n"]})
    assert texts(CachingLM(first, cache), asked) == [" is 181."]
    again = ToolformerLM(config=config)
    assert texts(CachingLM(again, cache), asked, ("All", {})) == [" is 181.", " is well."]
    assert again.get_model_info()["toolformer"]["texts"] == 1
    # The hook alone keeps a text, too: a killed evaluation goes on from there.
    again.set_cache_hook(CachingLM(again, str(tmp_path / "other.db")).get_cache_hook())
    texts(again, asked)
    third = ToolformerLM(config=config)
    assert texts(CachingLM(third, str(tmp_path / "other.db")), asked) == [" is 181."]
    assert third.get_model_info()["toolformer"]["texts"] == 0


def test_likelihoods_are_those_of_the_harness_own_model(config: str) -> None:
    for path, model in (
        (str(Path(config).parent / "model"), ToolformerLM(config=config, batch_size=2)),
        (DEMO, ToolformerLM(config=config, model=DEMO, batch_size=3)),
    ):
        own = HFLM(pretrained=path, dtype="float32", device="cpu")
        asked = requests("loglikelihood", PAIRS)
        got, expected = model.loglikelihood(asked), own.loglikelihood(asked)
        assert [greedy for _, greedy in got] == [greedy for _, greedy in expected]
        assert [p for p, _ in got] == pytest.approx([p for p, _ in expected], abs=1e-4)
        rolling = requests("loglikelihood_rolling", [("All is well.",), ("The sum is " * 90,)])
        assert model.loglikelihood_rolling(rolling) == pytest.approx(
            own.loglikelihood_rolling(rolling), abs=1e-3
        )


def test_likelihoods_are_sums_over_the_tokens_of_plain_text(config: str) -> None:
    path = str(Path(config).parent / "model")
    plain = AutoModelForCausalLM.from_pretrained(path)
    ids = AutoTokenizer.from_pretrained(path)("The sum is 181.").input_ids
    before = len(AutoTokenizer.from_pretrained(path)("The sum").input_ids)
    with torch.no_grad():
        logprobs_TV = torch.log_softmax(plain(input_ids=torch.tensor([ids])).logits[0], dim=-1)
    expected = sum(float(logprobs_TV[at - 1, ids[at]]) for at in range(before, len(ids)))
    asked = requests("loglikelihood", [("The sum", " is 181.")])
    ((got, greedy),) = ToolformerLM(config=config).loglikelihood(asked)
    assert got == pytest.approx(expected, abs=1e-4)
    # Where the text goes on without its call, as the model would not.
    assert not greedy and got < -3.0


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({}, "--model_args: expected config=FILE"),
        ({"config": "nowhere.yaml"}, "nowhere.yaml: no such configuration file"),
        ({"config": None, "api_top_k": 1, "disabled": True}, "disabled and api_top_k exclude"),
        ({"config": None, "top_k": 5}, "--model_args: top_k: Extra inputs are not permitted"),
    ],
)
def test_wrong_arguments_are_one_line(config: str, arguments: dict[str, Any], reason: str) -> None:
    given = arguments | ({"config": config} if arguments.get("config", 0) is None else {})
    with pytest.raises(ConfigError, match=reason):
        ToolformerLM(**given)


def test_a_task_that_leaves_no_room_for_a_prompt_is_refused(config: str) -> None:
    with pytest.raises(ConfigError, match=r"max_gen_toks 120, max_calls 1 .* leave no room"):
        texts(ToolformerLM(config=config), ("All", {"max_gen_toks": 120}))
