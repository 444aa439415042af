"""What hosted models will cost, before they do."""

import io
import os
import shutil
import sys
from pathlib import Path

import pytest
from rich.console import Console
from tokenizers import Tokenizer

from pipeline.tokens import TokenCodec
from tests.pipeline.demo_runs import DEMO
from tools.base import ConfigError, ToolformerError
from training.evaluate.endpoint import EndpointConfig
from training.evaluate.endpoint_cost import Cost, agree_to_cost, cost_table, expected_cost

ENDPOINT = EndpointConfig(
    url="https://host.example/v1",
    model="m",
    usd_per_million_prompt_tokens=20,
    usd_per_million_new_tokens=60,
)
COST = Cost(num_prompts=2000, prompt_tokens=90_000, is_bound=True, max_new_tokens=64_000, usd=5)


def shown(costs: dict[str, Cost]) -> str:
    console = Console(file=io.StringIO(), width=120)
    console.print(cost_table(costs))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_without_a_tokenizer_a_byte_may_be_a_token() -> None:
    cost = expected_cost(ENDPOINT, ["x\u00fc", "\u5317", ""], 10)
    assert (cost.prompt_tokens, cost.is_bound) == (3 + 3, True)
    assert (cost.num_prompts, cost.max_new_tokens) == (3, 30)
    assert cost.usd == pytest.approx(6 * 20e-6 + 30 * 60e-6)


def test_a_tokenizer_counts_also_what_it_would_cut_off(tmp_path: Path) -> None:
    for name in ("config.json", "tokenizer_config.json", "tokenizer.json"):
        shutil.copy(DEMO / "model" / name, tmp_path)
    tokenizer = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    tokenizer.enable_truncation(4)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    of = ENDPOINT.model_copy(update={"tokenizer": str(tmp_path)})
    prompts = [" The sum of 12 and 30 is", " a" * 5000]
    codec = TokenCodec.load(str(DEMO / "model"))
    cost = expected_cost(of, prompts, 10)
    assert cost.prompt_tokens == sum(codec.count(prompt) for prompt in prompts) > 5000
    assert not cost.is_bound
    with pytest.raises(ConfigError, match="no such model directory"):
        expected_cost(of.model_copy(update={"tokenizer": "./nowhere"}), prompts, 10)


def test_the_table_has_a_row_for_each_and_their_sum() -> None:
    counted = Cost(
        num_prompts=10, prompt_tokens=300, is_bound=False, max_new_tokens=320, usd=0.0042
    )
    text = shown({"Davinci, SVAMP": COST, "Davinci, MAWPS": counted})
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines()]
    assert ["Davinci, SVAMP", "2,000", "<90,000", "64,000", "5.00"] in rows
    assert ["Davinci, MAWPS", "10", "300", "320", "0.0042"] in rows
    assert ["all", "2,010", "<90,300", "64,320", "5.00"] in rows
    assert "a token has a byte at least" in text
    alone = shown({"Davinci, MAWPS": counted})
    assert "byte" not in alone and "all" not in alone


def agree(typed: str | None, monkeypatch: pytest.MonkeyPatch, *, yes: bool = False) -> str:
    """What is shown to somebody at a terminal who types a line; None: to nobody."""
    console = Console(file=io.StringIO(), width=120)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    if typed is None:
        agree_to_cost({"Davinci": COST}, console, yes=yes)
    else:
        ours, theirs = os.openpty()
        with open(theirs) as terminal, os.fdopen(ours, "w") as keyboard:
            monkeypatch.setattr(sys, "stdin", terminal)
            keyboard.write(f"{typed}\n")
            keyboard.flush()
            agree_to_cost({"Davinci": COST}, console, yes=yes)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_it_starts_with_yes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "5.00" in agree(None, monkeypatch, yes=True)
    assert "5.00" in agree("yes", monkeypatch)


def test_it_starts_with_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    for typed in ("y", "", "no"):
        with pytest.raises(ToolformerError, match="not started, and nothing was sent"):
            agree(typed, monkeypatch)
    with pytest.raises(ConfigError, match="--yes agrees to it where nobody can be asked"):
        agree(None, monkeypatch)
