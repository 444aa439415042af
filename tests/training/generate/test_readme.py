"""The commands and the Python of the part on generating of training/README.md, as they stand."""

import asyncio
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tools.base import ToolStatus
from tools.calls import ApiCall
from training.cli import main
from training.generate.batch import call_fields
from training.generate.config import load_generate_config
from training.generate.events import CallEnded, CallStarted
from training.generate.params import GenerationParams

ROOT = Path(__file__).parents[3]
SECTION = (
    (ROOT / "training" / "README.md")
    .read_text(encoding="utf-8")
    .split("\n## Generating\n")[1]
    .split("\n##")[0]
)
STARTED = CallStarted(number=0, call=ApiCall("Calculator", "1 + 1"), offset=0, triggered=True)
CALLED = CallEnded(started=STARTED, status=ToolStatus.OK, result="2", error=None, seconds=0.1)
DEMO, PAPER = (ROOT / "training" / "configs" / f"generate-{of}.yaml" for of in ("demo", "paper"))


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", SECTION, re.DOTALL)


@pytest.fixture
def checkout(tmp_path: Path) -> Iterator[Path]:
    """A place with the demo's files."""
    for name in ("pipeline", "training"):
        (tmp_path / name).symlink_to(ROOT / name)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        yield tmp_path


def test_its_commands_do_what_it_says(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (checkout / "prompts.jsonl").write_text('{"prompt": "The mill", "id": "7"}\n')
    [bash] = blocks("bash")
    in_terminal, for_file = (shlex.split(line) for line in bash.splitlines())
    for command in (in_terminal, for_file):
        assert command[:3] == ["python", "-m", "training"]
        monkeypatch.setattr("sys.argv", command[2:])
        with pytest.raises(SystemExit) as left:
            main()
        assert not left.value.code
    assert capsys.readouterr().out.startswith(in_terminal[-1])
    [shown] = map(json.loads, blocks("json"))
    line = json.loads((checkout / "texts.jsonl").read_text())
    assert (line["id"], line.keys(), line["cost"].keys()) == (
        "7", shown.keys(), shown["cost"].keys(),
    )  # fmt: skip
    assert shown["calls"][0].keys() == call_fields(CALLED).keys()


def test_the_first_page_shows_what_the_terminal_does(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    section = (ROOT / "README.md").read_text(encoding="utf-8").split("\n## Generate\n")[1]
    [bash] = re.findall(r"```bash\n(.*?)```", section, re.DOTALL)[:1]
    [trace] = re.findall(r"```text\n(.*?)```", section, re.DOTALL)
    monkeypatch.setattr("sys.argv", shlex.split(bash.splitlines()[0])[2:])
    monkeypatch.setenv("COLUMNS", "120")
    with pytest.raises(SystemExit):
        main()
    took = re.compile(r"\d+\.\d\d │")
    assert took.sub("", capsys.readouterr().out).startswith(took.sub("", trace))


def test_its_python_runs(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [code] = blocks("python")
    names: dict[str, Any] = {}
    exec(code, names)  # it is the README that is under test
    asyncio.run(names["streamed"]("The mill"))
    first, *events = capsys.readouterr().out.splitlines()
    assert first.endswith("]")
    assert events[0].startswith("TextWritten") and events[-1].startswith("Generation")


def test_the_defaults_it_tells_are_those_of_the_parameters() -> None:
    rows = dict(re.findall(r"^\| `([a-z_]+)` \| ([^|]*) \|", SECTION, re.MULTILINE))
    assert rows.pop("decoding") == "default"
    params = GenerationParams()
    told = {"stop": "none", "date": "today", "interactive_search": "false"}
    told["without_tools"] = "none"
    for name in GenerationParams.model_fields:
        assert rows.pop(name) == told.get(name) or f"{getattr(params, name):g}"
    assert rows == {}


def test_the_papers_configuration_decodes_as_the_paper_does() -> None:
    config = load_generate_config(PAPER)
    decoding = config.decoding
    assert (decoding.temperature, decoding.api_top_k, decoding.max_calls) == (0.0, 10, 1)
    assert config.tools["QA"].options["size"] == "xxl"
    assert set(config.tools) == set(load_generate_config(DEMO).tools)
    gpus = config.engine.num_gpus + sum(
        tool.actors * tool.num_gpus
        + tool.options.get("index_actors", 0) * tool.options.get("index_num_gpus", 0)
        for tool in config.tools.values()
    )
    assert gpus == 7
