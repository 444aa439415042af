"""Nodes of a Ray cluster that we start ourselves: their options, and waiting for them."""

import time
from typing import Annotated

import ray
import typer

from pipeline.commandline import stdout
from pipeline.ray_session import TASK_HISTORY, ray_session
from tools.base import ToolformerError

START_LIMIT_S = 600.0
_POLL_S = 0.5

# Whatever ports are free: several clusters, or several nodes of one, may share a machine.
NODE_OPTIONS = (
    "--block", "--min-worker-port=0", "--max-worker-port=0", "--dashboard-agent-listen-port=0",
)  # fmt: skip
# The file ADDRESS_FILE in the node's temporary directory says which port it became.
HEAD_OPTIONS = ("--head", "--port=0", "--dashboard-host=127.0.0.1", "--dashboard-port=0")
ADDRESS_FILE = "ray_current_cluster"
# Where Ray lists for Prometheus what nodes there are; a link of such a name beside a cluster's own
# directory leads there.
METRICS_FILE = "prom_metrics_service_discovery.json"
METRICS_LINKS = "tf-*.json"
NODE_ENVIRONMENT = {
    # What still runs when a node is told to end need not end well: units are committed whole.
    "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0",
    **TASK_HISTORY,
    "RAY_USAGE_STATS_ENABLED": "0",
}


def wait_command(
    address: Annotated[str, typer.Argument(help="A Ray cluster (host:port or auto).")] = "auto",
    nodes: Annotated[int, typer.Option(min=1, help="How many nodes.")] = 1,
    limit_s: Annotated[float, typer.Option(help="Give up after so many seconds.")] = START_LIMIT_S,
) -> None:
    """Wait until a Ray cluster has all its nodes, and say where its dashboard is."""
    with ray_session(address, dashboard=False, ship=False) as dashboard:
        _wait_for(nodes, limit_s)
    where = f"; dashboard: http://{dashboard}" if dashboard else ""
    stdout.print(f"Ray nodes: {nodes}{where}", markup=False, highlight=False)


def _wait_for(nodes: int, limit_s: float) -> None:
    deadline = time.monotonic() + limit_s
    while (there := _alive()) < nodes:
        if time.monotonic() > deadline:
            raise ToolformerError(f"{there} of {nodes} nodes were there after {limit_s:g} s")
        time.sleep(_POLL_S)


def _alive() -> int:
    known = ray.nodes()  # type: ignore[no-untyped-call]
    return sum(node["Alive"] for node in known)
