from pathlib import Path

import pytest
from pydantic import ValidationError

from pipeline.config import RunConfig, ToolConfig, load_config
from pipeline.engine_config import KINDS, EngineConfig
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


@pytest.mark.parametrize("written_as", ["engine: vllm", "engine: {name: vllm}"])
def test_an_engine_may_be_a_name_alone(tmp_path: Path, written_as: str) -> None:
    assert loaded(tmp_path, MINIMAL + written_as).engine == EngineConfig(name="vllm")
    assert loaded(tmp_path, MINIMAL).engine.name == "auto"


def test_an_engine_has_the_documented_settings(tmp_path: Path) -> None:
    engine = loaded(tmp_path, MINIMAL).engine
    assert (engine.kept_tokens, engine.tensor_parallel_size) == (32_768, 1)
    assert (engine.gpu_memory_utilization, engine.max_num_seqs) == (0.9, 256)
    assert (engine.gpus, engine.replicas, engine.token_budget) == (0, 1, 8192)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ("engine: llama", "engine.name: 'llama' is no engine: there"),
        ("engine: {num_gpus: 0.5}", "got 0.5, expected a whole number: an engine fills the memory"),
        ("engine: {num_gpus: 2}", "num_gpus 2 with tensor_parallel_size 1: a replica has as many"),
        ("engine: {num_gpus: -1}", "engine.num_gpus: Input should be greater than or equal to 0"),
        (
            "engine: {name: vllm, tensor_parallel_size: 4, num_gpus: 1}",
            "num_gpus 1 with tensor_parallel_size 4: a replica has as many GPUs as",
        ),
        (
            "engine: {name: torch, tensor_parallel_size: 2}",
            "engine torch: tensor_parallel_size 2, expected 1; vllm splits",
        ),
        ("engine: {kept_tokens: -1}", "engine.kept_tokens: Input should be greater than"),
        ("engine: {gpu_memory_utilization: 1.5}", "engine.gpu_memory_utilization: Input should"),
        ("engine: {max_num_seqs: 0}", "engine.max_num_seqs: Input should be greater than"),
        ("engines: {score: torch}", "engines.score: Extra inputs are not permitted"),
        ("engines: {loss: llama}", "engines.loss.name: 'llama' is no engine: there"),
        ("engines: {loss: {num_gpus: 0.25}}", "engines.loss.num_gpus: got 0.25"),
        ("engines: torch", "engines: Input should be a valid dictionary"),
    ],
)
def test_a_wrong_engine_is_named_in_one_line(tmp_path: Path, settings: str, problem: str) -> None:
    with pytest.raises(ConfigError) as error:
        loaded(tmp_path, MINIMAL + settings)
    assert problem in str(error.value)
    assert "\n" not in str(error.value)


def test_a_split_model_has_as_many_gpus_as_parts(tmp_path: Path) -> None:
    for gpus in ("", ", num_gpus: 4", ", num_gpus: 4.0"):
        text = f"engine: {{name: vllm, tensor_parallel_size: 4{gpus}}}"
        assert loaded(tmp_path, MINIMAL + text).engine.gpus == 4
    assert loaded(tmp_path, MINIMAL + "engine: {num_gpus: 1}").engine.gpus == 1


@pytest.mark.parametrize(
    ("settings", "pools"),
    [
        ("", ["position+sample+loss"]),
        ("engine: torch\nengines: {loss: torch}", ["position+sample+loss"]),
        ("engine: torch\nengines: {loss: {name: torch, replicas: 2}}", ["position+sample", "loss"]),
        ("engine: torch\nengines: {sample: vllm}", ["position+loss", "sample"]),
        ("engines: {position: torch, loss: vllm, sample: vllm}", ["position", "sample+loss"]),
        (
            "engines: {position: torch, sample: vllm, loss: {name: vllm, num_gpus: 1}}",
            ["position", "sample", "loss"],
        ),
    ],
)
def test_kinds_with_equal_engines_share_a_pool(
    tmp_path: Path, settings: str, pools: list[str]
) -> None:
    config = loaded(tmp_path, MINIMAL + settings)
    assert [pool.name for pool in config.pools] == pools
    for kind in KINDS:
        assert kind in config.pool_of(kind).kinds


def test_only_a_pool_that_computes_p_and_samples_keeps_anything_of_p(tmp_path: Path) -> None:
    def kept(settings: str) -> dict[str, int]:
        pools = loaded(tmp_path, MINIMAL + settings).pools
        return {pool.name: pool.engine.kept_tokens for pool in pools}

    assert kept("") == {"position+sample+loss": 32_768}
    assert kept("engine: torch\nengines: {loss: {name: torch, replicas: 2}}") == {
        "position+sample": 32_768,
        "loss": 0,
    }
    assert kept("engine: torch\nengines: {sample: {name: torch, kept_tokens: 9}}") == {
        "position+loss": 0,
        "sample": 0,
    }


def test_stages_hold_a_unit_more_than_replicas_work_on(tmp_path: Path) -> None:
    def in_flight(settings: str) -> tuple[int, int]:
        config = loaded(tmp_path, MINIMAL + settings)
        return config.pool_of("sample").units_in_flight, config.pool_of("loss").units_in_flight

    assert in_flight("engine: {name: torch, replicas: 3}") == (6, 6)
    assert in_flight("engine: {name: vllm, replicas: 2}") == (10, 10)  # four at once each
    # While one unit waits for P elsewhere, S works on another.
    assert in_flight("engine: torch\nengines: {position: vllm}") == (3, 3)
