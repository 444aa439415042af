"""MT as a tool: settings, statuses, version."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.base import ConfigError, InputError, LoadingTool, ToolRequest, ToolResult, ToolStatus
from tools.registry import build_tool
from tools.translation.tool import MT


@pytest.fixture(scope="module")
def tool(checkpoint: Path) -> MT:
    return MT(path=str(checkpoint), beam_size=1)


def ask(tool: MT, *phrases: str) -> list[ToolResult]:
    return tool.run([ToolRequest(input=phrase) for phrase in phrases])


def test_the_registry_builds_it(checkpoint: Path) -> None:
    built = build_tool("MT", factory=None, options={"path": str(checkpoint), "beam_size": 1})
    assert isinstance(built, LoadingTool)
    with pytest.raises(ConfigError, match="option 'path' is required"):
        build_tool("MT", factory=None, options={})


def test_results_come_one_for_each_request_in_order(tool: MT) -> None:
    phrases = ["O homem suprimido", "the classic man of France", "1984", "der klassische Mann"]
    results = ask(tool, *phrases)
    assert [result.status for result in results] == ["ok", "empty", "invalid", "ok"]
    assert results[1].error == "it is English already"
    assert results[2].error == "no letters in it"
    assert [ask(tool, phrase)[0] for phrase in phrases] == results
    assert results[0] != results[3]


@pytest.mark.parametrize(
    "wrapped", ['"{}"', "  {}\n", "\u201c{}\u201d", "\u00ab {} \u00bb", "'{}'"]
)
def test_quotes_and_white_space_around_a_phrase_are_not_of_it(tool: MT, wrapped: str) -> None:
    phrase = "der klassische jüdische Mann"
    (plain,) = ask(tool, phrase)
    assert plain.status is ToolStatus.OK
    assert ask(tool, wrapped.format(phrase)) == [plain]


@pytest.mark.parametrize("phrase", ["", "   ", "12 + 3", "...", "\u200b", '""', "\x00", "\ud800"])
def test_without_letters_it_is_no_phrase(tool: MT, phrase: str) -> None:
    assert ask(tool, phrase) == [ToolResult.invalid("no letters in it")]


def test_hostile_inputs_are_answered(tool: MT) -> None:
    hostile = ["я" * 1001, "я" * 1000, "\ud800 der Mann \x00", "</s> der klassische Mann eng_Latn"]
    results = ask(tool, *hostile)
    assert results[0] == ToolResult.invalid("more than 1000 characters")
    assert {result.status for result in results[1:]} <= {ToolStatus.OK, ToolStatus.EMPTY}


def test_a_language_the_model_lacks_is_said(
    checkpoint: Path, write_classifier: Callable[[dict[str, list[str]]], Path]
) -> None:
    """With a classifier whose labels are FLORES codes."""
    words = {"xxx_Latn": ["zorp"], "deu_Latn": ["Mann"], "eng_Latn": ["man"]}
    path, language_id = str(checkpoint), str(write_classifier(words))
    tool = MT(path=path, language_id=language_id, beam_size=1)
    first, german, english = ask(tool, "zorp zorp", "Mann", "man man")
    # The first label of the five that the model knows counts: here one of the other two.
    assert first != ToolResult.empty("language xxx_Latn is not known to the model")
    assert german.status is ToolStatus.OK
    assert english == ToolResult.empty("it is English already")

    unknown = MT(path=path, language_id=str(write_classifier({"xxx_Latn": ["zorp"]})), beam_size=1)
    assert ask(unknown, "zorp") == [ToolResult.empty("language xxx_Latn is not known to the model")]
    assert unknown.version != tool.version


def test_english_is_rewritten_where_asked(checkpoint: Path) -> None:
    rewriting = MT(path=str(checkpoint), beam_size=1, translate_english=True)
    (result,) = ask(rewriting, "the classic man of France")
    assert result.error != "it is English already"


def test_the_version_changes_with_whatever_changes_an_answer(
    checkpoint: Path, tmp_path: Path
) -> None:
    path = str(checkpoint)
    versions = [
        MT(path=path).version,
        MT(path=path, beam_size=1).version,
        MT(path=path, max_source_tokens=100).version,
        MT(path=path, max_input_chars=100).version,
        MT(path=path, translate_english=True).version,
        MT(path=path, dtype="bfloat16").version,
        MT(path=path, device="cuda").version,
    ]
    assert len(set(versions)) == len(versions)
    assert MT(path=path).version == versions[0]
    with pytest.raises(ConfigError, match=r"num_threads is 2, .* one thread only; use more actors"):
        MT(path=path, num_threads=2)
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        other = tmp_path / name
        other.mkdir()
        for file in checkpoint.iterdir():
            (other / file.name).write_bytes(file.read_bytes())
        assert MT(path=str(other)).version == versions[0]
        (other / name).write_bytes((other / name).read_bytes() + b" ")
        assert MT(path=str(other)).version != versions[0]


def test_constructing_it_imports_and_loads_nothing_large(checkpoint: Path) -> None:
    code = (
        "import sys; from tools.translation.tool import MT; "
        f"print(MT(path={str(checkpoint)!r}).version); "
        "assert not {'torch', 'transformers', 'ctranslate2', 'fasttext'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_wrong_settings_are_named(checkpoint: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"path .*nowhere: no such directory; expected a down"):
        MT(path=str(tmp_path / "nowhere"))
    with pytest.raises(ConfigError, match=r"no config\.json, so no NLLB model"):
        MT(path=str(tmp_path))
    with pytest.raises(ConfigError, match="beam_size is 0, expected 1 to 64"):
        MT(path=str(checkpoint), beam_size=0)
    with pytest.raises(ConfigError, match="max_source_tokens is 2, expected 3 to 1000"):
        MT(path=str(checkpoint), max_source_tokens=2)
    with pytest.raises(ConfigError, match=r"lid\.bin: no such file"):
        MT(path=str(checkpoint), language_id=str(tmp_path / "lid.bin"))
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(InputError, match="model_type is None"):
        MT(path=str(tmp_path))
