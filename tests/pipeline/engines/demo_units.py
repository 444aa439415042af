"""Units of demo documents that are offered to the Calculator, whose calls need no data."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml

from pipeline.config import RunConfig
from pipeline.execution import distinct_requests, record_results
from pipeline.method import Method, resolve_method
from pipeline.prepare import prepare
from pipeline.reading import read_rows
from pipeline.tokens import TokenCodec
from tests.pipeline.demo_runs import DEMO, ROOT
from tools.calculator import Calculator

TORCH = {"name": "torch", "token_budget": 1024}


def configured(path: Path = DEMO / "model", **settings: Any) -> RunConfig:
    """The demo's configuration with one tool and, unless `settings` say otherwise, torch."""
    demo = yaml.safe_load((ROOT / "pipeline" / "configs" / "demo.yaml").read_text())
    calculator = demo["tools"]["Calculator"] | {
        "prompt": str(ROOT / "pipeline" / "configs" / "demo_prompts" / "Calculator.txt")
    }
    return RunConfig.model_validate(
        {"run": "r", "input": str(DEMO / "documents.parquet"), "model": {"path": str(path)}}
        | {"engine": TORCH, "tools": {"Calculator": calculator}}
        | settings
    )


def demo_codec() -> TokenCodec:
    return TokenCodec.load(str(DEMO / "model"))


def demo_method(codec: TokenCodec) -> Method:
    return resolve_method(configured(), codec, context=1024)


def demo_unit(first: int, count: int, method: Method, codec: TokenCodec) -> pa.Table:
    """`count` documents from number `first` on, prepared."""
    documents = read_rows(DEMO / "documents.parquet", first, count)
    return prepare(documents, str(first), method, codec)


def executed(unit: pa.Table, method: Method, codec: TokenCodec) -> pa.Table:
    """The unit with what the Calculator answers to its calls."""
    asked = distinct_requests(unit)["Calculator"]
    results = {"Calculator": dict(zip(asked, Calculator().run(asked), strict=True))}
    return record_results(unit, results, codec, max_result_tokens=method.max_result_tokens)


def num_gains(unit: pa.Table) -> int:
    """How many of its calls are scored."""
    calls = [call for row in unit.to_pylist() for call in row["calls"]]
    return sum(call["gain"] is not None for call in calls)
