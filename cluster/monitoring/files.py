"""What Prometheus and Grafana are started with, as files in one directory."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from ray.dashboard.modules.metrics.grafana_dashboard_factory import (
    generate_data_grafana_dashboard,
    generate_default_grafana_dashboard,
)

from cluster.monitoring.dashboard import UID, dashboard
from tools.atomic import write_text_atomically

DATA_SOURCE = "Prometheus"
# Ray's own, under the identifiers that its dashboard page asks Grafana for.
_DEFAULT_UID, _DATA_UID = "rayDefaultDashboard", "rayDataDashboard"

# Whoever reaches Grafana's port may look, and nobody may change anything: there is no password
# that could be left as it is. Ray's page shows panels in frames.
_GRAFANA_INI = """\
[server]
http_addr = {host}
http_port = {port}

[paths]
data = {directory}/data
logs = {directory}/logs
plugins = {directory}/plugins
provisioning = {directory}/provisioning

[security]
allow_embedding = true
disable_initial_admin_creation = true

[auth]
disable_login_form = true

[auth.anonymous]
enabled = true
org_role = Viewer

[analytics]
reporting_enabled = false
check_for_updates = false
"""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{self}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Monitoring:
    """Prometheus and Grafana on the head node of Ray, which lists its nodes in files.

    The last part of a path of `node_lists` may be a pattern.
    """

    out: Path
    node_lists: Sequence[Path]
    prometheus: Address
    grafana: Address
    interval_s: int

    def write(self) -> None:
        """Write all files; those of an earlier call are replaced.

        Raises:
            OutputError: they cannot be written.
        """
        for name, content in self._files():
            write_text_atomically(self.out / name, content)

    def commands(self) -> list[list[str]]:
        """What starts Prometheus, and what Grafana."""
        out = self.out.absolute()
        return [
            [
                "prometheus",
                f"--config.file={out}/prometheus.yml",
                f"--storage.tsdb.path={out}/prometheus",
                f"--web.listen-address={self.prometheus}",
            ],
            [
                "grafana",
                "server",
                "--homepath=/usr/share/grafana",
                f"--config={out}/grafana/grafana.ini",
            ],
        ]

    def environment(self) -> dict[str, str]:
        """What the process that starts Ray needs, for Ray's dashboard to show the panels.

        The last makes the dashboard of this repository the one that Ray shows for Ray Data.
        """
        return {
            "RAY_PROMETHEUS_HOST": self.prometheus.url,
            "RAY_PROMETHEUS_NAME": DATA_SOURCE,
            "RAY_GRAFANA_HOST": self.grafana.url,
            "RAY_GRAFANA_DATA_DASHBOARD_UID": UID,
        }

    def _files(self) -> Iterator[tuple[str, str]]:
        directory = self.out.absolute() / "grafana"
        yield "prometheus.yml", _yaml(self._prometheus())
        # Ray ships the checkout to its nodes, without what git ignores: not the servers' data. Not
        # in `out` itself, which may be a directory with a .gitignore of its own.
        for server in ("prometheus", "grafana"):
            yield f"{server}/.gitignore", "*\n"
        yield (
            "grafana/grafana.ini",
            _GRAFANA_INI.format(
                host=self.grafana.host, port=self.grafana.port, directory=directory
            ),
        )
        yield "grafana/provisioning/datasources/prometheus.yml", _yaml(self._data_sources())
        yield "grafana/provisioning/dashboards/dashboards.yml", _yaml(_providers(directory))
        yield "grafana/dashboards/toolformer.json", json.dumps(dashboard(), indent=1)
        for name, generate, uid in (
            ("ray_core", generate_default_grafana_dashboard, _DEFAULT_UID),
            ("ray_data", generate_data_grafana_dashboard, _DATA_UID),
        ):
            yield f"grafana/dashboards/{name}.json", _of_ray(generate, uid)

    def _prometheus(self) -> dict[str, Any]:
        """Without `refresh_interval` Prometheus looks into a file when its path changes; but they
        are links, and what changes is the file elsewhere.
        """
        nodes = [str(path.absolute()) for path in self.node_lists]
        interval = f"{self.interval_s}s"
        return {
            "global": {"scrape_interval": interval, "evaluation_interval": interval},
            "scrape_configs": [
                {
                    "job_name": "ray",
                    "file_sd_configs": [{"files": nodes, "refresh_interval": interval}],
                }
            ],
        }

    def _data_sources(self) -> dict[str, Any]:
        return {
            "apiVersion": 1,
            "datasources": [
                {
                    "name": DATA_SOURCE,
                    "type": "prometheus",
                    "access": "proxy",
                    "url": self.prometheus.url,
                    "isDefault": True,
                    "jsonData": {"timeInterval": f"{self.interval_s}s"},
                }
            ],
        }


def _providers(directory: Path) -> dict[str, Any]:
    provider = {
        "name": "Ray",
        "folder": "Ray",
        "type": "file",
        "options": {"path": str(directory / "dashboards")},
    }
    return {"apiVersion": 1, "providers": [provider]}


def _of_ray(generate: Callable[[], tuple[str, str]], uid: str) -> str:
    """A dashboard of Ray's under `uid`, whatever `environment` says in this process."""
    content, _ = generate()
    return json.dumps(json.loads(content) | {"uid": uid}, indent=1)


def _yaml(content: dict[str, Any]) -> str:
    return yaml.safe_dump(content, sort_keys=False)
