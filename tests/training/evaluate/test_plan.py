"""What makes another file of answers, and what does not; no model is loaded."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.training.evaluate.evaluating import COUNTING, TOOLFORMER, sums, svamp, written
from training.evaluate.config import load_evaluate_config
from training.evaluate.measured import load_corpora, measurements
from training.evaluate.plan import Task, load_benchmarks, plan

PAGE = {
    "wikipedia_title": "Velmora",
    "text": ["Velmora\n", "Velmora is a town in Orovia.\n"],
    "wikipedia_id": "1",
}


def planned(directory: Path, **changes: Any) -> list[Task]:
    config = load_evaluate_config(written(directory, **with_search(directory) | changes))
    return plan(config, load_benchmarks(config))


def with_search(directory: Path) -> dict[str, Any]:
    """Tools of which one answers from a file."""
    pages = directory / "pages.jsonl"
    if not pages.exists():
        pages.write_text(json.dumps(PAGE) + "\n", encoding="utf-8")
    return {"tools": {"Calculator": {}, "WikiSearch": {"options": {"corpus": str(pages)}}}}


def files(directory: Path, **changes: Any) -> list[Path]:
    return [task.file.path for task in planned(directory, **changes)]


def other_pages(directory: Path) -> dict[str, Any]:
    page = PAGE | {"text": ["Velmora\n", "Velmora is a town in Kelwick.\n"]}
    (directory / "pages.jsonl").write_text(json.dumps(page) + "\n", encoding="utf-8")
    return {}


def calculator(**settings: Any) -> Callable[[Path], dict[str, Any]]:
    def changed(directory: Path) -> dict[str, Any]:
        tools = with_search(directory)["tools"]
        return {"tools": tools | {"Calculator": settings}}

    return changed


def constantly(**changes: Any) -> Callable[[Path], dict[str, Any]]:
    return lambda directory: changes


def longer(directory: Path) -> dict[str, Any]:
    return {"benchmarks": [svamp(directory / "SVAMP.json") | {"max_new_tokens": 17}]}


@pytest.mark.parametrize(
    "change",
    [
        constantly(models={"Toolformer": TOOLFORMER | {"dtype": "bfloat16"}}),
        constantly(models={"Toolformer": {"path": "pipeline/demo/model"}}),
        constantly(engine="vllm"),
        constantly(max_result_tokens=7),
        constantly(api_top_k=[3]),
        calculator(factory=COUNTING, options={"directory": "d", "after": 1, "sends": "SIGINT"}),
        longer,
        other_pages,
    ],
    ids=["dtype", "weights", "engine", "results", "k", "tool", "tokens", "pages"],
)
def test_what_answers_depend_on_makes_another_file(
    tmp_path: Path, change: Callable[[Path], dict[str, Any]]
) -> None:
    [before] = files(tmp_path)
    [after] = files(tmp_path, **change(tmp_path))
    assert after != before


@pytest.mark.parametrize(
    "change",
    [
        constantly(models={"another name": TOOLFORMER}),
        constantly(seed=1),
        constantly(max_examples=3),
        constantly(engine={"token_budget": 512}),
        constantly(date="2020-01-01"),
        constantly(tool_cache="cache"),
        calculator(timeout_s=1),
    ],
    ids=["name", "seed", "examples", "budget", "date", "cache", "timeout"],
)
def test_what_changes_no_answer_makes_none(
    tmp_path: Path, change: Callable[[Path], dict[str, Any]]
) -> None:
    before = files(tmp_path)
    assert files(tmp_path, **change(tmp_path)) == before


def test_without_calls_no_tool_matters_and_models_share_what_they_answer(tmp_path: Path) -> None:
    models = {"disabled": TOOLFORMER | {"calls": False}, "Toolformer": TOOLFORMER}
    disabled, none, ten = files(tmp_path, models=models, api_top_k=[0, 10])
    assert disabled == none != ten
    settings = {"models": models, "api_top_k": [0, 10], "max_result_tokens": 7, **other_tools()}
    assert files(tmp_path, **settings)[:2] == [disabled, none]
    assert files(tmp_path, **settings)[2] != ten


def other_tools() -> dict[str, Any]:
    return {"tools": {"Calendar": {}}}


def test_the_day_counts_where_a_tool_may_be_told_of_it(tmp_path: Path) -> None:
    sums(tmp_path)
    [without] = planned(tmp_path)
    [with_calendar] = planned(tmp_path, **other_tools(), date="2020-01-01")
    assert {asked.date for asked in without.left()} == {None}
    assert {asked.date for asked in with_calendar.left()} == {"2020-01-01"}
    [disabled] = planned(tmp_path, **other_tools(), api_top_k=[0])
    assert {asked.date for asked in disabled.left()} == {None}


def test_losses_depend_on_weights_their_dtype_and_the_texts(tmp_path: Path) -> None:
    text = tmp_path / "wiki.test.raw"

    def measured(said: str, **changes: Any) -> list[Path]:
        text.write_text(f" \n = Mill = \n \n {said}\n", encoding="utf-8")
        corpora = {"perplexity": [{"name": "WikiText", "wikitext": str(text)}]}
        config = load_evaluate_config(written(tmp_path, **corpora | changes))
        return [each.path for each in measurements(config, load_corpora(config))]

    before = measured("The mill stands .")
    assert measured("The mill stands .", seed=1, engine={"token_budget": 512}) == before
    assert measured("The mill falls .") != before
    other = {"Toolformer": TOOLFORMER | {"dtype": "bfloat16"}}
    assert measured("The mill stands .", models=other) != before
