"""What `python -m cluster metrics` writes and says."""

import configparser
import importlib
import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ray._private.runtime_env.packaging import get_uri_for_directory

from cluster.monitoring import rows_of_actors, rows_of_runs
from cluster.monitoring.dashboard import dashboard
from cluster.monitoring.panels import Panel
from pipeline import metrics as run_metrics
from pipeline.engines import metrics as lm_metrics
from tools import metrics as tool_metrics

PANELS = [panel for row in (*rows_of_runs.ROWS, *rows_of_actors.ROWS) for panel in row.panels]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The directory, and what the command printed."""
    out = tmp_path_factory.mktemp("monitoring")
    command = [sys.executable, "-m", "cluster", "metrics", "--out", str(out), "--interval", "7"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return out, done.stdout


def test_servers_are_for_this_machine_alone_and_for_looking(written: tuple[Path, str]) -> None:
    out, printed = written
    prometheus, grafana = (
        shlex.split(line)
        for line in printed.splitlines()
        if line.startswith(("prometheus ", "grafana "))
    )
    assert "--web.listen-address=127.0.0.1:9090" in prometheus
    assert f"--config.file={out}/prometheus.yml" in prometheus
    ini = configparser.ConfigParser()
    ini.read(grafana[-1].removeprefix("--config="))
    assert (ini["server"]["http_addr"], ini["server"]["http_port"]) == ("127.0.0.1", "3000")
    assert ini["auth.anonymous"]["org_role"] == "Viewer"
    assert ini["security"]["disable_initial_admin_creation"] == "true"
    assert all((out / "grafana") in Path(path).parents for path in ini["paths"].values())


def test_prometheus_looks_at_the_nodes_of_ray_as_often_as_asked(written: tuple[Path, str]) -> None:
    config = yaml.safe_load((written[0] / "prometheus.yml").read_text())
    [job] = config["scrape_configs"]
    [nodes] = job["file_sd_configs"]
    file, links = map(Path, nodes["files"])
    assert file.name == "prom_metrics_service_discovery.json"
    assert links.match("tf-*.json")
    assert config["global"]["scrape_interval"] == nodes["refresh_interval"] == "7s"


def test_grafana_finds_prometheus_and_ours_beside_rays_dashboards(
    written: tuple[Path, str],
) -> None:
    out, printed = written
    provisioning = out / "grafana" / "provisioning"
    [source] = yaml.safe_load((provisioning / "datasources" / "prometheus.yml").read_text())[
        "datasources"
    ]
    assert (source["name"], source["url"]) == ("Prometheus", "http://127.0.0.1:9090")
    [provider] = yaml.safe_load((provisioning / "dashboards" / "dashboards.yml").read_text())[
        "providers"
    ]
    found = [json.loads(file.read_text()) for file in Path(provider["options"]["path"]).iterdir()]
    uids = {board["uid"] for board in found}
    assert uids == {"rayDefaultDashboard", "rayDataDashboard", "toolformer"}
    [export] = [line for line in printed.splitlines() if line.startswith("export ")]
    exported = dict(pair.split("=", 1) for pair in shlex.split(export)[1:])
    assert exported["RAY_GRAFANA_DATA_DASHBOARD_UID"] in uids
    assert exported["RAY_PROMETHEUS_NAME"] == source["name"]
    assert exported["RAY_PROMETHEUS_HOST"] == source["url"]


def test_ray_does_not_ship_the_data_of_the_servers_with_the_code(
    written: tuple[Path, str],
) -> None:
    out, _ = written
    package = get_uri_for_directory(str(out), include_gitignore=True)
    for data in ("prometheus/wal/00000000", "grafana/data/grafana.db"):
        (out / data).parent.mkdir(parents=True)
        (out / data).write_bytes(b"grows")
    assert get_uri_for_directory(str(out), include_gitignore=True) == package


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--grafana", "3000"], "--grafana 3000: not HOST:PORT"),
        (["--prometheus", "localhost:0"], "--prometheus localhost:0: not HOST:PORT"),
        (["--out", "/proc/nowhere"], "/proc/nowhere/"),
    ],
)
def test_bad_input_is_one_line(tmp_path: Path, arguments: list[str], says: str) -> None:
    command = [sys.executable, "-m", "cluster", "metrics", "--out", str(tmp_path), *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    [line] = done.stderr.splitlines()
    assert done.returncode == 1 and says in line


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: str(panel.title))
def test_every_panel_says_what_it_shows_and_in_which_unit(panel: Panel) -> None:
    assert panel.unit and panel.description.endswith(".") and panel.queries
    named = len(panel.queries) > 1 or " by (" in panel.queries[0].expr
    assert not named or all(query.legend for query in panel.queries)


def test_every_metric_is_on_some_panel() -> None:
    shown = " ".join(query.expr for panel in PANELS for query in panel.queries)
    names = {
        value
        for module in (run_metrics, lm_metrics, tool_metrics)
        for value in vars(module).values()
        if isinstance(value, str) and value.startswith("toolformer_")
    }
    assert {name for name in names if f"ray_{name}" not in shown} == {tool_metrics.BATCH_SIZE}


def test_panels_do_not_overlap() -> None:
    panels = dashboard()["panels"]
    cells = [
        (panel["gridPos"]["x"] + x, panel["gridPos"]["y"] + y)
        for panel in panels
        for x in range(panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells)) and max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_grafanas_own_model_of_a_dashboard_knows_all_of_it() -> None:
    """Read into the types that Grafana publishes and written again, nothing is lost."""
    sdk = "grafana_foundation_sdk"
    pytest.importorskip(sdk, reason=f"{sdk}: Grafana's own description of a dashboard")
    models = importlib.import_module(f"{sdk}.models.dashboard")
    encoder = importlib.import_module(f"{sdk}.cog.encoder")
    importlib.import_module(f"{sdk}.cog.plugins").register_default_plugins()
    ours = json.loads(json.dumps(dashboard()))
    read = json.loads(json.dumps(models.Dashboard.from_json(ours), cls=encoder.JSONEncoder))
    assert lost(ours, read) == []


def lost(before: Any, after: Any, where: str = "") -> list[str]:
    """The places of `before` that are not in `after`, or hold something else there."""
    if isinstance(before, dict) and isinstance(after, dict):
        return [
            place
            for key, value in before.items()
            for place in lost(value, after.get(key), f"{where}/{key}")
        ]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = enumerate(zip(before, after, strict=True))
        return [place for n, (b, a) in pairs for place in lost(b, a, f"{where}/{n}")]
    return [] if before == after else [f"{where}: {before!r}, not {after!r}"]
