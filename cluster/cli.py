"""The command line of the cluster room: python -m cluster."""

import typer

from cluster.monitoring.command import metrics_command
from pipeline.commandline import run_app

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Bring a run to a cluster, and watch it there.",
)


@app.callback()
def _keep_subcommands() -> None:
    """Until there is a second command Typer would make the first the only one."""


app.command("metrics")(metrics_command)


def main() -> None:
    run_app(app)
