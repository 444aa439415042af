"""A configuration of a small model that calls, and requests as the harness makes them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from lm_eval.api.instance import Instance

from tests.training.generate.made_model import model_that_knows

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


def config_of_small_model(directory: Path) -> Path:
    """The file of a model that knows the three texts by heart, with the tools they call."""
    settings = {
        "model": {"path": str(model_that_knows((SUM, DAY, WELL), directory / "model"))},
        "tools": {"Calculator": {}, "Calendar": {}},
        "max_result_tokens": 16,
        # What regular decoding chooses is certain.
        "decoding": {"api_top_k": 1, "max_new_tokens": 12, "max_call_tokens": 16},
    }
    path = directory / "generate.yaml"
    path.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return path


def requests(kind: str, arguments: Sequence[tuple[Any, ...]]) -> list[Instance]:
    """A request of the harness for each of the arguments."""
    return [
        Instance(request_type=kind, doc={}, arguments=each, idx=0, doc_id=number)
        for number, each in enumerate(arguments)
    ]
