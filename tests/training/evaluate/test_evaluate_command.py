"""python -m training evaluate, and what is said of it that is wrong."""

import fcntl
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.training.evaluate.answering import answering, completion
from tests.training.evaluate.evaluating import (
    COUNTING,
    OF_TOOLFORMER,
    PLAIN,
    TOOLFORMER,
    error_of,
    evaluate,
    lines,
    scores,
    sums,
    svamp,
    written,
)
from training.evaluate.config import load_evaluate_config


def test_ctrl_c_is_one_line_and_the_same_command_goes_on(tmp_path: Path) -> None:
    counting = {"directory": str(tmp_path), "after": 3, "sends": "SIGINT"}
    config = written(tmp_path, tools={"Calculator": {"factory": COUNTING, "options": counting}})
    assert error_of(config) == "interrupted; the same command goes on"
    assert not (tmp_path / "out" / "results.json").exists()
    done = evaluate(config)
    assert (done.returncode, len(scores(tmp_path / "out"))) == (0, 1)
    assert len(lines(tmp_path / "out", OF_TOOLFORMER, "svamp-k10")) == 8


def test_options_take_the_place_of_settings(tmp_path: Path) -> None:
    config = written(tmp_path, models={"Toolformer": TOOLFORMER, "GPT-J": PLAIN})
    out = tmp_path / "other"
    done = evaluate(config, "--out", out, "--api-top-k", "0,10", "--max-examples", 2)
    assert done.returncode == 0
    assert [(*key, score["n"]) for key, score in scores(out).items()] == [
        ("Toolformer", "svamp", 0, 2),
        ("Toolformer", "svamp", 10, 2),
        ("GPT-J", "svamp", 0, 2),
    ]
    assert not (tmp_path / "out").exists()
    assert (out / "results.md").exists() and list((out / "plots").glob("*.svg"))


def test_two_commands_do_not_evaluate_into_one_directory(tmp_path: Path) -> None:
    config, out = written(tmp_path), tmp_path / "out"
    out.mkdir()
    with (out / ".evaluate.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert error_of(config) == f"{out}: another command is evaluating into it"


def test_a_hosted_model_is_asked_once_its_cost_is_agreed_to(tmp_path: Path) -> None:
    pytest.importorskip("openai")
    prices = {"usd_per_million_prompt_tokens": 2, "usd_per_million_new_tokens": 2}
    with answering(lambda body, before: (200, completion(" 131."))) as asked:
        endpoint = {"url": asked.url, "model": "m", **prices}
        models = {"GPT-J": PLAIN, "Davinci": {"endpoint": endpoint}}
        config = written(tmp_path, models=models)
        assert "--yes agrees to it" in error_of(config)
        assert asked.bodies == [] and not (tmp_path / "out" / "answers").exists()
        done = evaluate(config, "--yes")
        assert "Davinci: svamp" in done.stdout and done.returncode == 0
        assert {body["max_tokens"] for body in asked.bodies} == {16}
        assert len(asked.bodies) == 8
        assert evaluate(config).returncode == 0  # nothing is left to pay for
        assert len(asked.bodies) == 8
    score = scores(tmp_path / "out")["Davinci", "svamp", 0]
    assert score["mean"] == 1 / 8  # of 131, 135, ...


def test_what_a_server_failed_to_answer_is_asked_again(tmp_path: Path) -> None:
    pytest.importorskip("openai")
    broken = True

    def breaks(body: Mapping[str, Any], before: int) -> tuple[int, object]:
        return (503, "") if broken and "eggs in May and 5" in body["prompt"] else fine

    fine = (200, completion(" 131."))
    with answering(breaks) as asked:
        endpoint = {
            "url": asked.url, "model": "m", "max_retries": 0,
            "usd_per_million_prompt_tokens": 2, "usd_per_million_new_tokens": 2,
        }  # fmt: skip
        config = written(tmp_path, models={"Davinci": {"endpoint": endpoint}})
        done = evaluate(config, "--yes")
        assert "8 answers, 8 of them asked for now; 3 with an error instead" in done.stdout
        assert len(asked.bodies) == 8
        broken = False
        done = evaluate(config, "--yes")
        assert "8 answers, 3 of them asked for now" in done.stdout and "error" not in done.stdout
        assert "48" in done.stdout  # new tokens, of the three alone
    (score,) = scores(tmp_path / "out").values()
    assert (score["mean"], score["errors"]) == (1 / 8, 0)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"benchmark": []}, "benchmark: Extra inputs are not permitted"),
        ({"models": {}}, "models: Dictionary should have at least 1 item"),
        ({"models": {"A": {}}}, "models.A: expected one of path and endpoint"),
        ({"models": {"A": {"path": "x", "call": 1}}}, "models.A.call: Extra inputs are not"),
        ({"models": {"A": {"path": "/nowhere/model"}}}, "/nowhere/model: no such model directory"),
        (
            {"models": {"A": {"endpoint": {"url": "http://h/v1", "model": "m",
              "usd_per_million_prompt_tokens": 0, "usd_per_million_new_tokens": 0},
              "calls": True}}},
            "models.A: calls: not of a model behind an endpoint",
        ),
        (
            {"benchmarks": [{"name": "lama"}]},
            "benchmarks.0: no benchmark is called 'lama'; there are lama_squad, lama_google_re, ",
        ),
        (
            {"benchmarks": [{"name": "asdiv"}]},
            "benchmarks.0: asdiv needs a path: ASDiv.xml (https://github.com/chaochun/",
        ),
        ({"benchmarks": [{"name": "dateset", "path": "x"}]}, "dateset is made here and takes no"),
        (
            {"benchmarks": [{"name": "svamp", "path": "no.json"}]},
            "no.json: no such file; it can be had from https://github.com/arkilpatel/SVAMP",
        ),
        (
            {"benchmarks": [{"name": "mlqa", "path": "x", "language": "fr"}]},
            "benchmarks.0: mlqa is not in 'fr'; there are es, de, hi, vi, zh, ar",
        ),
        (
            {"benchmarks": [{"name": "svamp", "path": "x", "language": "es"}]},
            "benchmarks.0: svamp takes no language; mlqa and mlqa_in_english do",
        ),
        ({"benchmarks": [{"name": "dateset"}] * 2}, "config: 2 benchmarks are dateset"),
        (
            {"benchmarks": [{"name": "mlqa", "path": "x"},
              {"name": "mlqa", "path": "x", "language": "es"}]},
            "config: mlqa without a language has all six; expected it alone",
        ),
        ({"perplexity": [{"name": "W", "wikitext": "x"}] * 2}, "config: 2 corpora are W"),
        (
            {"perplexity": [{"name": "W", "wikitext": "x"}],
             "engine": {"name": "vllm", "tensor_parallel_size": 2}},
            "engine.tensor_parallel_size is 2, expected 1",
        ),
        ({"benchmarks": []}, "config: expected benchmarks, perplexity, or both"),
        (
            {"perplexity": [{"name": "W", "wikitext": "no.tokens"}]},
            "no.tokens: no such file; it can be had from wikitext-103",
        ),
        ({"api_top_k": [3, 3]}, "api_top_k: 2 values 3"),
        ({"api_top_k": [-1]}, "api_top_k.0: Input should be greater than or equal to 0"),
        ({"max_examples": 0}, "max_examples: Input should be greater than or equal to 1"),
        ({"tools": {"My tool": {}}}, "tools: 'My tool' is not a tool name"),
        (
            {"scaling": [{"name": "S", "models": ["B"]}]},
            "config: scaling: 'B' is none of the models: Toolformer",
        ),
    ],
)  # fmt: skip
def test_what_the_configuration_says_wrong_is_one_line(
    tmp_path: Path, changes: dict[str, Any], expected: str
) -> None:
    assert expected in error_of(written(tmp_path, **changes))
    assert not list((tmp_path / "out").glob("answers"))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--api-top-k", "1,x"), "--api-top-k 1,x: expected numbers, as in 0,1,3,10"),
        (("--api-top-k", "1,1"), "api_top_k: 2 values 1"),
        (("--max-examples", "0"), "max_examples: Input should be greater than or equal to 1"),
    ],
)
def test_what_an_option_says_wrong_is_one_line(
    tmp_path: Path, options: tuple[str, ...], expected: str
) -> None:
    assert expected in error_of(written(tmp_path), *options)


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    said = error_of(written(tmp_path, out=str(tmp_path / "file" / "out")))
    assert re.search(r"file/out: cannot write: Not a directory", said)


def test_a_problem_without_any_example_is_said(tmp_path: Path) -> None:
    path = sums(tmp_path, 1)
    path.write_text("[]")
    assert error_of(written(tmp_path, benchmarks=[svamp(path)])) == f"{path}: no example"


def test_the_committed_configuration_can_be_used() -> None:
    path = Path("training/configs/evaluate-demo.yaml")
    config = load_evaluate_config(path)
    assert list(config.models) == ["base", "base + CC", "Toolformer (disabled)", "Toolformer"]
    assert [model.has_calls for model in config.models.values()] == [False, False, False, True]
    used = yaml.safe_load(Path("training/configs/generate-demo.yaml").read_text())["tools"]
    assert yaml.safe_load(path.read_text())["tools"] == used
