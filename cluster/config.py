"""The cluster configuration: which nodes a run gets, whoever provides them."""

from pathlib import Path
from typing import Annotated

from pydantic import Field, field_validator

from pipeline.settings import Section, read_settings


class Slurm(Section):
    """Options of `sbatch`; what is not given is left to the Slurm cluster."""

    partition: str | None = Field(default=None, pattern=r"^\S+$")
    account: str | None = Field(default=None, pattern=r"^\S+$")
    qos: str | None = Field(default=None, pattern=r"^\S+$")
    time: str | None = Field(default=None, pattern=r"^\S+$")  # as "1-12:00:00"
    constraint: str | None = Field(default=None, pattern=r"^\S+$")
    requeue: bool = True  # a job that loses a node or its place begins again, and the run goes on
    extra: tuple[Annotated[str, Field(pattern=r"^--\S.*$")], ...] = ()  # as --exclusive

    @field_validator("time", mode="before")
    @classmethod
    def _a_time_is_not_a_number(cls, time: object) -> object:
        if isinstance(time, int):
            raise ValueError(f'YAML makes {time} of it; write it in quotes, as "1-12:00:00"')
        return time


class ClusterConfig(Section):
    """Equal nodes with GPUs, and what is to be done on each before anything runs there."""

    name: str = Field(default="toolformer", pattern=r"^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$")
    nodes: int = Field(default=1, ge=1)
    gpus_per_node: int = Field(default=8, ge=0)
    cpus_per_node: int = Field(default=64, ge=1)
    memory_gib: int = Field(default=256, ge=4)  # of each node
    setup: tuple[str, ...] = ()  # shell lines on every node, as `source .venv/bin/activate`
    env: dict[str, str] = Field(default_factory=dict)  # for everything that runs; no secrets
    slurm: Slurm = Slurm()


def load_cluster_config(path: Path) -> ClusterConfig:
    """The cluster that the YAML file `path` describes.

    Raises:
        ConfigError: the file is missing or is not YAML, or a key is unknown or has a wrong type.
    """
    return read_settings(path, ClusterConfig, {})
