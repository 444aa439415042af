import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.training.evaluate.made_results import FAILED, RIGHT, WRONG, answers, made_score
from tools.base import InputError, OutputError
from training.evaluate.answers import TextPerplexity
from training.evaluate.results import ModelFacts, Results, read_results, write_results
from training.evaluate.scores import score

_MODELS = {
    "A": ModelFacts(where="/models/a", parameters=124_000_000, calls=True),
    "Davinci": ModelFacts(where="https://api.example.org/v1", parameters=None, calls=False),
}
_PERPLEXITY = TextPerplexity(
    model="A",
    corpus="WikiText",
    perplexity=9.9,
    low=9.5,
    high=10.4,
    num_documents=62,
    num_tokens=2800,
)


def results(**changes: Any) -> Results:
    asked = answers(
        [RIGHT, WRONG, RIGHT, FAILED],
        called=[("QA",), (), (), ()],
        groups="xxyy",
        skipped={"no number": 7},
    )
    values: dict[str, Any] = {
        "seed": 3,
        "models": _MODELS,
        "scores": [score(asked, seed=3), made_score("Davinci", "asdiv", 0.25)],
        "perplexities": [_PERPLEXITY],
    }
    return Results(**values | changes)


def test_a_score_in_the_file_has_everything_that_is_known_of_it(tmp_path: Path) -> None:
    write_results(tmp_path, results(), {})
    told = json.loads((tmp_path / "results.json").read_bytes())
    assert set(told) == {"seed", "models", "scores", "perplexity"}
    assert told["seed"] == 3
    first = told["scores"][0]
    low, high = first["low"], first["high"]
    assert 0 <= low < 0.5 < high <= 1
    assert first == {
        "model": "A",
        "benchmark": "asdiv",
        "api_top_k": 10,
        "n": 4,
        "mean": 0.5,
        "low": low,
        "high": high,
        "errors": 1,
        "share_with_call": 0.25,
        "tools": {"QA": 0.25},
        "calls": {"QA": {"ok": 1}},
        "with_call": {"n": 1, "mean": 1.0, "low": pytest.approx(0.05), "high": 1.0},
        "without_call": {"n": 3, "mean": 1 / 3, "low": 0.0, "high": 1.0},
        "groups": {
            "x": {"n": 2, "mean": 0.5, "low": 0.0, "high": 1.0},
            "y": {"n": 2, "mean": 0.5, "low": 0.0, "high": 1.0},
        },
        "skipped": {"no number": 7},
    }
    assert told["scores"][1]["with_call"] is None


def test_the_file_says_what_the_models_and_the_texts_are(tmp_path: Path) -> None:
    write_results(tmp_path, results(), {})
    told = json.loads((tmp_path / "results.json").read_bytes())
    a, davinci = told["models"]["A"], told["models"]["Davinci"]
    assert a == {"path": "/models/a", "endpoint": None, "parameters": 124_000_000, "calls": True}
    assert davinci["endpoint"] == "https://api.example.org/v1" and davinci["path"] is None
    assert told["perplexity"] == [
        {
            "model": "A",
            "corpus": "WikiText",
            "perplexity": 9.9,
            "low": 9.5,
            "high": 10.4,
            "documents": 62,
            "tokens": 2800,
        }
    ]


def test_what_is_read_is_what_was_written(tmp_path: Path) -> None:
    write_results(tmp_path, results(), {})
    assert read_results(tmp_path / "results.json") == results()


def test_an_infinite_perplexity_is_read_as_it_was_written(tmp_path: Path) -> None:
    found = results(perplexities=[replace(_PERPLEXITY, perplexity=math.inf, high=math.inf)])
    write_results(tmp_path, found, {})
    assert read_results(tmp_path / "results.json") == found
    assert "inf (9.50-inf)" in (tmp_path / "results.md").read_text(encoding="utf-8")


def test_the_same_results_are_the_same_files(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_results(tmp_path / name, results(), {"A": ["A"]})
    one, two = (
        {file.relative_to(folder): file.read_bytes() for file in folder.rglob("*.*")}
        for folder in (tmp_path / "one", tmp_path / "two")
    )
    assert one == two
    assert {str(file) for file in one} == {
        "results.json",
        "results.md",
        "plots/math.svg",
        "plots/scaling-math.svg",
        "plots/perplexity.svg",
    }


def test_nothing_measured_is_written_as_well(tmp_path: Path) -> None:
    write_results(tmp_path, results(scores=[], perplexities=[]), {"A": ["A"]})
    assert read_results(tmp_path / "results.json").scores == []
    assert not (tmp_path / "plots").exists()


def test_results_are_of_known_models() -> None:
    with pytest.raises(ValueError, match="B is none of the models: A, Davinci"):
        results(scores=[made_score("B", "asdiv", 0.5)])


def test_other_files_are_no_results(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    with pytest.raises(InputError, match=r"results\.json: cannot read: No such file"):
        read_results(file)
    file.write_text('{"seed": 0, "models": {}')
    with pytest.raises(InputError, match="not the results of an evaluation: config: Invalid JSON"):
        read_results(file)
    write_results(tmp_path, results(), {})
    told = json.loads(file.read_bytes())
    del told["scores"][0]["mean"]
    file.write_text(json.dumps(told))
    with pytest.raises(InputError, match=r"scores\.0\.mean: Field required"):
        read_results(file)
    told["scores"] = []
    told["perplexity"][0]["model"] = "B"
    file.write_text(json.dumps(told))
    with pytest.raises(InputError, match=r"results\.json: B is none of the models"):
        read_results(file)


def test_a_place_that_is_no_folder_is_said(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(OutputError, match="cannot write"):
        write_results(tmp_path / "out", results(), {})
