"""`cluster slurm`: a batch script that makes a Ray cluster of a job's nodes and runs the steps."""

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import jinja2
import typer

from cluster.auth import TOKEN, TOKEN_PATH
from cluster.config import ClusterConfig, load_cluster_config
from cluster.demand import check_gpus
from cluster.job import DEFAULT_STEPS, Config, Finetune, Job, Steps, parse_steps
from cluster.nodes import (
    ADDRESS_FILE,
    HEAD_OPTIONS,
    METRICS_FILE,
    NODE_ENVIRONMENT,
    NODE_OPTIONS,
    START_LIMIT_S,
)
from pipeline.commandline import stderr, stdout
from tools.atomic import write_text_atomically
from tools.base import ConfigError, ToolformerError

_TEMPLATE = "slurm.sh.j2"
_NODE_END = Path(__file__).with_name("slurm_node_end.sh")


def slurm_command(
    config: Config,
    cluster: Annotated[
        Path, typer.Argument(help="A cluster configuration (YAML).", metavar="CLUSTER.yaml")
    ],
    out: Annotated[Path | None, typer.Option(help="Keep the script there.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the script alone.")] = False,
    steps: Steps = DEFAULT_STEPS,
    finetune: Finetune = None,
) -> None:
    """Submit a job to Slurm: its nodes become a Ray cluster, the steps run there."""
    settings, job = load_cluster_config(cluster), Job.of(config, parse_steps(steps), finetune)
    check_gpus(job, nodes=settings.nodes, gpus_per_node=settings.gpus_per_node)
    script = batch_script(job, settings, Path.cwd())
    if out is not None:
        write_text_atomically(out, script)
    if dry_run:
        typer.echo(script, nl=False)
        return
    job_id = _submit(script)
    for line in (
        f"job {job_id} is submitted",
        f"  its log:  {_log(settings, Path.cwd(), job_id)} (with the way to Ray's dashboard)",
        f"  waiting?  squeue --job {job_id}",
        f"  end it:   scancel {job_id}",
    ):
        stdout.print(line, markup=False, highlight=False, soft_wrap=True)


def batch_script(job: Job, cluster: ClusterConfig, directory: Path) -> str:
    """The text for `sbatch`: its options, a Ray cluster of all nodes, and the steps of the job.

    It runs in `directory`, which is where all nodes see the code, on a shared file system.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["quote"] = shlex.quote
    return environment.get_template(_TEMPLATE).render(
        cluster=cluster,
        slurm=cluster.slurm.model_dump(),
        log=shlex.quote(str(_log(cluster, Path(str(directory).replace("%", "%%")), "%j"))),
        directory=str(directory),
        python_directory=str(Path(sys.executable).parent),
        environment=NODE_ENVIRONMENT | cluster.env,
        node_options=shlex.join(NODE_OPTIONS),
        head_options=shlex.join(HEAD_OPTIONS),
        address_file=ADDRESS_FILE,
        metrics_file=METRICS_FILE,
        node_end=str(_NODE_END),
        limit_s=int(START_LIMIT_S),
        steps=job.shell_lines(fixed=True),
    )


def _log(cluster: ClusterConfig, directory: Path, job_id: str) -> Path:
    return directory / f"{cluster.name}-{job_id}.log"


def _submit(script: str) -> str:
    """The id of the job."""
    # Slurm writes a job's environment to files of its daemons.
    handed_on = {name: value for name, value in os.environ.items() if name != TOKEN}
    if TOKEN in os.environ:
        stderr.print(f"{TOKEN} is not handed on to Slurm; expected a file, as {TOKEN_PATH}")
    try:
        done = subprocess.run(
            ["sbatch", "--parsable"], input=script, capture_output=True, text=True, env=handed_on
        )
    except FileNotFoundError:
        raise ConfigError(
            "there is no sbatch on this machine; expected a node from which jobs are submitted. "
            "--dry-run prints the script"
        ) from None
    if done.returncode:
        said = " ".join(done.stderr.split())
        raise ToolformerError(f"Slurm does not take the job: {said or done.returncode}")
    return done.stdout.strip().partition(";")[0]
