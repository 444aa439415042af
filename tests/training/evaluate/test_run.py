"""Evaluations of the demo's models: what is asked, and what is not asked again."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.training.evaluate.evaluating import (
    COUNTING,
    OF_PLAIN,
    OF_TOOLFORMER,
    PLAIN,
    TOOLFORMER,
    answer_file,
    error_of,
    evaluate,
    lines,
    scores,
    sums,
    svamp,
    written,
)
from training.benchmarks.mlqa import LANGUAGES


def test_models_are_asked_alike_and_only_some_may_call(tmp_path: Path) -> None:
    config = written(tmp_path, models={"GPT-J": PLAIN, "Toolformer": TOOLFORMER}, api_top_k=[0, 10])
    done = evaluate(config)
    assert done.returncode == 0
    assert "24 answers, 24 of them asked for now" in done.stdout
    out = tmp_path / "out"
    assert list(scores(out)) == [
        ("GPT-J", "svamp", 0), ("Toolformer", "svamp", 0), ("Toolformer", "svamp", 10)
    ]  # fmt: skip
    plain = lines(out, OF_PLAIN, "svamp-k0")
    disabled = lines(out, OF_TOOLFORMER, "svamp-k0")
    calling = lines(out, OF_TOOLFORMER, "svamp-k10")
    for of_model in (plain, disabled, calling):
        assert [line["id"] for line in of_model] == [f"sum-{n}" for n in range(8)]
    # Only a Calendar can tell of the day.
    assert {line["date"] for line in calling} == {"2023-02-09"}
    assert {line["date"] for line in plain + disabled} == {None}
    assert not any(line["calls"] for line in plain + disabled)
    assert calling[0]["prompt"].endswith("How many eggs did it sell? The answer is")
    called = [line["calls"] for line in calling if line["calls"]]
    assert len(called) > 4 and {call["tool"] for calls in called for call in calls} <= {
        "Calculator", "Calendar", "WikiSearch", "QA", "MT"
    }  # fmt: skip
    right = [
        line["text"].strip(" .").split(" ")[0] == str(131 + 4 * n) for n, line in enumerate(calling)
    ]
    score = scores(out)["Toolformer", "svamp", 10]
    assert score["n"] == 8 and score["mean"] == sum(right) / 8
    assert score["share_with_call"] == len(called) / 8
    facts = json.loads((out / "results.json").read_bytes())["models"]
    assert facts["GPT-J"]["parameters"] == 2_366_592  # as the README of the model says
    assert [facts[name]["calls"] for name in facts] == [False, True]


def test_a_killed_evaluation_asks_only_what_is_not_written(tmp_path: Path) -> None:
    counting = {"directory": str(tmp_path), "after": 12, "sends": "SIGKILL"}
    config = written(
        tmp_path,
        benchmarks=[
            svamp(sums(tmp_path, 24)),
            {"name": "world_arithmetic", "max_new_tokens": 16},
        ],
        max_examples=24,
        engine={"name": "torch", "kept_tokens": 0},  # room for few texts at once
        tools={"Calculator": {"factory": COUNTING, "options": counting}},
    )
    command = [sys.executable, "-m", "training", "evaluate", str(config)]
    killed = subprocess.run(command, capture_output=True, timeout=300, check=False)
    assert killed.returncode == -signal.SIGKILL
    asked = tmp_path / "asked"
    kept = list((tmp_path / "out").rglob("*.jsonl"))
    before = [json.loads(line) for path in kept for line in path.read_text().splitlines()]
    assert 0 < len(before) < 48
    asked.unlink()

    done = evaluate(config)
    assert f"48 answers, {48 - len(before)} of them asked for now" in done.stdout
    after = lines(tmp_path / "out", OF_TOOLFORMER, "svamp-k10")
    after += lines(tmp_path / "out", OF_TOOLFORMER, "world_arithmetic-k10")
    inputs = [call["input"] for line in after for call in line["calls"]]
    known = [call["input"] for line in before for call in line["calls"]]
    assert known and sorted([*known, *asked.read_text().splitlines()]) == sorted(inputs)

    again = evaluate(config, "--out", tmp_path / "undisturbed")
    assert "48 answers, 48 of them asked for now" in again.stdout
    for path in (tmp_path / "out").rglob("*.*"):
        if path.is_file() and path.name != ".evaluate.lock":
            same = tmp_path / "undisturbed" / path.relative_to(tmp_path / "out")
            assert same.read_bytes() == path.read_bytes(), path.name


def test_what_is_finished_is_used_again_and_its_model_not_loaded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    models = {"GPT-J": PLAIN}
    assert "asked for now" in evaluate(written(tmp_path, models=models)).stdout
    assert "GPTJForCausalLM runs" in caplog.text
    first = (tmp_path / "out" / "results.json").read_bytes()
    caplog.clear()
    done = evaluate(written(tmp_path, models=models))
    assert "8 answers, 0 of them asked for now" in done.stdout
    assert "GPTJForCausalLM runs" not in caplog.text
    assert (tmp_path / "out" / "results.json").read_bytes() == first
    # Tools, k, the day and a name are nothing to a model without calls; fewer examples are there.
    changes: dict[str, Any] = {"tools": {}, "api_top_k": [1, 3], "date": "2020-02-29"}
    evaluate(written(tmp_path, models={"GPT-K": PLAIN}, max_examples=3, **changes))
    assert "GPTJForCausalLM runs" not in caplog.text
    assert [score["n"] for score in scores(tmp_path / "out").values()] == [3]
    more = [svamp(sums(tmp_path, 10))]
    done = evaluate(written(tmp_path, models=models, benchmarks=more))
    assert "10 answers, 2 of them asked for now" in done.stdout
    assert len(lines(tmp_path / "out", OF_PLAIN, "svamp-k0")) == 10


def test_one_model_under_two_names_is_asked_once(tmp_path: Path) -> None:
    models = {"Toolformer (disabled)": TOOLFORMER | {"calls": False}, "Toolformer": TOOLFORMER}
    done = evaluate(written(tmp_path, models=models, api_top_k=0))
    assert "16 answers, 8 of them asked for now" in done.stdout
    disabled, calling = scores(tmp_path / "out").values()
    assert disabled | {"model": "Toolformer"} == calling


def test_a_prompt_of_several_examples_is_asked_once(tmp_path: Path) -> None:
    for language in ("en", *LANGUAGES):
        entry = {"id": "1", "question": f"{language}?", "answers": [{"text": "x"}]}
        content = {"data": [{"paragraphs": [{"context": "c", "qas": [entry]}]}]}
        (tmp_path / f"test-context-en-question-{language}.json").write_text(json.dumps(content))
    benchmarks = [{"name": "mlqa_in_english", "path": str(tmp_path), "max_new_tokens": 2}]
    done = evaluate(written(tmp_path, models={"GPT-J": PLAIN}, benchmarks=benchmarks))
    assert "6 answers, 1 of them asked for now" in done.stdout
    (score,) = scores(tmp_path / "out").values()
    assert score["n"] == 6 and list(score["groups"]) == list(LANGUAGES)


def test_models_without_calls_load_no_tools(tmp_path: Path) -> None:
    tools = {"WikiSearch": {"options": {"corpus": str(tmp_path / "none.jsonl")}}}
    assert evaluate(written(tmp_path, models={"GPT-J": PLAIN}, tools=tools)).returncode == 0
    assert "none.jsonl: no such file" in error_of(written(tmp_path, tools=tools))


def test_a_prompt_without_an_answer_is_counted_and_stops_nothing(tmp_path: Path) -> None:
    benchmarks = [svamp(sums(tmp_path, 3, Body="egg " * 1100))]
    done = evaluate(written(tmp_path, models={"GPT-J": PLAIN}, benchmarks=benchmarks))
    assert "3 answers, 3 of them asked for now; 1 with an error instead" in done.stdout
    first, *others = lines(tmp_path / "out", OF_PLAIN, "svamp-k0")
    assert "the prompt is too long" in first["error"] and first["text"] is None
    assert all(line["error"] is None and line["text"] for line in others)
    (score,) = scores(tmp_path / "out").values()
    assert (score["n"], score["errors"]) == (3, 1)


def test_the_perplexity_of_a_corpus_is_measured_once(tmp_path: Path) -> None:
    wiki = tmp_path / "wiki.test.tokens"
    wiki.write_text(" \n = Eggs = \n \n The mill sold 91 eggs in May . \n")
    models = {"GPT-J": PLAIN, "again": PLAIN}
    corpora = [{"name": "Wiki Text", "wikitext": str(wiki)}]
    config = written(tmp_path, models=models, benchmarks=[], perplexity=corpora)
    assert evaluate(config).returncode == 0
    (path,) = (tmp_path / "out" / "perplexity").glob("demo-model-*/*")
    assert path.name.startswith("wiki-text.")
    found = json.loads((tmp_path / "out" / "results.json").read_bytes())["perplexity"]
    assert [each["model"] for each in found] == ["GPT-J", "again"]
    assert found[0]["perplexity"] == found[1]["perplexity"] > 1
    os.utime(path, (1, 1))
    # What is kept are losses: of another seed they have another interval.
    other = written(
        tmp_path, models=models, benchmarks=[], perplexity=corpora, seed=7,
        engine={"name": "torch", "token_budget": 64},
    )  # fmt: skip
    assert evaluate(other).returncode == 0
    assert path.stat().st_mtime == 1
    wiki.write_text(" \n = Eggs = \n \n The mill sold 19 eggs in May . \n")
    assert evaluate(config).returncode == 0
    assert len(list(path.parent.iterdir())) == 2


def test_a_damaged_line_is_named_and_half_of_one_written_again(tmp_path: Path) -> None:
    config = written(tmp_path, models={"GPT-J": PLAIN})
    evaluate(config)
    path = answer_file(tmp_path / "out", OF_PLAIN, "svamp-k0")
    kept = path.read_bytes().splitlines(keepends=True)
    for torn in (b"{\n", b"[" * 9999 + b"\n", b"\xff\n", b"7\n", b"{}\n"):
        path.write_bytes(b"".join([kept[0], torn, *kept[2:]]))
        assert error_of(config).startswith(f"{path}: line 2 is ")
    path.write_bytes(b"".join(kept)[:-10])
    assert "8 answers, 1 of them asked for now" in evaluate(config).stdout
    assert path.read_bytes() == b"".join(kept)


def test_what_a_tool_could_not_say_is_asked_again(tmp_path: Path) -> None:
    config = written(tmp_path)
    evaluate(config)
    path = answer_file(tmp_path / "out", OF_TOOLFORMER, "svamp-k10")
    whole = path.read_bytes()
    first = next(line for line in whole.splitlines(keepends=True) if b'"status": "ok"' in line)
    for status, number in ((b"timeout", 1), (b"failed", 1), (b"invalid", 0), (b"empty", 0)):
        broken = first.replace(b'"status": "ok"', b'"status": "' + status + b'"')
        path.write_bytes(whole.replace(first, broken))
        assert f"8 answers, {number} of them asked for now" in evaluate(config).stdout
        assert path.read_bytes() == whole.replace(first, broken) + first * number


def test_what_is_asked_is_told_before_what_is_measured(tmp_path: Path) -> None:
    wiki = tmp_path / "wiki.test.tokens"
    wiki.write_text(" \n = Eggs = \n \n The mill sold 91 eggs in May . \n")
    config = written(
        tmp_path, models={"GPT-J": PLAIN}, perplexity=[{"name": "W", "wikitext": str(wiki)}]
    )
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "perplexity").touch()  # where a directory should be
    assert "cannot write" in error_of(config)
    assert len(scores(tmp_path / "out")) == 1
