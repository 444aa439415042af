"""`--model`: the configuration with another M, as the finetuned one, and what is refused."""

import json
import shutil
from pathlib import Path

import pytest

from pipeline.config import load_config
from pipeline.rundir import RunDir
from tests.pipeline.demo_runs import DEMO, demo_config, pipeline_here
from tests.pipeline.made_runs import built_run


def test_another_model_has_the_dtype_and_no_revision(tmp_path: Path) -> None:
    model = {"path": "some/name", "revision": "abc", "dtype": "bfloat16"}
    config = demo_config(tmp_path, 2, model=model)
    other = load_config(config, model=str(DEMO / "model")).model
    assert (other.path, other.revision, other.dtype) == (str(DEMO / "model"), None, "bfloat16")
    assert load_config(config).model.revision == "abc"


@pytest.mark.parametrize("command", ["annotate", "plan", "preview"])
@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("{here}/none", "no such model directory"),
        ("{here}", "not a model directory: it has no config.json"),
        ("{here}/bare", "no tokenizer: there is none of tokenizer.json"),
    ],
)
def test_what_is_no_model_is_named_in_one_line(
    tmp_path: Path, command: str, path: str, says: str
) -> None:
    config = demo_config(tmp_path, 2, run=str(tmp_path / "run"))
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "config.json").write_text(json.dumps({"model_type": "gptj"}))
    model = path.format(here=tmp_path)
    refused = pipeline_here(command, config, "--model", model, check=False)
    assert refused.returncode == 1 and refused.stdout == ""
    assert refused.stderr.startswith(f"error: {model}: {says}")
    assert refused.stderr.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_plan_counts_for_the_other_model(tmp_path: Path) -> None:
    config = demo_config(tmp_path, 2, model={"path": "no-such/model"})
    shown = pipeline_here("plan", config, "--model", DEMO / "model").stdout
    assert "2 documents in 1 units" in shown and "Calculator" in shown


def test_a_run_of_one_model_is_not_continued_with_another(tmp_path: Path) -> None:
    run = built_run(tmp_path / "run").path
    before = RunDir(run).record()
    config = demo_config(tmp_path, 2, run=str(run))
    other = shutil.copytree(DEMO / "model", tmp_path / "finetuned")
    with (other / "model.safetensors").open("r+b") as weights:
        weights.seek(-4, 2)
        weights.write(b"\0\0\0\0")
    refused = pipeline_here("annotate", config, "--model", other, check=False)
    assert refused.returncode == 1 and refused.stderr.count("\n") == 1
    assert f"{run}: was begun with other settings" in refused.stderr
    assert f"(model: model -> {other}; " in refused.stderr
    assert "engine.weights_id: " in refused.stderr
    assert refused.stderr.endswith("choose another --run\n")
    assert RunDir(run).record() == before
