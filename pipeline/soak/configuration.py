"""The configuration of a measured run: the scripted engine, two tools, everything else as it is."""

from collections.abc import Mapping
from pathlib import Path

import yaml

from tools.atomic import write_text_atomically

_ROOT = Path(__file__).parents[2]
_PROMPTS = _ROOT / "pipeline" / "configs" / "demo_prompts"
_ENGINE = "pipeline.engines.scripted:ScriptedEngine"


def write_configuration(
    directory: Path,
    *,
    documents: Path,
    unit_documents: int,
    replicas: int = 1,
    num_gpus: int = 0,
    seconds: Mapping[str, float] | None = None,
) -> Path:
    """The configuration of the run below `directory`; returns its path.

    `seconds` are the options of the scripted engine: how long it sleeps. The Calculator has a
    process of its own, the Calendar is asked inside its stage, as tools are.
    """
    settings = {
        "run": str(run_below(directory)),
        "input": str(documents),
        "model": {"path": str(_ROOT / "pipeline" / "demo" / "model")},
        "engine": {
            "name": _ENGINE,
            "options": dict(seconds or {}),
            "replicas": replicas,
            "num_gpus": num_gpus,
        },
        "unit_documents": unit_documents,
        "tools": {
            "Calculator": {"prompt": str(_PROMPTS / "Calculator.txt"), "k": 5, "m": 5, "actors": 1},
            "Calendar": {"prompt": str(_PROMPTS / "Calendar.txt")},
        },
    }
    path = directory / "configuration.yaml"
    write_text_atomically(path, yaml.safe_dump(settings, sort_keys=False))
    return path


def run_below(directory: Path) -> Path:
    """The run directory of an experiment's directory."""
    return directory / "run"
