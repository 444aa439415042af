"""Shares of what was never counted, by Prometheus' own tester of queries."""

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from cluster.monitoring import rows_of_actors, rows_of_runs
from pipeline import metrics as run
from pipeline.engines import metrics as lm
from tools import metrics as tool

pytestmark = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="needs promtool (Debian's package prometheus)"
)

QUERIES = {
    panel.title: panel.queries[0].expr
    for row in (*rows_of_runs.ROWS, *rows_of_actors.ROWS)
    for panel in row.panels
}
DOCUMENTS = f"{run.DOCUMENTS}{{outcome='done', SessionName='s'}}"


@pytest.mark.parametrize(
    ("title", "by", "part", "whole", "others", "shares"),
    [
        ("Kept share", "tool", run.KEPT, run.CANDIDATES, [], (0.25, 0.0)),
        ("Kept calls per document", "tool", run.KEPT, run.CANDIDATES, [DOCUMENTS], (0.25, 0.0)),
        ("Padding", "pool", lm.PADDING, lm.TOKENS, [], (0.25, 0.0)),
        # Of `some`, 1 of the 1 + 4 answers is the tool's.
        ("Answers without the tool", "tool", tool.ANSWERS, tool.ANSWERS, [], (0.8, 1.0)),
    ],
)
def test_what_was_never_counted_is_a_share_of_0(
    tmp_path: Path,
    title: str,
    by: str,
    part: str,
    whole: str,
    others: list[str],
    shares: tuple[float, float],
) -> None:
    """`some` counts 1 in a second of 4, `none` nothing of 4."""
    fast = [
        *(f"{whole}{{{by}='{who}', source='memory', SessionName='s'}}" for who in ("some", "none")),
        *others,
    ]
    slow = f"{part}{{{by}='some', source='tool', SessionName='s'}}"
    counters = {slow: "0+60x10"} | dict.fromkeys(fast, "0+240x10")
    samples = [
        {"labels": f'{{{by}="{who}"}}', "value": value}
        for who, value in zip(("some", "none"), shares, strict=True)
    ]
    query = QUERIES[title].replace("$SessionName", ".*").replace("$window", "5m")
    test = {
        "interval": "1m",
        "input_series": [{"series": f"ray_{k}", "values": v} for k, v in counters.items()],
        "promql_expr_test": [{"expr": query, "eval_time": "10m", "exp_samples": samples}],
    }
    file = tmp_path / "test.yml"
    file.write_text(yaml.safe_dump({"evaluation_interval": "1m", "tests": [test]}))
    done = subprocess.run(["promtool", "test", "rules", file], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
