"""`python -m cluster metrics`."""

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cluster.nodes import METRICS_FILE, METRICS_LINKS
from pipeline.commandline import stdout
from tools.base import ConfigError

if TYPE_CHECKING:
    from cluster.monitoring.files import Address

_OUT_HELP = "Directory for the configuration, and for the data of both servers."
_RAY_HELP = (
    "Where Ray's files are on its head node: its --temp-dir (default: /tmp/ray, and wherever those "
    "of `local` and `slurm` are)."
)
_ADDRESS_HELP = "HOST:PORT that {} listens on. It asks for no password."
_INTERVAL_HELP = "Seconds between two looks at a metric."


def metrics_command(
    out: Annotated[Path, typer.Option(help=_OUT_HELP)],
    ray_directory: Annotated[Path | None, typer.Option("--ray-dir", help=_RAY_HELP)] = None,
    prometheus: Annotated[
        str, typer.Option(help=_ADDRESS_HELP.format("Prometheus"))
    ] = "127.0.0.1:9090",
    grafana: Annotated[str, typer.Option(help=_ADDRESS_HELP.format("Grafana"))] = "127.0.0.1:3000",
    interval: Annotated[int, typer.Option(min=1, help=_INTERVAL_HELP)] = 10,
) -> None:
    """Write what Prometheus and Grafana need to show runs, and say how to start them."""
    from cluster.monitoring.files import Monitoring

    monitoring = Monitoring(
        out=out,
        node_lists=_node_lists(ray_directory),
        prometheus=_address("--prometheus", prometheus),
        grafana=_address("--grafana", grafana),
        interval_s=interval,
    )
    monitoring.write()
    start_prometheus, start_grafana = map(shlex.join, monitoring.commands())
    exports = " ".join(f"{name}={value}" for name, value in monitoring.environment().items())
    _tell(f"Written: {out}. On the head node of Ray, or on this machine for a run on it alone:")
    _tell(f"\n{start_prometheus}\n\n{start_grafana}\n")
    _tell(f"and, before `annotate` or `ray start --head`:\n\nexport {exports}")


def _node_lists(ray_directory: Path | None) -> list[Path]:
    """Of the Ray of that directory; else of Ray's usual one and of those our launchers start."""
    if ray_directory is not None:
        return [ray_directory / METRICS_FILE]
    place = Path(os.environ.get("RAY_TMPDIR", "/tmp"))
    return [place / "ray" / METRICS_FILE, place / METRICS_LINKS]


def _address(option: str, text: str) -> "Address":
    from cluster.monitoring.files import Address

    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise ConfigError(f"{option} {text}: not HOST:PORT, as 127.0.0.1:9090")
    return Address(host, int(port))


def _tell(text: str) -> None:
    stdout.print(text, markup=False, highlight=False, soft_wrap=True)
