"""The command as a user gives it, in this process, with a model that knows a few texts."""

import datetime as dt
import io
import json
import re
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.training.generate.made_model import model_that_knows
from training.cli import main

SUM = (" The", " sum", " is", " [", "Calculator(95 + 86)", " ->", " 181", "]", " 181.")
DAY = (
    " It",
    " is",
    " [",
    "Calendar()",
    " ->",
    " Today is Tuesday, March 9, 2021.",
    "]",
    " Tuesday.",
)
WELL = (" All", " is", " well.")
NOBODY = (" Who", " [", "Nobody(x)", " ->", "]", " knows.")
STOPS = (" Then", " [", "Interrupting(x)", " ->", " y", "]", " no more.")


class Written(io.StringIO):
    """What is written, and in which pieces."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []

    def write(self, text: str) -> int:
        self.pieces.append(text)
        return super().write(text)


def generate(*arguments: object) -> subprocess.CompletedProcess[str]:
    """What `python -m training generate ARGUMENTS` comes to; of its output, the pieces as well."""
    printed, errors = Written(), io.StringIO()
    command = ["training", "generate", *map(str, arguments)]
    with (
        pytest.MonkeyPatch.context() as patch,
        redirect_stdout(printed),
        redirect_stderr(errors),
        pytest.raises(SystemExit) as left,
    ):
        patch.setattr(sys, "argv", command)
        patch.setenv("NO_COLOR", "1")
        patch.setenv("COLUMNS", "200")
        main()
    assert "Traceback" not in errors.getvalue()
    code = left.value.code or 0
    assert isinstance(code, int)
    done = subprocess.CompletedProcess(command, code, printed.getvalue(), errors.getvalue())
    done.args = printed.pieces
    return done


def error_of(*arguments: object) -> str:
    """Why the command ends, in the one line that says so; nothing was generated."""
    done = generate(*arguments)
    assert (done.returncode, done.stdout) == (1, "")
    said = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(said) == 1
    return said[0].removeprefix("error: ")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    texts = (SUM, DAY, WELL, NOBODY, STOPS)
    return model_that_knows(texts, tmp_path_factory.mktemp("generate") / "model")


@pytest.fixture
def config(tmp_path: Path, model: Path) -> Path:
    return written(tmp_path, model={"path": str(model)})


def written(directory: Path, **changes: Any) -> Path:
    settings: dict[str, Any] = {
        "tools": {
            "Calculator": {},
            "Calendar": {},
            "Interrupting": {
                "factory": "tests.training.generate.interrupting_tool:InterruptingTool",
                "options": {"pressed": str(directory / "pressed")},
            },
        },
        # The model knows texts by heart: what regular decoding chooses is certain.
        "decoding": {"api_top_k": 1, "max_new_tokens": 12},
    } | changes
    path = directory / "generate.yaml"
    path.write_text(yaml.safe_dump(settings))
    return path


def test_a_text_is_shown_while_it_is_written_and_its_calls_where_they_stand(config: Path) -> None:
    done = generate(config, "The sum", "All")
    assert done.returncode == 0
    first, *table, costs, second, _ = done.stdout.splitlines()
    assert first == "The sum is [Calculator(95 + 86) -> 181] 181."
    cells = [cell.strip() for cell in re.split("[|\u2502]", table[3])[1:-1]]
    assert [*cells[:4], cells[5]] == ["Calculator", "95 + 86", "ok", "181", "no"]
    assert re.fullmatch(
        r"3 tokens of the prompt, \d+ decoded, \d inserted; 0 taken back; ended by .*", costs
    )
    assert second == "All is well."
    pieces = [piece for piece in done.args if piece]
    assert pieces[:4] == ["The sum", " is", " [Calculator(95 + 86) ->", " 181"]


def test_the_date_is_what_the_calendar_says(config: Path) -> None:
    done = generate(config, "It is", "--date", "2021-03-09")
    assert done.stdout.startswith("It is [Calendar() -> Today is Tuesday, March 9, 2021.] Tuesday.")
    assert generate(config, "It is", "--date", "9.3.2021").returncode == 2


def test_without_calls_none_is_begun(config: Path) -> None:
    for option in ("--disabled", "--max-calls=0", "--api-top-k=0"):
        done = generate(config, "The sum is", option)
        assert "[" not in done.stdout and "0 inserted; 0 taken back" in done.stdout


def test_a_text_ends_before_a_stop_or_at_its_length(config: Path) -> None:
    done = generate(config, "All", "--stop", "nowhere", "--stop", " well")
    assert done.stdout.splitlines()[0] == "All is"
    done = generate(config, "All", "--max-new-tokens", 1)
    assert done.stdout.splitlines()[0] == "All is"
    assert done.stdout.splitlines()[1].endswith("ended at its length")


def test_draws_are_those_of_their_seed(config: Path) -> None:
    drawn = [
        generate(config, "The", "--temperature", 2, "--top-p", 1, "--seed", seed).stdout
        for seed in (1, 1, 2)
    ]
    assert drawn[0] == drawn[1] != drawn[2]


def test_lines_come_out_in_the_order_of_the_prompts(config: Path, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.jsonl"
    texts = ["All", "The sum", "word " * 200, "Who", "It is"]
    prompts.write_text(
        "".join(json.dumps({"id": f"#{n}", "prompt": t}) + "\n" for n, t in enumerate(texts))
    )
    out = tmp_path / "new" / "texts.jsonl"
    done = generate(config, "--input", prompts, "--out", out, "--date", "2021-03-09")
    assert done.returncode == 0
    well, total, too_long, nobody, day = map(json.loads, out.read_text().splitlines())
    assert [line["id"] for line in (well, total, too_long, nobody, day)] == [
        "#0", "#1", "#2", "#3", "#4",
    ]  # fmt: skip
    assert (well["text"], well["calls"], well["finish_reason"]) == (" is well.", [], "stop")
    assert total["text"] == " is 181."
    assert total["annotated"] == " is [Calculator(95 + 86) -> 181] 181."
    assert too_long.keys() == {"id", "prompt", "date", "error"}
    assert "too long" in too_long["error"]
    (call,) = nobody["calls"]
    assert (call["status"], call["result"]) == ("invalid", "")
    assert "there are Calculator, Calendar" in call["error"]
    assert day["text"] == " Tuesday."
    assert "4 texts with 3 calls (1 invalid, 2 ok)" in done.stdout
    assert "; 1 with an error instead" in done.stdout
    assert [path.name for path in out.parent.iterdir()] == ["texts.jsonl"]


def test_prompts_come_from_lines_of_text_or_standard_input(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "prompts.txt").write_text("All\n\nThe sum\n")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"All\n\nThe sum\n")))
    for source in (tmp_path / "prompts.txt", "-"):
        out = tmp_path / f"{Path(source).stem}.jsonl"
        assert generate(config, "--input", source, "--out", out).returncode == 0
        lines = [json.loads(line) for line in out.read_text().splitlines()]
        assert [(line["id"], line["text"]) for line in lines] == [
            (1, " is well."), (3, " is 181."),
        ]  # fmt: skip


def test_what_is_interrupted_goes_on_with_the_same_command(config: Path, tmp_path: Path) -> None:
    (tmp_path / "prompts.txt").write_text("All\nThen\nThe sum\n")
    out = tmp_path / "out" / "texts.jsonl"
    # One text at a time, so that the first is there when the second is interrupted.
    settings = yaml.safe_load(config.read_text())
    config.write_text(yaml.safe_dump(settings | {"engine": {"kept_tokens": 64}}))
    command = (config, "--input", tmp_path / "prompts.txt", "--out", out)
    done = generate(*command)
    assert done.returncode == 1
    assert "error: interrupted; the same command goes on" in done.stderr
    [growing] = out.parent.iterdir()
    assert [json.loads(line)["text"] for line in growing.read_text().splitlines()] == [" is well."]
    first = growing.read_bytes()
    first = first.replace(str(dt.datetime.now(dt.UTC).date()).encode(), b"2020-02-29")
    growing.write_bytes(first + b'{"id": 2, "pro')  # as a power cut may leave it
    done = generate(*command)
    assert done.returncode == 0
    assert "3 texts with 2 calls (2 ok)" in done.stdout
    assert list(out.parent.iterdir()) == [out]
    assert out.read_bytes().startswith(first)
    texts = [json.loads(line)["text"] for line in out.read_text().splitlines()]
    assert texts == [" is well.", " no more.", " is 181."]
    days = {json.loads(line)["date"] for line in out.read_text().splitlines()}
    assert days == {"2020-02-29"}  # that on which it was begun


def test_a_prompt_that_cannot_be_gone_on_with_is_one_line(config: Path) -> None:
    assert "the prompt is too long: 200 tokens" in error_of(config, "word " * 200)
    assert "the prompt cannot be used" in error_of(config, "half of a pair \ud83d")


def test_a_broken_line_stops_before_the_model_is_loaded(config: Path, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"prompt": "All"}\n{"prompt": \n')
    out = tmp_path / "texts.jsonl"
    error = error_of(config, "--model", "no model", "--input", prompts, "--out", out)
    assert re.search(r"prompts\.jsonl: line 2: expected .*; this is not JSON$", error)
    assert not out.exists()


def test_a_file_that_is_there_is_not_written_over(config: Path, tmp_path: Path) -> None:
    (tmp_path / "prompts.txt").write_text("All\n")
    (tmp_path / "texts.jsonl").write_text("mine")
    error = error_of(config, "--input", tmp_path / "prompts.txt", "--out", tmp_path / "texts.jsonl")
    assert error.endswith("texts.jsonl: is there already; remove it, or name another file")
    assert (tmp_path / "texts.jsonl").read_text() == "mine"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), "expected prompts, or both --input and --out"),
        (("All", "--input", "p.txt", "--out", "o.jsonl"), "expected prompts, or both"),
        (("--input", "p.txt"), "expected prompts, or both --input and --out"),
        (("All", "--out", "o.jsonl"), "expected prompts, or both --input and --out"),
        (("--input", "none.txt", "--out", "o.jsonl"), "none.txt: cannot read: No such file"),
        (("All", "--disabled", "--api-top-k", "3"), "--disabled and --api-top-k exclude"),
        (("All", "--temperature", "9"), "temperature: Input should be less than or equal to 2"),
        (("All", "--max-new-tokens", "0"), "max_new_tokens: Input should be greater than"),
        (("All", "--api-top-k", "-1"), "api_top_k: Input should be greater than or equal to 0"),
        (("All", "--stop", ""), "an empty text stops everything"),
        (("All", "--model", "/nowhere/model"), "/nowhere/model: no such"),
    ],
)  # fmt: skip
def test_what_the_command_line_says_wrong_is_one_line(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...], expected: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert expected in error_of(config, *arguments)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"decoding": {"max_tokens": 3}}, "decoding.max_tokens: Extra inputs are not permitted"),
        ({"tool": {}}, "tool: Extra inputs are not permitted"),
        ({"model": {}}, "model.path: Field required"),
        ({"tools": {"My tool": {}}}, "'My tool' is not a tool name"),
        ({"tools": {"Calculater": {}}}, "tool Calculater: no such tool, did you mean Calculator?"),
        ({"tools": {"WikiSearch": {"options": {"corpus": "no"}}}}, "corpus no: no such file"),
    ],
)
def test_what_the_configuration_says_wrong_is_one_line(
    model: Path, tmp_path: Path, changes: dict[str, Any], expected: str
) -> None:
    settings = {"model": {"path": str(model)}} | changes
    assert expected in error_of(written(tmp_path, **settings), "All")


def test_a_configuration_that_is_not_there_is_named(tmp_path: Path) -> None:
    error = error_of(tmp_path / "none.yaml", "All")
    assert error == f"{tmp_path / 'none.yaml'}: no such configuration file"
