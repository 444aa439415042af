"""The prompts are a frozen surface: another prompt is another dataset."""

import hashlib
import re
from pathlib import Path

import pytest

from tools.base import ConfigError
from tools.prompt import load_prompt, render

PROMPTS = Path(__file__).parents[2] / "tools" / "prompts"
SHA256 = {
    "Calculator": "851219edb615ecdd01496f4def14d47acd67ace91365eafe39d4e7dac4308183",
    "Calendar": "7c1d04560704f4cee3fe0f4898d34fc18488e283e7a06c00f31f21c9fe8d0b9b",
    "MT": "cf16abac45fffe81eb7a7525be60abb09a38b198cf8001a229ed5cdccc1b3e91",
    "QA": "7cf672c82c78723c2958f5559edf3ac89625c726581a51e2ee41a3f458ed5db7",
    "WikiSearch": "90bbed9827bc7363b524c6a5f67a2c9208eff34da40aa151a624765b5a0f6474",
}
EXAMPLE = re.compile(r"Input: (.+)\nOutput: (.+)\n\n")
CALL = re.compile(r" ?\[[A-Za-z]+\((?P<input>.*?)\)\]")
# Slips of the paper: "three times less than the 2169 goals" becomes "twenty goals more than the
# 703 goals", and the Chinese words are left in the call alone.
DIFFERING = {"Calculator": [2], "MT": [2]}


def examples(name: str) -> list[tuple[str, str]]:
    return EXAMPLE.findall(load_prompt(name))


@pytest.mark.parametrize("name", SHA256)
def test_a_prompt_has_not_changed_by_accident(name: str) -> None:
    assert hashlib.sha256((PROMPTS / f"{name}.txt").read_bytes()).hexdigest() == SHA256[name]


def test_there_is_a_hash_for_every_prompt() -> None:
    assert {path.stem for path in PROMPTS.iterdir()} == set(SHA256)


@pytest.mark.parametrize("name", SHA256)
def test_a_prompt_file_ends_with_the_text_to_annotate_and_no_line_break(name: str) -> None:
    text = (PROMPTS / f"{name}.txt").read_bytes().decode("utf-8")
    assert text.endswith("\n\nInput: {x}\nOutput:")
    assert text == load_prompt(name)


@pytest.mark.parametrize(
    ("name", "count"),
    [("Calculator", 5), ("Calendar", 5), ("MT", 3), ("QA", 2), ("WikiSearch", 3)],
)
def test_the_examples_of_the_paper_are_there(name: str, count: int) -> None:
    assert len(examples(name)) == count
    assert load_prompt(name).count("Input:") == load_prompt(name).count("Output:") == count + 1


def test_the_papers_calls_are_there() -> None:
    calls = {
        name: [match["input"] for _, output in examples(name) for match in CALL.finditer(output)]
        for name in SHA256
    }
    assert calls["Calculator"] == [
        "18 + 12 * 3", "658,893 / 11.4%", "723 / 252", "723 - 20", "2011 - 1994", "4 * 30",
    ]  # fmt: skip
    assert calls["Calendar"] == [""] * 5
    assert calls["QA"][0] == '"Where was Joe Biden born?"'
    assert calls["WikiSearch"][2] == '"Metformin first-line drug"'
    assert calls["MT"][0] == "O homem suprimido"


@pytest.mark.parametrize("name", SHA256)
def test_an_output_without_its_calls_is_its_input(name: str) -> None:
    differing = [
        number
        for number, (text, output) in enumerate(examples(name))
        if CALL.sub("", output) != text
    ]
    assert differing == DIFFERING.get(name, [])


def test_braces_and_placeholders_in_the_text_stay_as_they_are() -> None:
    assert render("Input: {x}\nOutput:", "{x} {0} {") == "Input: {x} {0} {\nOutput:"


def written(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "mine.txt"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    "data",
    [
        b"Input: {x}\nOutput:\n",
        b"Input: {x}\r\nOutput: \r\n",
        b"\xef\xbb\xbfInput: {x}\nOutput:",
    ],
)
def test_what_editors_add_is_no_part_of_a_prompt(tmp_path: Path, data: bytes) -> None:
    assert load_prompt(written(tmp_path, data)) == "Input: {x}\nOutput:"


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"Input:\nOutput:", "has 0 times {x}, expected once"),
        (b"Input: {x} {x}\nOutput:", "has 2 times {x}, expected once"),
        (b"Input: {x}\nAnswer:", r"""ends with 'Input: {x}\\nAnswer:', expected "Output:\""""),
        (b"", "has 0 times"),
        (b"Input: {x} \xff\nOutput:", "not readable as UTF-8"),
    ],
)
def test_a_wrong_prompt_is_named_with_its_problem(
    tmp_path: Path, data: bytes, problem: str
) -> None:
    path = written(tmp_path, data)
    with pytest.raises(ConfigError, match=problem.replace("{", r"\{")) as error:
        load_prompt(path)
    assert str(path) in str(error.value) and "\n" not in str(error.value)


def test_a_missing_prompt_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"prompt .*nowhere\.txt: no such file"):
        load_prompt(tmp_path / "nowhere.txt")
    with pytest.raises(ConfigError, match=r"no prompt for it \(only for Calculator, .*tools\.X\."):
        load_prompt("X")
