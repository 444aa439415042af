"""The second phase of a Lucene index: Anserini indexes in Java what shards.py cut."""

import os
import re
import shutil
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path

from tools.base import ToolformerError, one_line
from tools.wikisearch.index import K1, B
from tools.wikisearch.jvm import anserini_version, java_command
from tools.wikisearch.saved import LUCENE, IndexMeta, write_directory
from tools.wikisearch.shards import NUM_SHARDS, CutPassages

HEAP_MB = 2048
_NUM_INDEXED = re.compile(r"([\d,]+) documents indexed")
_NUM_WHOLE = re.compile(r"; (\d+) documents; ")
# Linux ends the program with the command that started it, even when that is killed outright.
_WITH_ITS_PARENT = (
    "import ctypes, os, signal, sys\n"
    "if sys.platform == 'linux': ctypes.CDLL(None).prctl(1, signal.SIGKILL)\n"
    "os.execv(sys.argv[1], sys.argv[1:])"
)


def index_passages(
    shards: Path,
    cut: CutPassages,
    out: Path,
    *,
    k1: float = K1,
    b: float = B,
    heap_mb: int = HEAP_MB,
    on_indexed: Callable[[int], None] = lambda num_passages: None,
) -> None:
    """Write the index of the passages in `shards` to the new or empty directory `out`.

    The shards are removed when it is there. `k1` and `b` are only noted, for those who search.
    `on_indexed` hears now and then how many passages are indexed.

    Raises:
        ConfigError: `out` is there already, or Java is missing.
        ToolformerError: Lucene failed, or the disk is full. Nothing is left at `out`.
    """
    meta = IndexMeta(
        backend="lucene",
        engine=f"anserini={anserini_version()}",
        k1=k1,
        b=b,
        num_passages=cut.num_passages,
        content_hash=cut.content_hash,
    )

    def fill(directory: Path) -> IndexMeta:
        complaint = _index(shards, directory / LUCENE, meta.num_passages, heap_mb, on_indexed)
        if complaint:
            raise ToolformerError(f"{out}: {complaint}")
        return meta

    try:
        write_directory(out, fill)
    except ToolformerError as error:
        raise type(error)(
            f"{one_line(error)}; the passages are kept in {shards}: the same command goes on there"
        ) from None
    shutil.rmtree(shards, ignore_errors=True)


def _index(
    shards: Path, index: Path, num_passages: int, heap_mb: int, on_indexed: Callable[[int], None]
) -> str:
    """Run Anserini's IndexCollection over the shards and check; why it failed, or nothing."""
    program = [
        *java_command(heap_mb),
        "io.anserini.index.IndexCollection",
        *("-collection", "JsonCollection", "-generator", "DefaultLuceneDocumentGenerator"),
        *("-input", str(shards), "-index", str(index), "-storeContents", "-optimize"),
        *("-threads", str(min(NUM_SHARDS, os.cpu_count() or 1))),
        *("-memoryBuffer", str(heap_mb // 4)),
    ]
    num_indexed, failure = _run(program, _NUM_INDEXED, on_indexed)
    if failure or num_indexed != num_passages:
        return f"Lucene indexed {num_indexed:,} of {num_passages:,} passages: {failure}"
    # Where a file could not grow, Anserini has been seen to end as if nothing had happened.
    check = [*java_command(heap_mb), "org.apache.lucene.index.CheckIndex", "-fast", str(index)]
    num_whole, failure = _run(check, _NUM_WHOLE, lambda num_passages: None)
    if failure or num_whole != num_passages:
        return (
            f"Lucene wrote {num_whole:,} of {num_passages:,} passages whole (is there room on the "
            f"disk?): {failure}"
        )
    return ""


def _run(
    program: list[str], count: re.Pattern[str], on_count: Callable[[int], None]
) -> tuple[int, str]:
    """The last `count` the program printed, and what went wrong, if it did not end well."""
    number, complaints = 0, deque[str](maxlen=50)
    with subprocess.Popen(
        [sys.executable, "-c", _WITH_ITS_PARENT, *program],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        env={**os.environ, "LC_ALL": "C.UTF-8"},  # else Java cannot open a path with an accent
    ) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if "Exception" in line or "Error" in line:
                    complaints.append(line.strip()[:300])
                if found := count.search(line):
                    number = int(found[1].replace(",", ""))
                    on_count(number)
        except BaseException:
            process.kill()
            raise
    if process.returncode == 0:
        return number, ""
    of_files = [line for line in complaints if "IOException" in line]
    reason = (of_files or list(complaints) or [""])[0]
    return number, f"{reason} (exit code {process.returncode})".strip()
