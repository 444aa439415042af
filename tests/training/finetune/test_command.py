"""What the command refuses before anything is loaded."""

from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from tools.base import ConfigError, ToolformerError
from training.cli import app


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "finetune.yaml"
    settings = {"run": "runs/a", "out": "runs/b", "development": {"input": "held-out"}}
    path.write_text(yaml.safe_dump(settings))
    return path


def refused(*arguments: object) -> ToolformerError:
    """Why `python -m training ARGUMENTS` ends."""
    ended = CliRunner().invoke(app, [str(each) for each in arguments])
    assert isinstance(ended.exception, ToolformerError), ended.output
    return ended.exception


def test_workers_are_of_a_ray_cluster(config: Path) -> None:
    error = refused("finetune", config, "--workers", 2)
    assert isinstance(error, ConfigError) and "--address" in str(error)


def test_a_key_that_is_not_known_is_named(config: Path) -> None:
    config.write_text(config.read_text() + "learning_rat: 1.0\n")
    error = refused("finetune", config)
    assert str(error) == f"{config}: learning_rat: Extra inputs are not permitted"


def test_another_rank_says_which_it_is(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # As where the file is there on one host and not on another.
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setattr("training.finetune.command._LATER_S", 0.0)
    error = refused("finetune", config.parent / "none.yaml")
    assert str(error).startswith("rank 3: ") and str(error).endswith("no such configuration file")
