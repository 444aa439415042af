"""The demo's model, made one that calls with results, and tools that wait where a test says so."""

import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from safetensors.numpy import load_file, save_file

from pipeline.config import ModelConfig
from pipeline.tokens import TokenCodec
from pipeline.tool_config import ServedTool
from tests.pipeline.demo_runs import ROOT
from tools.base import ToolRequest, ToolResult
from tools.calculator import Calculator
from training.generate.config import GenerateConfig
from training.generate.params import GenerationParams

_PROMPTS = ROOT / "pipeline" / "configs" / "demo_prompts"


class GatedCalculator:
    """The Calculator, which answers as soon as there is no file `gate`.

    On another day it is asked again.
    """

    name = "Calculator"
    version = "1"
    uses_date = True

    def __init__(self, *, gate: str) -> None:
        self._gate, self._calculator = Path(gate), Calculator()

    def run(self, requests: Sequence[ToolRequest]) -> list[ToolResult]:
        while self._gate.exists():
            time.sleep(0.01)
        return self._calculator.run(requests)


def calling_model(directory: Path) -> Path:
    """The demo's model, which says " ->" wherever it wants to say "]".

    It closes a call behind the demo's prompts at once, as they do, and a finetuned model does not.
    """
    shutil.copytree(ROOT / "pipeline" / "demo" / "model", directory)
    codec = TokenCodec.load(str(directory))
    two = [int(codec.encode_pieces([piece])[0]) for piece in (" ->", "]")]
    weights = load_file(directory / "model.safetensors")
    for name in ("lm_head.weight", "lm_head.bias"):
        weights[name][two] = weights[name][two[::-1]]
    save_file(weights, directory / "model.safetensors", {"format": "pt"})
    return directory


def config(model: Path, gate: Path) -> GenerateConfig:
    """That model with the Calculator behind `gate` and the Calendar."""
    return GenerateConfig(
        model=ModelConfig(path=str(model)),
        tools={
            "Calculator": ServedTool(
                factory=f"{__name__}:GatedCalculator", options={"gate": str(gate)}, timeout_s=60
            ),
            "Calendar": ServedTool(),
        },
        decoding=GenerationParams(max_new_tokens=16),
    )


def calling(tool: str, text: str) -> str:
    """A prompt behind which the model calls `tool`."""
    prompt = (_PROMPTS / f"{tool}.txt").read_text(encoding="utf-8")
    return f"{prompt.replace('{x}', text)} {text}"


SUM = calling(
    "Calculator", "95 tickets went to members, 86 to guests. The numbers put together are"
)
COINS = calling("Calculator", "Jarek had 640 coins and lost 35; only")
TODAY = calling("Calendar", "The river is wide. Today is")
PLAIN = "The sum of"
