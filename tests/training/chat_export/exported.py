"""Conversations as a reader finds them."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from typer.testing import CliRunner, Result

from training.cli import app

Row = dict[str, Any]


def chat_export(*arguments: object) -> Result:
    """What `python -m training chat-export ARGUMENTS` does."""
    return CliRunner().invoke(app, ["chat-export", *map(str, arguments)])


def parquet_rows(out: Path) -> list[Row]:
    """The rows of out/data, messages as objects."""
    rows: list[Row] = pq.read_table(out / "data").to_pylist()
    return [row | {"messages": [json.loads(each) for each in row["messages"]]} for row in rows]


def jsonl_rows(out: Path) -> list[Row]:
    lines = [file.read_text("utf-8").split("\n") for file in sorted((out / "data").iterdir())]
    return [json.loads(line) for of_file in lines for line in of_file[:-1]]
