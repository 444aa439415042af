"""Files of prompts, and the lines that come of them."""

import datetime as dt
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tools.base import ConfigError, InputError, ToolStatus
from tools.calls import ApiCall
from training.generate.batch import Batch, Prompt, Summary, line_of, read_prompts
from training.generate.config import GenerateConfig
from training.generate.events import CallEnded, CallStarted, Generation, GenerationCost
from training.generate.params import GenerationParams

MODEL = "pipeline/demo/model"
DAY = dt.date(2020, 2, 29)
CALL = CallStarted(number=0, call=ApiCall("Calculator", '"2" + 2'), offset=4, triggered=True)
GENERATION = Generation(
    text=" is \u2014 4.",
    annotated=' is \u2014 [Calculator("2" + 2) -> 4] 4.',
    calls=(CallEnded(started=CALL, status=ToolStatus.OK, result="4", error=None, seconds=0.01234),),
    finish_reason="stop",
    taken_back=1,
    cost=GenerationCost(prompt_tokens=3, decoded_tokens=9, inserted_tokens=2),
)


def prompts_of(directory: Path, name: str, data: bytes) -> list[tuple[str | int, str]]:
    path = directory / name
    path.write_bytes(data)
    return [(prompt.id, prompt.text) for prompt in read_prompts(path)]


def test_objects_have_their_own_id_or_the_number_of_their_line(tmp_path: Path) -> None:
    data = (
        b'\xef\xbb\xbf{"id": "a", "prompt": " x\\n"}\n\n{"prompt": ""}\r\n{"prompt": "z", "id": 7}'
    )
    assert prompts_of(tmp_path, "p.jsonl", data) == [("a", " x\n"), (3, ""), (7, "z")]


def test_a_line_of_text_is_a_prompt_as_it_is(tmp_path: Path) -> None:
    data = ' {"prompt"\u2028 \r\n \n\u00fcber\n'.encode()
    assert prompts_of(tmp_path, "p.txt", data) == [(1, ' {"prompt"\u2028 '), (3, "\u00fcber")]


def test_standard_input_has_a_prompt_in_each_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"one\ntwo\n")))
    assert read_prompts(Path("-")) == [Prompt(id=1, text="one"), Prompt(id=2, text="two")]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"one\n\xff")))
    with pytest.raises(InputError, match=r"^standard input: line 2: not UTF-8$"):
        read_prompts(Path("-"))


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "this is not JSON"),
        ("[" * 5000, "this is not JSON"),
        ('{"prompt": "\\ud83d"}', "this is not JSON"),
        ('["x"]', "Input should be an object"),
        ('{"text": "x"}', "prompt: Field required"),
        ('{"prompt": 7}', "prompt: Input should be a valid string"),
        ('{"prompt": "x", "seed": -1}', "seed: Input should be greater than or equal to 0"),
        ('{"prompt": "x", "id": 1.5}', "id: str: Input should be a valid string"),
        ('{"prompt": "x", "max_calls": 2}', "max_calls: Extra inputs are not permitted"),
    ],
)
def test_a_line_that_is_no_prompt_is_named(tmp_path: Path, line: str, problem: str) -> None:
    with pytest.raises(InputError, match=f"p.jsonl: line 2: expected .*; {problem}") as refused:
        prompts_of(tmp_path, "p.jsonl", b'{"prompt": "x"}\n' + line.encode())
    assert len(str(refused.value).splitlines()) == 1


def test_files_without_prompts_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"p\.txt: no prompt in it"):
        prompts_of(tmp_path, "p.txt", b" \n\n")
    with pytest.raises(InputError, match=r"cannot read: No such file"):
        read_prompts(tmp_path / "none.jsonl")
    with pytest.raises(ConfigError, match=r"p\.csv: expected a file of prompts, \.jsonl or \.txt"):
        prompts_of(tmp_path, "p.csv", b"x")


def test_a_line_has_the_text_its_calls_and_what_it_cost() -> None:
    line = line_of(Prompt(id="a", text="2 + 2"), GENERATION, DAY)
    assert json.loads(json.dumps(line)) == {
        "id": "a",
        "prompt": "2 + 2",
        "date": "2020-02-29",
        "text": " is \u2014 4.",
        "annotated": ' is \u2014 [Calculator("2" + 2) -> 4] 4.',
        "finish_reason": "stop",
        "calls": [
            {
                "tool": "Calculator", "input": '"2" + 2', "offset": 4, "triggered": True,
                "status": "ok", "result": "4", "error": None, "seconds": 0.012, "page": 0,
            }
        ],
        "taken_back": 1,
        "cost": {"prompt_tokens": 3, "decoded_tokens": 9, "inserted_tokens": 2},
    }  # fmt: skip


def test_lines_are_counted() -> None:
    prompt = Prompt(id=1, text="x")
    summary = Summary()
    for outcome in (GENERATION, InputError("too long"), GENERATION):
        summary.add(line_of(prompt, outcome, DAY))
    assert len(summary) == 3
    assert str(summary) == (
        "2 texts with 2 calls (2 ok), 18 tokens decoded; 1 with an error instead"
    )
    refused = {"id": 1, "prompt": "x", "date": "2020-02-29", "error": "too long"}
    assert line_of(prompt, InputError("too long"), DAY) == refused


def test_a_line_may_have_a_seed_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text('{"prompt": "x"}\n{"prompt": "x", "seed": 7}\n')
    params = GenerationParams(temperature=1.0, seed=3)
    of_lines = [prompt.params(params) for prompt in read_prompts(tmp_path / "p.jsonl")]
    assert [each.seed for each in of_lines] == [3, 7]
    assert of_lines[1].temperature == 1.0


def batch(model: str = MODEL, **changes: Any) -> dict[str, Any]:
    settings: dict[str, Any] = {"model": {"path": model}, "tools": {"Calculator": {}}}
    config = GenerateConfig.model_validate(settings | changes)
    prompts = [Prompt(id=1, text="x")]
    return Batch(config=config, prompts=prompts, params=GenerationParams()).identity()


def test_a_batch_stays_the_same_however_it_is_served() -> None:
    known = batch()
    assert known == batch(engine={"token_budget": 512}, tool_cache="cache")
    assert known == batch(tools={"Calculator": {"actors": 1, "timeout_s": 5}})
    assert known != batch("pipeline/demo/toolformer")
    assert known != batch(tools={"Calendar": {}})
    assert known != batch(max_result_tokens=9)
