"""Generated passages and the figures of `python -m tools.wikisearch.bench`."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

from tests.tools.wikisearch.test_index_wikipedia_command import ROOT
from tools.wikisearch.generated import generated_passages, generated_queries


def test_generated_passages_depend_on_the_seed_alone() -> None:
    passages = list(generated_passages(300, seed=1))
    assert passages[:200] == list(generated_passages(200, seed=1))
    assert passages != list(generated_passages(300, seed=2))
    assert {len(passage.text.split()) for passage in passages} == {60}
    counts = Counter(word for passage in passages for word in passage.text.split())
    (_, first), (_, second) = counts.most_common(2)
    assert 1.7 < first / second < 2.6  # Zipf's law: 2 to the power of 1.07 is 2.1
    assert {len(query.split()) for query in generated_queries(100, seed=1)} == {2, 3, 4, 5}


def test_the_figures_are_written(tmp_path: Path) -> None:
    program = [sys.executable, "-m", "tools.wikisearch.bench", "--backend", "memory"]
    sizes = ["--passages", "200", "--queries", "20", "--json", str(tmp_path / "figures.json")]
    subprocess.run([*program, *sizes], cwd=ROOT, check=True, capture_output=True)
    (cost,) = json.loads((tmp_path / "figures.json").read_text())
    assert (cost["backend"], cost["num_passages"]) == ("memory", 200)
    assert cost["build"]["index_bytes"] > 200 * 60
    assert 0 < cost["search"]["p50_ms"] <= cost["search"]["p99_ms"]
