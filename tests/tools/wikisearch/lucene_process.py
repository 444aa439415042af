"""A process of its own for Java, which a test process could not stop or start again.

Run as a program it answers each line of its input, a JSON list [directory, queries, k, threads] or
["terms", texts], with a line: [[[passage_id, score, title, section, text], ...], ...] or [[term,
...], ...].
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tools.wikisearch.index import Hit
from tools.wikisearch.jvm import java_calls, java_class, java_string
from tools.wikisearch.passages import Passage
from tools.wikisearch.saved import load_index

ROOT = Path(__file__).resolve().parents[3]


class LuceneProcess:
    """Lucene indexes searched elsewhere."""

    def __init__(self, *options: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.tools.wikisearch.lucene_process", *options],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="ascii",
        )
        self.pid = self._process.pid

    def search(
        self, index: Path, queries: Sequence[str], k: int, threads: int = 1
    ) -> list[list[Hit]]:
        return [
            [
                Hit(
                    passage_id=passage_id,
                    score=score,
                    passage=Passage(title=title, section=tuple(section), text=text),
                )
                for passage_id, score, title, section, text in hits
            ]
            for hits in self._ask(str(index), queries, k, threads)
        ]

    def terms(self, texts: Sequence[str]) -> list[list[str]]:
        return [list(terms) for terms in self._ask("terms", texts)]

    def close(self) -> int:
        """The exit code."""
        self._process.communicate(timeout=60)
        return self._process.returncode

    def _ask(self, *request: Any) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


def _answer(request: list[Any], indexes: dict[str, Any]) -> Any:
    if request[0] == "terms":
        with java_calls():
            analyzer = java_class(
                "io.anserini.analysis.DefaultEnglishAnalyzer"
            ).newDefaultInstance()
            analyze = java_class("io.anserini.analysis.AnalyzerUtils").analyze
            return [analyze(analyzer, java_string(text)).toArray() for text in request[1]]
    directory, queries, k, threads = request
    key = f"{directory}:{threads}"
    if key not in indexes:
        indexes[key] = load_index(Path(directory), heap_mb=128, threads=threads)
    return [
        [[h.passage_id, h.score, h.passage.title, h.passage.section, h.passage.text] for h in hits]
        for hits in indexes[key].search_batch(queries, k)
    ]


def _serve() -> None:
    indexes: dict[str, Any] = {}
    for line in sys.stdin:
        print(json.dumps(_answer(json.loads(line), indexes)), flush=True)


if __name__ == "__main__":
    _serve()
