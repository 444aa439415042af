"""A process of its own for Java, which a test process could not stop or start again.

Run as a program it answers each line of its input, a JSON list of what to do and with what, with a
line of JSON: an answer, or {"error": text}.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

from tools.base import ToolformerError, ToolRequest, ToolResult, ToolStatus
from tools.wikisearch.index import Hit, PassageIndex
from tools.wikisearch.jvm import java_calls, java_class, java_string, start_jvm
from tools.wikisearch.passages import Passage
from tools.wikisearch.saved import load_index
from tools.wikisearch.tool import WikiSearch

ROOT = Path(__file__).resolve().parents[3]


class LuceneProcess:
    """Lucene indexes searched elsewhere."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.tools.wikisearch.lucene_process"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="ascii",
        )
        self.pid = self._process.pid

    def search(
        self, index: Path, queries: Sequence[str], k: int, **options: float
    ) -> list[list[Hit]]:
        """What load_index(index, **options) finds."""
        found = self._ask("search", str(index), queries, k, options)
        return [[_hit(*fields) for fields in hits] for hits in found]

    def search_in_threads(self, index: Path, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """The same, each query searched in a thread of its own, all at the same time."""
        found = self._ask("threads", str(index), queries, k, {})
        return [[_hit(*fields) for fields in hits] for hits in found]

    def answers(
        self, index: Path, requests: Sequence[ToolRequest], **options: int
    ) -> list[ToolResult]:
        """What WikiSearch(index, **options) answers to a batch; there is no date in it."""
        asked = [(request.input, request.page) for request in requests]
        answered = self._ask("answers", str(index), asked, options)
        return [
            ToolResult(status=ToolStatus(status), result=result, error=error)
            for status, result, error in answered
        ]

    def terms(self, texts: Sequence[str]) -> list[list[str]]:
        """What Lucene's English analyzer makes of each text."""
        return [list(terms) for terms in self._ask("terms", texts)]

    def close(self) -> int:
        """The exit code."""
        self._process.communicate(timeout=60)
        return self._process.returncode

    def _ask(self, *request: Any) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if isinstance(answer, dict):
            raise ToolformerError(answer["error"])
        return answer


def _hit(passage_id: int, score: float, title: str, section: Sequence[str], text: str) -> Hit:
    passage = Passage(title=title, section=tuple(section), text=text)
    return Hit(passage_id=passage_id, score=score, passage=passage)


@cache
def _index(directory: str, **options: Any) -> PassageIndex:
    return load_index(Path(directory), heap_mb=128, **options)


def _answer(kind: str, *arguments: Any) -> Any:
    if kind == "terms":
        return _terms(*arguments)
    if kind == "answers":
        return _answers(*arguments)
    directory, queries, k, options = arguments
    index = _index(directory, **options)
    if kind == "threads":
        with ThreadPoolExecutor(len(queries)) as pool:
            found = list(pool.map(lambda query: index.search(query, k), queries))
    else:
        found = index.search_batch(queries, k)
    return [
        [[h.passage_id, h.score, h.passage.title, h.passage.section, h.passage.text] for h in hits]
        for hits in found
    ]


def _answers(
    index: str, asked: Sequence[tuple[str, int]], options: dict[str, Any]
) -> list[list[str | None]]:
    tool = WikiSearch(index=index, java_heap_mb=128, **options)
    results = tool.run([ToolRequest(input=text, page=page) for text, page in asked])
    return [[result.status, result.result, result.error] for result in results]


def _terms(texts: Sequence[str]) -> list[list[str]]:
    start_jvm(heap_mb=128)
    with java_calls():
        analyzer = java_class("io.anserini.analysis.DefaultEnglishAnalyzer").newDefaultInstance()
        analyze = java_class("io.anserini.analysis.AnalyzerUtils").analyze
        return [analyze(analyzer, java_string(text)).toArray() for text in texts]


def _serve() -> None:
    for line in sys.stdin:
        try:
            answer = _answer(*json.loads(line))
        except ToolformerError as error:
            answer = {"error": str(error)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    _serve()
