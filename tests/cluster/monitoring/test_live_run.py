"""What a user watches while a run goes on: real metrics, a real Prometheus, a real browser.

One run is held at a document until all have looked, so that nothing changes between two looks.
"""

import json
import math
import secrets
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from cluster.monitoring import rows_of_actors, rows_of_runs
from pipeline import metrics as run_metrics
from pipeline.engines import metrics as lm_metrics
from pipeline.rundir import DoneMark
from pipeline.unit_counts import GAIN_EDGES
from tests.browser import CHROMIUM, Page, chromium
from tests.pipeline.survival.scenes import UNIT_DOCUMENTS, Scene, documents_of, kill_tree
from tools import metrics as tool_metrics
from tools.usage import total_usage

pytestmark = pytest.mark.ray
with_prometheus = pytest.mark.skipif(
    shutil.which("prometheus") is None, reason="needs prometheus (Debian's package prometheus)"
)

Totals = dict[tuple[str, tuple[tuple[str, str], ...]], float]  # by name and labels

NUM_DOCUMENTS = 12
NUM_UNITS = NUM_DOCUMENTS // UNIT_DOCUMENTS
TAU_F = 1.0
TOOL, ENGINE, POOL = (
    ("tool", "Calculator"),
    ("engine", "scripted"),
    ("pool", "position+sample+loss"),
)
HELD = ("loss", NUM_DOCUMENTS - 1)
_PATIENCE_S = 240.0
_POLL_S = 0.2
# Those of Ray, of the exporter and of this run alone.
_LABELS = {"tool", "status", "outcome", "le", "pool", "stage", "kind", "source", "engine"}
# What an undisturbed run never counts; what the run itself counts begins at 0.
_NEVER = (
    lm_metrics.LOST_REPLICAS, lm_metrics.ASKED_AGAIN, lm_metrics.ISOLATED,
    tool_metrics.RETRIES, tool_metrics.RESTARTS,
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """A run that is held, and where it can be looked at."""

    scene: Scene
    token: str  # of Ray
    dashboard: str  # its URL
    ray_directory: Path
    prometheus: str | None  # its URL; None where it is not installed

    @property
    def marks(self) -> list[DoneMark]:
        return self.scene.run.done_marks()


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """Everything by the commands that `python -m cluster metrics` says."""
    # Of this run alone: Ray names its newest session there, and sockets need a short name.
    ray_directory = Path(tempfile.mkdtemp(prefix="tf-", dir="/tmp"))
    out, port = tmp_path_factory.mktemp("monitoring"), free_port()
    written = subprocess.run(
        [
            sys.executable, "-m", "cluster", "metrics", "--out", str(out), "--interval", "1",
            "--ray-dir", str(ray_directory / "ray"), "--prometheus", f"127.0.0.1:{port}",
        ],
        capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    [start, *_] = [shlex.split(line) for line in written if line.startswith("prometheus ")]
    [exports, *_] = [shlex.split(line)[1:] for line in written if line.startswith("export ")]
    prometheus = None
    scene = Scene(out / "scene", NUM_DOCUMENTS, tool={"actors": 1})
    scene.hold(*HELD)
    with pytest.MonkeyPatch.context() as patch:
        for pair in exports:
            patch.setenv(*pair.split("=", 1))
        patch.setenv("RAY_metrics_report_interval_ms", "1000")
        patch.setenv("RAY_AUTH_MODE", "token")
        token = secrets.token_hex(16)
        patch.setenv("RAY_AUTH_TOKEN", token)
        driver = scene.start(ray_directory=ray_directory)
        try:
            if shutil.which("prometheus"):
                with (out / "prometheus.log").open("wb") as log:
                    prometheus = subprocess.Popen(start, stderr=log)
            scene.held(*HELD, driver)
            line = next(line for line in scene.printed().splitlines() if "Ray dashboard: " in line)
            yield Live(
                scene=scene,
                token=token,
                dashboard=line.split("Ray dashboard: ")[1].strip(),
                ray_directory=ray_directory / "ray",
                prometheus=f"http://127.0.0.1:{port}" if prometheus else None,
            )
        finally:
            kill_tree(driver)
            if prometheus is not None:
                prometheus.terminate()
                prometheus.wait()
            shutil.rmtree(ray_directory, ignore_errors=True)


def test_counters_of_the_nodes_are_what_the_done_marks_and_unit_files_say(live: Live) -> None:
    wait_for(lambda: differing(live))
    assert min([*gauges(live).values(), *counters(live).values()]) > 0
    assert 0 < len(live.marks) < NUM_UNITS


def test_metrics_need_no_token_where_the_dashboard_needs_one(live: Live) -> None:
    assert httpx.get(targets(live)[0]).status_code == 200
    nodes = f"{live.dashboard}/nodes?view=summary"
    assert httpx.get(nodes).status_code == 401
    assert httpx.get(nodes, headers=bearer(live)).status_code == 200


@with_prometheus
def test_prometheus_answers_every_query_of_the_dashboard(live: Live) -> None:
    queries = [
        query.expr
        for row in (*rows_of_runs.ROWS, *rows_of_actors.ROWS)
        for panel in row.panels
        for query in panel.queries
    ]
    may_be_empty = {expr for expr in queries if any(part in expr for part in _NEVER)}
    assert len(may_be_empty) < len(queries) / 3
    wait_for(lambda: {expr for expr in queries if not asked(live, expr)} - may_be_empty)
    share = rows_of_runs.ROWS[0].panels[0].queries[0].expr

    def another_share() -> object:
        answers = [float(series["value"][1]) for series in asked(live, share)]
        done = sum(mark.documents for mark in live.marks)
        return None if answers == pytest.approx([done / NUM_DOCUMENTS]) else (done, answers)

    wait_for(another_share)


@with_prometheus
def test_a_quantile_of_gains_is_in_the_bucket_that_holds_it(live: Live) -> None:
    """Below it no gain was counted: its lower edge is known all the same."""
    edges = (*GAIN_EDGES, math.inf)

    def elsewhere() -> object:
        gains = np.array(scored_gains(live))
        bucket = np.searchsorted(edges, gains.min())
        low, high = edges[bucket - 1], edges[bucket]
        assert 0 < bucket < len(GAIN_EDGES) and low != 0.0
        q = np.count_nonzero(gains <= high) / len(gains) / 4
        quantile = f"histogram_quantile({q}, sum by (le, tool) (ray_{run_metrics.GAINS}))"
        answers = [float(series["value"][1]) for series in asked(live, quantile)]
        return None if len(answers) == 1 and low < answers[0] < high else (low, answers, high)

    wait_for(elsewhere)


@with_prometheus
def test_rays_dashboard_asks_prometheus_and_names_our_dashboard(live: Live) -> None:
    health = httpx.get(f"{live.dashboard}/api/prometheus_health", headers=bearer(live))
    assert health.json()["result"] is True
    made = live.ray_directory / "session_latest" / "metrics" / "grafana" / "dashboards"
    assert json.loads((made / "data_grafana_dashboard.json").read_text())["uid"] == "toolformer"


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium (Debian's package chromium)")
def test_rays_dashboard_shows_the_run_and_its_replica_in_a_browser(live: Live) -> None:
    cookie = {"name": "ray-authentication-token", "value": live.token, "url": live.dashboard}
    with chromium() as browser:
        browser.call("Storage.setCookies", {"cookies": [cookie]})
        for place, wanted in (
            ("actors", ("LMHost", "Dispatcher", "ALIVE")),
            ("jobs", ("pipeline annotate", "RUNNING")),
        ):
            page = Page(browser)
            page.open(f"{live.dashboard}/#/{place}")
            wait_for(partial(not_shown, page, wanted))


def gauges(live: Live) -> Totals:
    """What the marks come to, and what is held."""
    marks = live.marks
    return {
        (run_metrics.UNITS_PLANNED, ()): NUM_UNITS,
        (run_metrics.UNITS_DONE, ()): len(marks),
        (run_metrics.DOCUMENTS_PLANNED, ()): NUM_DOCUMENTS,
        (run_metrics.DOCUMENTS_DONE, ()): sum(mark.documents for mark in marks),
        (lm_metrics.RUNNING, (ENGINE, POOL)): 1,
    }


def counters(live: Live) -> Totals:
    """What the marks and the files of the finished units come to."""
    marks, rows = live.marks, documents_of(live.scene.run)
    calls = [call for row in rows for call in row["calls"]]
    statuses = Counter(call["status"] for call in calls if call["status"])
    return {
        (run_metrics.DOCUMENTS, (("outcome", "done"),)): sum(mark.documents for mark in marks),
        (run_metrics.POSITIONS, (TOOL,)): sum(len(row["positions"]) for row in rows),
        (run_metrics.CANDIDATES, (TOOL,)): len(calls),
        (run_metrics.KEPT, (TOOL,)): sum((call["gain"] or 0.0) >= TAU_F for call in calls),
        (run_metrics.GAINS, (("le", "+Inf"), TOOL)): sum(
            call["loss_plus"] is not None for call in calls
        ),
    } | {
        (run_metrics.EXECUTED, (("status", status), TOOL)): count
        for status, count in statuses.items()
    }


def scored_gains(live: Live) -> list[float]:
    """Those of the finished units, or their upper bounds."""
    calls = [call for row in documents_of(live.scene.run) for call in row["calls"]]
    return [
        call["loss_empty"] - call["loss_plus"] if call["gain"] is None else call["gain"]
        for call in calls
        if call["loss_plus"] is not None
    ]


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def not_shown(page: Page, wanted: Sequence[str]) -> str | None:
    """What can be read on a page that lacks some of what is wanted."""
    text = str(page.evaluate("document.body.innerText"))
    return None if all(part in text for part in wanted) else text


def bearer(live: Live) -> dict[str, str]:
    return {"Authorization": f"Bearer {live.token}"}


def targets(live: Live) -> list[str]:
    """Where Ray says that metrics are: of its nodes, of the autoscaler, of the dashboard."""
    file = live.ray_directory / "prom_metrics_service_discovery.json"
    wait_for(lambda: not file.exists())
    [group] = json.loads(file.read_text())
    return [f"http://{address}/metrics" for address in group["targets"]]


def scraped(live: Live) -> Totals:
    """The sum over all processes of each of our metrics, for each of its values of our labels."""
    totals: Totals = defaultdict(float)
    for target in targets(live):
        try:
            text = httpx.get(target).text
        except httpx.ConnectError:  # Ray names a target before it listens
            continue
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name.startswith("ray_toolformer_"):
                    labels = tuple(sorted((k, v) for k, v in sample.labels.items() if k in _LABELS))
                    totals[sample.name.removeprefix("ray_"), labels] += sample.value
    return dict(totals)


def differing(live: Live) -> dict[Any, object]:
    """What is exported other than as the marks say. Units may be committed while we look, and
    metrics come some time after what they are of: in the end nothing is.

    Of counters Ray sends what was added. Where an answer is late, on a machine that is busy, that
    is lost or counts twice for good; so they are only near.
    """
    seen, marks = scraped(live), live.marks
    if not marks:
        return {"marks": marks}
    in_flight = lm_metrics.UNITS_IN_FLIGHT, ()
    usage = total_usage(mark.tools for mark in marks)["Calculator"]
    # What is held is in no mark yet: of these there may be more.
    ahead: Totals = {
        (tool_metrics.REQUESTS, (("status", "ok"), TOOL)): usage.statuses["ok"],
        (f"{tool_metrics.BATCH_SECONDS}_count", (TOOL,)): usage.batches,
    }
    for kind in ("position", "loss"):
        tokens = sum(mark.tokens[f"{kind}_tokens"] for mark in marks)
        ahead[lm_metrics.TOKENS, (ENGINE, ("kind", kind), POOL)] = tokens
    bounds: dict[Any, tuple[float, float]] = (
        {key: (value, value) for key, value in gauges(live).items()}
        | {key: (value / 2, 2 * value) for key, value in counters(live).items()}
        | {key: (value / 2, math.inf) for key, value in ahead.items()}
        | {in_flight: (1, NUM_UNITS - len(marks))}
    )
    return {
        key: (least, seen.get(key), most)
        for key, (least, most) in bounds.items()
        if not least <= seen.get(key, 0.0) <= most + 1e-6  # counts of gains begin above 0
    }


def asked(live: Live, expr: str) -> list[dict[str, Any]]:
    """What Prometheus answers to a query of the dashboard, with the variables filled in."""
    query = expr.replace("$SessionName", "session_.*").replace("$window", "20s")
    answer = httpx.get(f"{live.prometheus}/api/v1/query", params={"query": query})
    assert answer.status_code == 200, f"{query}: {answer.text}"
    result: list[dict[str, Any]] = answer.json()["data"]["result"]
    return result


def wait_for(missing: Callable[[], object]) -> None:
    """Until nothing is missing."""
    deadline = time.monotonic() + _PATIENCE_S
    while still := missing():
        assert time.monotonic() < deadline, still
        time.sleep(_POLL_S)
