"""The first phase of a Lucene index: passages in files that Anserini reads.

    pages -> .NAME.passages/part-00.jsonl ... done.json -> NAME/lucene/

The done-mark comes last, so that a command that is killed in the second phase, or finds the disk
full, goes on there.
"""

import hashlib
import json
import shutil
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from tools.atomic import sync, write_text_atomically
from tools.base import InputError, OutputError
from tools.wikisearch.corpus import ReadCounts
from tools.wikisearch.passages import ContentHash, Passage

NUM_SHARDS = 16  # Anserini gives each thread one file at a time
_DONE = "done.json"


class CutPassages(BaseModel):
    """The done-mark. `format` changes with the files or with the way pages are cut."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal[1] = 1
    source: str
    num_passages: int
    content_hash: str
    counts: ReadCounts


def place_of_shards(out: Path) -> Path:
    """Where the passages of the index `out` are kept while it is built."""
    out = out.resolve()
    return out.with_name(f".{out.name}.passages")


def source_of(paths: Sequence[Path]) -> str:
    """What identifies the files `paths` without reading them: places, sizes and times.

    Raises:
        InputError: one of them cannot be read.
    """
    digest = hashlib.sha256()
    for path in paths:
        try:
            status = path.stat()
        except OSError as error:
            raise InputError(f"{path}: cannot read: {error.strerror or error}") from None
        digest.update(f"{path.resolve()}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def kept_passages(shards: Path, source: str) -> CutPassages | None:
    """What an earlier command cut of the same source, if it came to the end."""
    try:
        cut = CutPassages.model_validate_json((shards / _DONE).read_bytes())
    except (OSError, ValidationError):
        return None
    return cut if cut.source == source else None


def cut_passages(
    passages: Iterable[Passage], counts: ReadCounts, shards: Path, source: str
) -> CutPassages:
    """Write the passages to NUM_SHARDS files of JSON lines, then the done-mark.

    `counts` is what has been read when the passages are at their end.

    Raises:
        InputError: a file cannot be read.
        OutputError: the files cannot be written. Nothing is left of them then.
    """
    try:
        shutil.rmtree(shards, ignore_errors=True)
        shards.mkdir(parents=True)
        num_passages, content_hash = _write_shards(passages, shards)
        cut = CutPassages(
            source=source, num_passages=num_passages, content_hash=content_hash, counts=counts
        )
        write_text_atomically(shards / _DONE, cut.model_dump_json())
    except BaseException as error:  # an interrupt, too, leaves nothing that is of no use
        shutil.rmtree(shards, ignore_errors=True)
        if isinstance(error, OSError):
            raise OutputError(f"{shards}: cannot write: {error.strerror or error}") from None
        raise
    return cut


def _write_shards(passages: Iterable[Passage], shards: Path) -> tuple[int, str]:
    """The number of passages and their content hash."""
    content_hash = ContentHash()
    number = -1
    paths = [shards / f"part-{shard:02d}.jsonl" for shard in range(NUM_SHARDS)]
    with ExitStack() as stack:
        files = [stack.enter_context(path.open("w", encoding="ascii")) for path in paths]
        for number, passage in enumerate(passages):
            contents = passage.index_text()
            assert contents.count("\n") == len(passage.section) + 1, "a passage is of single lines"
            # Lucene breaks ties by the text of the id, which the zeros keep in order of number.
            line = json.dumps({"id": f"{number:010d}", "contents": contents})
            files[number % NUM_SHARDS].write(line + "\n")
            content_hash.add(passage)
    for path in paths:
        sync(path)
    return number + 1, content_hash.hexdigest()
