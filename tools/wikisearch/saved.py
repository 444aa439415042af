"""A BM25 index in a directory: written whole or not at all, read through memory maps.

meta.json           formula, parameters, counts, content hash; written last
passages.arrow      Arrow IPC file of PASSAGE_SCHEMA
*.npy, *.json       the files of bm25s
"""

import os
import shutil
from pathlib import Path
from typing import Literal

import bm25s
import pyarrow as pa
from pydantic import BaseModel, ConfigDict, ValidationError

from tools.atomic import sync
from tools.base import ConfigError, InputError, OutputError
from tools.wikisearch.bm25 import PASSAGE_SCHEMA, BM25Index

META = "meta.json"
PASSAGES = "passages.arrow"


class IndexMeta(BaseModel):
    """meta.json. `format` changes with the files or with the way terms are made."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal[1] = 1
    method: Literal["lucene"] = "lucene"
    k1: float
    b: float
    num_passages: int
    num_terms: int
    content_hash: str


def prepare_place(out: Path) -> None:
    """Find out before the work whether `save_index` can write at `out`.

    Raises:
        ConfigError: something other than an empty directory is there already.
        OutputError: no directory can be made there.
    """
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise ConfigError(f"{out}: is there already; delete it or name another directory")
    except OSError as error:
        raise OutputError(f"{out}: cannot write: {error.strerror or error}") from None


def save_index(index: BM25Index, out: Path) -> None:
    """Write `index` to the new or empty directory `out`, by way of a temporary one beside it.

    What a killed writer left in the temporary directory is deleted by the next one.

    Raises:
        ConfigError: `out` is there already.
        OutputError: it cannot be written; nothing is left at `out`.
    """
    prepare_place(out)
    out = out.resolve()
    temporary = out.with_name(f".{out.name}.partial")
    try:
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        _write_files(index, temporary)
        for path in [*temporary.iterdir(), temporary]:
            sync(path)
        os.replace(temporary, out)
        sync(out.parent)
    except OSError as error:
        raise OutputError(f"{out}: cannot write: {error.strerror or error}") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def load_index(path: Path) -> BM25Index:
    """The index in the directory `path`; passages and scores stay on disk until they are needed.

    Raises:
        ConfigError: there is no such directory.
        InputError: it holds no index, or a torn one.
    """
    if not path.is_dir():
        raise ConfigError(f"{path}: no such directory; build one with index-wikipedia")
    try:
        meta = IndexMeta.model_validate_json((path / META).read_bytes())
        passages = pa.ipc.open_file(pa.memory_map(str(path / PASSAGES))).read_all()
        scorer = bm25s.BM25.load(path, mmap=True, show_progress=False)
        num_scored = scorer.scores["num_docs"]
    except (OSError, EOFError, ValueError, KeyError, ValidationError, pa.ArrowException) as error:
        raise InputError(
            f"{path}: not a whole WikiSearch index ({_first_line(error)}); build it again with "
            "index-wikipedia"
        ) from None
    if not (passages.schema == PASSAGE_SCHEMA and len(passages) == num_scored == meta.num_passages):
        raise InputError(f"{path}: its files are of different indexes; build it again")
    return BM25Index(passages=passages, scorer=scorer, content_hash=meta.content_hash)


def _write_files(index: BM25Index, directory: Path) -> None:
    with pa.ipc.new_file(str(directory / PASSAGES), PASSAGE_SCHEMA) as writer:
        writer.write_table(index.passages)
    index.scorer.save(directory, show_progress=False)
    meta = IndexMeta(
        k1=index.scorer.k1,
        b=index.scorer.b,
        num_passages=len(index.passages),
        num_terms=len(index.scorer.vocab_dict),
        content_hash=index.content_hash,
    )
    (directory / META).write_text(meta.model_dump_json(indent=2) + "\n", encoding="utf-8")


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
