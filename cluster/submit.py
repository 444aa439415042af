"""`cluster submit`: a job for a Ray cluster that is there, over the port of its dashboard."""

import asyncio
import os
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, TypeVar
from urllib.parse import urlsplit

import aiohttp
import requests
import typer
from ray.exceptions import AuthenticationError
from ray.job_submission import JobDetails, JobStatus, JobSubmissionClient

from cluster.auth import known_token
from cluster.job import DEFAULT_STEPS, Config, Finetune, Job, Steps, parse_steps
from pipeline.commandline import stderr, stdout
from pipeline.config import load_config
from pipeline.ray_session import NOT_SHIPPED
from tools.base import ConfigError, ToolformerError, one_line
from tools.places import Place, is_remote

_ADDRESS, _OTHER_ADDRESS = "RAY_API_SERVER_ADDRESS", "RAY_ADDRESS"
_CONNECT_S = 10.0
_POLL_S = 0.5
_LOST_LIMIT_S = 300.0

T = TypeVar("T")


def submit_command(
    config: Config,
    address: Annotated[
        str, typer.Option(envvar=_ADDRESS, help="The cluster's dashboard.", metavar="URL")
    ] = "http://127.0.0.1:8265",
    steps: Steps = DEFAULT_STEPS,
    finetune: Finetune = None,
    follow: Annotated[bool, typer.Option(help="Show the log, and end as the job does.")] = True,
) -> None:
    """Give a job to a Ray cluster that is there already."""
    job = _on_the_cluster(Job.of(config, parse_steps(steps), finetune))
    url = address if "://" in address else f"http://{address}"
    client = _client(url)
    job_id = _asked(
        url,
        lambda: client.submit_job(
            entrypoint="\n".join(job.shell_lines(fixed=False)),
            runtime_env={"working_dir": str(Path.cwd()), "excludes": list(NOT_SHIPPED)},
        ),
    )
    _tell(f"job {job_id} is submitted; `ray job stop {job_id} --address {url}` ends it")
    if not follow:
        _tell(f"its log: ray job logs --follow {job_id} --address {url}")
        return
    code = _follow(client, job_id, url)
    if code:
        raise typer.Exit(code)


def _on_the_cluster(job: Job) -> Job:
    """The job as a node of the cluster sees it; says which paths all nodes have to see.

    Raises:
        ConfigError: what it writes would go into the copy of our code that the job has.
    """
    settings, training = load_config(job.config), job.finetuning()
    needed = [_kept(job.config, "run", job.run), *settings.input]
    configs = [job.config]
    if job.finetune is not None and training is not None:
        needed += [_kept(job.finetune, "out", training.out), training.development.input]
        configs.append(job.finetune)
    shared = [str(path) for path in needed if not is_remote(path) and path.is_absolute()]
    here = Path.cwd()
    shared += [str(path.resolve()) for path in configs if not path.resolve().is_relative_to(here)]
    if shared:
        stderr.print(f"all nodes have to see {', '.join(shared)} at this path", markup=False)
    config, *others = (
        path.resolve().relative_to(here) if path.resolve().is_relative_to(here) else path.resolve()
        for path in configs
    )
    return replace(job, config=config, finetune=others[0] if others else None)


def _kept(config: Path, name: str, path: Place) -> Place:
    if not is_remote(path) and not path.is_absolute():
        raise ConfigError(
            f"{config}: {name}: {path} is relative, and a job's directory is a copy that is "
            "thrown away; expected an absolute path that all nodes see, or a store as s3://"
        )
    return path


def _client(url: str) -> JobSubmissionClient:
    where = urlsplit(url)
    try:
        port = where.port or (443 if where.scheme == "https" else 80)
        # Ray itself waits for minutes where nothing answers.
        socket.create_connection((where.hostname or "", port), timeout=_CONNECT_S).close()
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"--address {url}: nothing answers there: {one_line(error)}; expected the dashboard of "
            "a Ray cluster, which a head node has at port 8265"
        ) from None
    for name in (_ADDRESS, _OTHER_ADDRESS):  # Ray would prefer them to what it is told
        os.environ.pop(name, None)
    token = known_token()
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return _asked(url, lambda: JobSubmissionClient(url, headers=headers))


def _asked(url: str, question: Callable[[], T]) -> T:
    """What the cluster answers; its refusals in our words."""
    try:
        return question()
    except AuthenticationError:
        token = "does not take this token" if known_token() else "asks for a token"
        raise ConfigError(
            f"--address {url}: the cluster {token}; expected its own in RAY_AUTH_TOKEN, in the "
            "file RAY_AUTH_TOKEN_PATH, or in ~/.ray/auth_token"
        ) from None
    except (requests.RequestException, ConnectionError, RuntimeError, ValueError) as error:
        raise ToolformerError(
            f"--address {url}: the cluster does not take the job: {one_line(error)}"
        ) from None


def _follow(client: JobSubmissionClient, job_id: str, url: str) -> int:
    """Show the log of a job until it ends; 0 if it succeeded, else the exit code of its step."""
    try:
        try:
            asyncio.run(_show(client, job_id))
        except (OSError, RuntimeError, aiohttp.ClientError) as error:
            _tell(f"the log breaks off: {one_line(error)}; waiting for the end of the job")
        info = end_of_job(client, job_id, url)
    except KeyboardInterrupt:
        _tell(f"\nthe job goes on; ray job logs --follow {job_id} --address {url}")
        raise typer.Exit(130) from None
    if info.status is JobStatus.SUCCEEDED:
        _tell(f"job {job_id} succeeded")
        return 0
    code = info.driver_exit_code or 1
    stderr.print(f"[bold red]error:[/] job {job_id}: {info.status.lower()}, exit code {code}")
    return int(code)


async def _show(client: JobSubmissionClient, job_id: str) -> None:
    async for lines in client.tail_job_logs(job_id):
        sys.stdout.write(lines)
        with suppress(BrokenPipeError):
            sys.stdout.flush()


def end_of_job(
    client: JobSubmissionClient, job_id: str, url: str, *, lost_limit_s: float = _LOST_LIMIT_S
) -> JobDetails:
    """What the cluster knows of a job that has ended; waits for it, also without a connection.

    Raises:
        ToolformerError: the cluster did not answer for `lost_limit_s` seconds.
    """
    answered = time.monotonic()
    while True:
        try:
            info = client.get_job_info(job_id)
        except (requests.RequestException, RuntimeError, AuthenticationError) as error:
            if time.monotonic() - answered > lost_limit_s:
                raise ToolformerError(
                    f"--address {url}: no answer for {lost_limit_s:g} s: {one_line(error)}; "
                    f"job {job_id} may go on: `ray job logs --follow {job_id} --address {url}`"
                ) from None
        else:
            if info.status.is_terminal():
                return info
            answered = time.monotonic()
        time.sleep(_POLL_S)


def _tell(text: str) -> None:
    stdout.print(text, markup=False, highlight=False, soft_wrap=True)
