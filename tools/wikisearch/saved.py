"""An index in a directory: written whole or not at all, read through memory maps.

meta.json           backend, parameters, counts, content hash; written last

of the backend "memory":
passages.arrow      Arrow IPC file of PASSAGE_SCHEMA
*.npy, *.json       the files of bm25s

of the backend "lucene":
lucene/             Lucene's files, with the text of the passages
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import bm25s
import pyarrow as pa
from pydantic import BaseModel, ConfigDict, ValidationError

from tools.atomic import sync
from tools.base import ConfigError, InputError, OutputError
from tools.wikisearch.bm25 import PASSAGE_SCHEMA, BM25Index
from tools.wikisearch.index import PassageIndex
from tools.wikisearch.lucene import LuceneIndex

META = "meta.json"
PASSAGES = "passages.arrow"
LUCENE = "lucene"


class IndexMeta(BaseModel):
    """meta.json. `format` changes with the files or with the way terms are made."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal[2] = 2
    backend: Literal["memory", "lucene"]
    engine: str  # what wrote the files, with its version
    k1: float
    b: float
    num_passages: int
    content_hash: str


def prepare_place(out: Path) -> None:
    """Find out before the work whether `write_directory` can write at `out`.

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


def write_directory(out: Path, fill: Callable[[Path], IndexMeta]) -> None:
    """The new or empty directory `out` with what `fill` writes into a temporary one beside it.

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
        meta = fill(temporary)
        (temporary / META).write_text(meta.model_dump_json(indent=2) + "\n", encoding="utf-8")
        for path in [*temporary.rglob("*"), temporary]:
            sync(path)
        os.replace(temporary, out)
        sync(out.parent)
    except OSError as error:
        raise OutputError(f"{out}: cannot write: {error.strerror or error}") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def save_index(index: BM25Index, out: Path) -> None:
    """Write `index` to the new or empty directory `out`.

    Raises:
        ConfigError: `out` is there already.
        OutputError: it cannot be written; nothing is left at `out`.
    """
    write_directory(out, lambda directory: _write_files(index, directory))


def read_meta(path: Path) -> IndexMeta:
    """What the index in the directory `path` is; nothing of it is loaded.

    Raises:
        ConfigError: there is no such directory.
        InputError: it holds no index, or a torn one.
    """
    if not path.is_dir():
        raise ConfigError(f"{path}: no such directory; build one with index-wikipedia")
    try:
        return IndexMeta.model_validate_json((path / META).read_bytes())
    except (OSError, ValidationError) as error:
        raise _not_whole(path, error) from None


def load_index(
    path: Path,
    *,
    k1: float | None = None,
    b: float | None = None,
    heap_mb: int = 1024,
    threads: int = 1,
) -> PassageIndex:
    """The index in the directory `path`; passages and scores stay on disk until they are needed.

    `k1` and `b` replace those of the index where its backend is Lucene, which alone uses
    `heap_mb`, the heap of its JVM, and `threads`, the queries of a batch searched at once.

    Raises:
        ConfigError: there is no such directory, or Java is missing.
        InputError: it holds no index, or a torn one.
    """
    meta = read_meta(path)
    if meta.backend == "memory":
        return _load_memory(path, meta)
    lucene = LuceneIndex(
        path / LUCENE,
        k1=meta.k1 if k1 is None else k1,
        b=meta.b if b is None else b,
        content_hash=meta.content_hash,
        heap_mb=heap_mb,
        threads=threads,
    )
    if lucene.num_passages != meta.num_passages:
        raise _mixed(path)
    return lucene


def _load_memory(path: Path, meta: IndexMeta) -> BM25Index:
    try:
        passages = pa.ipc.open_file(pa.memory_map(str(path / PASSAGES))).read_all()
        scorer = bm25s.BM25.load(path, mmap=True, show_progress=False)
        num_scored = scorer.scores["num_docs"]
    except (OSError, EOFError, ValueError, KeyError, pa.ArrowException) as error:
        raise _not_whole(path, error) from None
    if not (passages.schema == PASSAGE_SCHEMA and len(passages) == num_scored == meta.num_passages):
        raise _mixed(path)
    return BM25Index(passages=passages, scorer=scorer, content_hash=meta.content_hash)


def _write_files(index: BM25Index, directory: Path) -> IndexMeta:
    with pa.ipc.new_file(str(directory / PASSAGES), PASSAGE_SCHEMA) as writer:
        writer.write_table(index.passages)
    index.scorer.save(directory, show_progress=False)
    return IndexMeta(
        backend="memory",
        engine=f"bm25s={bm25s.__version__}",
        k1=index.scorer.k1,
        b=index.scorer.b,
        num_passages=len(index.passages),
        content_hash=index.content_hash,
    )


def _mixed(path: Path) -> InputError:
    return InputError(f"{path}: its files are of different indexes; build it again")


def _not_whole(path: Path, error: Exception) -> InputError:
    if isinstance(error, ValidationError):
        (problem, *_) = error.errors()
        reason = f"{META}: {'.'.join(map(str, problem['loc']))}: {problem['msg']}"
    else:
        reason = str(error).partition("\n")[0]
    return InputError(
        f"{path}: not a whole WikiSearch index ({reason}); build it again with index-wikipedia"
    )
