from pathlib import Path

import pytest
from pydantic import ValidationError

from pipeline.config import RunConfig, ToolConfig, load_config
from tools.base import ConfigError

MINIMAL = """
run: runs/x
input: documents.parquet
model: {path: gpt2}
tools: {Calculator: {}}
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "run.yaml"
    path.write_text(text)
    return path


def loaded(tmp_path: Path, text: str) -> RunConfig:
    return load_config(written(tmp_path, text))


def thresholds(tool: ToolConfig) -> tuple[float, float, int, int]:
    return tool.tau_s, tool.tau_f, tool.k, tool.m


def test_a_minimal_configuration_is_the_papers(tmp_path: Path) -> None:
    config = loaded(tmp_path, MINIMAL)
    assert config.run == Path("runs/x")
    assert config.input == [Path("documents.parquet")]
    assert config.report_tau_f == [0.5, 1.0, 2.0]
    assert config.tools["Calculator"].max_examples == 25_000


@pytest.mark.parametrize("settings", ["{}", ""])
def test_thresholds_are_those_of_appendix_a(tmp_path: Path, settings: str) -> None:
    names = ("Calculator", "MT", "QA", "WikiSearch", "Calendar", "Mine")
    tools = "".join(f"\n  {name}: {settings}" for name in names)
    config = loaded(tmp_path, MINIMAL.replace(" {Calculator: {}}", tools))
    for name in ("Calculator", "MT"):
        assert thresholds(config.tools[name]) == (0.0, 0.5, 20, 10)
    for name in ("QA", "WikiSearch", "Calendar", "Mine"):
        assert thresholds(config.tools[name]) == (0.05, 1.0, 5, 5)


def test_setting_one_threshold_keeps_the_papers_others(tmp_path: Path) -> None:
    tools = "{Calculator: {m: 3}, QA: {tau_f: 0.7}}"
    config = loaded(tmp_path, MINIMAL.replace("{Calculator: {}}", tools))
    assert thresholds(config.tools["Calculator"]) == (0.0, 0.5, 20, 3)
    assert thresholds(config.tools["QA"]) == (0.05, 0.7, 5, 5)


def test_the_smallest_threshold_of_interest_counts_reports_and_tools(tmp_path: Path) -> None:
    assert loaded(tmp_path, MINIMAL + "report_tau_f: [2.0, 0.9]\n").smallest_tau_f == 0.5
    assert loaded(tmp_path, MINIMAL + "report_tau_f: [2.0, 0.2]\n").smallest_tau_f == 0.2


def test_the_run_directory_of_the_command_line_wins(tmp_path: Path) -> None:
    assert load_config(written(tmp_path, MINIMAL), run=Path("y")).run == Path("y")
    without_run = MINIMAL.replace("run: runs/x\n", "")
    assert load_config(written(tmp_path, without_run), run=Path("y")).run == Path("y")


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("run: runs/x", "", "run: Field required"),
        ("run: runs/x", "run: runs/x\nsede: 1", "sede: Extra inputs are not permitted"),
        ("{path: gpt2}", "{path: gpt2, dtyp: x}", "model.dtyp: Extra inputs are not permitted"),
        ("{path: gpt2}", "{path: gpt2, dtype: int8}", "model.dtype: Input should be 'float32', "),
        ("{path: gpt2}", "gpt2", "model: Input should be a valid dictionary"),
        ("input: documents.parquet", "input: []", "input: List should have at least 1 item"),
        ("{Calculator: {}}", "{}", "tools: Dictionary should have at least 1 item"),
        ("{Calculator: {}}", "[Calculator]", "tools: Input should be a valid dictionary"),
        ("{Calculator: {}}", "{Calculator: 3}", "tools.Calculator: Input should be"),
        ("{Calculator: {}}", "{Calculator: {k: 0}}", "tools.Calculator.k: Input should be greater"),
        ("{Calculator: {}}", "{Calculator: {k: many}}", "tools.Calculator.k: Input should be a "),
        ("{Calculator: {}}", "{Calculator: {tau: 1}}", "tools.Calculator.tau: Extra inputs"),
        ("{Calculator: {}}", "{'My Tool': {}}", "'My Tool' is not a tool name"),
    ],
)
def test_a_wrong_setting_is_named_in_one_line(
    tmp_path: Path, old: str, new: str, problem: str
) -> None:
    path = written(tmp_path, MINIMAL.replace(old, new))
    with pytest.raises(ConfigError) as error:
        load_config(path)
    assert str(error.value).startswith(f"{path}: ")
    assert problem in str(error.value)
    assert "\n" not in str(error.value)


def test_all_wrong_settings_are_named_at_once(tmp_path: Path) -> None:
    text = MINIMAL.replace("run: runs/x", "seed: one").replace("{path: gpt2}", "{}")
    with pytest.raises(ConfigError, match=r"run: .*; .*model\.path: .*; .*seed: "):
        loaded(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("run: [1", "not readable as YAML"),
        ("run: \x00", "not readable as YAML"),
        ("", "expected a mapping of settings, got NoneType"),
        ("- run", "expected a mapping of settings, got list"),
    ],
)
def test_what_is_no_configuration_is_one_line(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as error:
        loaded(tmp_path, text)
    assert "\n" not in str(error.value)


def test_a_file_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_bytes(b"run: \xff")
    with pytest.raises(ConfigError, match=r"run\.yaml: not readable as YAML"):
        load_config(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.yaml: no such configuration file"):
        load_config(tmp_path / "nowhere.yaml")
    with pytest.raises(ConfigError, match="not readable"):
        load_config(tmp_path)


def test_the_cache_of_tools_is_one_directory_wherever_a_stage_starts(tmp_path: Path) -> None:
    config = loaded(tmp_path, MINIMAL + "tool_cache: runs/cache\n")
    assert config.tool_cache == Path.cwd() / "runs" / "cache"


def test_resources_are_refused_where_no_actor_takes_them(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"tools\.Calculator: .*set actors to 1 or more$"):
        loaded(tmp_path, MINIMAL.replace("Calculator: {}", "Calculator: {num_gpus: 1}"))


def test_a_configuration_does_not_change(tmp_path: Path) -> None:
    config = loaded(tmp_path, MINIMAL)
    with pytest.raises(ValidationError, match="frozen"):
        config.seed = 3


def test_the_papers_configuration_has_the_papers_values() -> None:
    config = load_config(Path(__file__).parents[2] / "pipeline" / "configs" / "paper.yaml")
    assert (config.model.path, config.model.dtype) == ("EleutherAI/gpt-j-6b", "bfloat16")
    thresholds = {
        name: (tool.tau_s, tool.tau_f, tool.k, tool.m) for name, tool in config.tools.items()
    }
    assert thresholds == {
        "Calculator": (0.0, 0.5, 20, 10),
        "Calendar": (0.05, 1.0, 5, 5),
        "WikiSearch": (0.05, 1.0, 5, 5),
        "QA": (0.05, 1.0, 5, 5),
        "MT": (0.0, 0.5, 20, 10),
    }
