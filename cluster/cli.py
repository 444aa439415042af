"""The command line of the cluster room: python -m cluster."""

import typer

from cluster.kuberay import kuberay_command
from cluster.local import local_command
from cluster.monitoring.command import metrics_command
from cluster.nodes import wait_command
from cluster.ray_up import ray_up_command
from cluster.slurm import slurm_command
from cluster.submit import submit_command
from pipeline.commandline import run_app

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Bring a run to a cluster, and watch it there.",
)

app.command("local")(local_command)
app.command("submit")(submit_command)
app.command("slurm")(slurm_command)
app.command("kuberay")(kuberay_command)
app.command("ray-up")(ray_up_command)
app.command("wait")(wait_command)
app.command("metrics")(metrics_command)


def main() -> None:
    run_app(app)
