"""What a push left, as the Hub reads it, and builds to push."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
from huggingface_hub import DatasetCard

from pipeline.build import build
from pipeline.push import HubRepo
from pipeline.rundir import RunDir
from tests.pipeline.build.scored_units import byte_codec

REPO = HubRepo("me/calls")
FILES = {
    "README.md", "build.json", "dataset/part-00000.parquet", "dataset_plain/part-00000.parquet",
}  # fmt: skip


def front_matter(card: str) -> dict[str, Any]:
    """What the Hub reads of a card, by its own reader."""
    data: dict[str, Any] = DatasetCard(card).data.to_dict()  # type: ignore[no-untyped-call]
    return data


def loaded(card: str, directory: Path, config: str) -> pa.Table:
    """The rows of a configuration, read as the card says they can be."""
    configs = {each["config_name"]: each for each in front_matter(card)["configs"]}
    files = sorted(directory.glob(configs[config]["data_files"]))
    return pyarrow.dataset.dataset(files, format="parquet").to_table()


def files_of(directory: Path) -> dict[str, tuple[bytes, int]]:
    return {
        path.relative_to(directory).as_posix(): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def build_again(run: RunDir, shard_rows: int = 100) -> None:
    files = run.finished_unit_files()
    build(files, run.config(), byte_codec(), run.path, shard_rows=shard_rows)
