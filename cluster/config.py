"""The cluster configuration: which nodes a run gets, whoever provides them."""

from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

from pydantic import Field, field_validator

from pipeline.settings import Section, read_settings

Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]  # as a shell takes it
Extra = Literal[
    "vllm", "s3", "gs", "lucene", "ctranslate2", "mcp", "finetune", "serve", "evaluate"
]  # of pyproject.toml


class Volume(Section):
    """A persistent volume claim that the pods of a run share."""

    claim: str
    path: PurePosixPath  # where every pod sees it
    read_only: bool = False

    @field_validator("path")
    @classmethod
    def _begins_at_the_root(cls, path: PurePosixPath) -> PurePosixPath:
        if not path.is_absolute():
            raise ValueError(f"{path} does not begin with /")
        return path


class Toleration(Section):
    """What lets pods on nodes that are kept for GPUs; Kubernetes' own words."""

    key: str
    operator: Literal["Exists", "Equal"] = "Exists"
    value: str | None = None  # for Equal
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None  # all of them


class KubeRay(Section):
    """Pods of the KubeRay operator, 1.6 or later: one for the head, one for each node."""

    image: str  # this repository and its environment, with `python` and `ray` on the PATH
    directory: PurePosixPath = PurePosixPath("/app")  # of this repository in the image
    volumes: tuple[Volume, ...] = ()
    secrets: tuple[str, ...] = ()  # Secrets whose keys become variables, as those of a store
    service_account: str | None = None  # of all pods, as one that may reach the run's bucket
    pull_secrets: tuple[str, ...] = ()  # Secrets by which the image is got
    node_selector: dict[str, str] = Field(default_factory=dict)  # of the nodes with GPUs
    tolerations: tuple[Toleration, ...] = ()  # likewise
    head_cpus: int = Field(default=4, ge=1)  # the driver and Ray's own services
    head_memory_gib: int = Field(default=16, ge=4)
    retries: int = Field(default=3, ge=0)  # a new cluster each time, which continues the run
    keep_s: int = Field(default=300, ge=0)  # of the cluster after the last step, to look around


class RayUp(Section):
    """EC2 machines that Ray's cluster launcher starts and ends; their memory is what they have."""

    region: str
    availability_zones: tuple[str, ...] = ()  # any of the region when empty
    image: str = Field(pattern=r"^ami-[0-9a-f]+$")  # Ubuntu 22.04 or later, NVIDIA's driver 580
    # Of all machines: the head starts and ends others with it (ec2:*, iam:PassRole), and all reach
    # the run's bucket. The profile that Ray makes by itself is the head's alone.
    instance_profile: str
    security_groups: tuple[str, ...] = ()  # ids; when empty Ray makes one that is open to SSH only
    instance_type: str = "p4d.24xlarge"
    head_instance_type: str = "m6i.2xlarge"
    ssh_user: str = "ubuntu"
    disk_gib: int = Field(default=300, ge=50)  # environment, model, logs
    idle_minutes: int = Field(default=10, ge=1)  # then a machine with GPUs is ended
    extras: tuple[Extra, ...] = ("vllm", "s3", "lucene")


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
    env: dict[Variable, str] = Field(default_factory=dict)  # for everything that runs; no secrets
    slurm: Slurm = Slurm()
    kuberay: KubeRay | None = None
    ray_up: RayUp | None = None

    @field_validator("env")
    @classmethod
    def _tokens_are_not_for_files(cls, env: dict[str, str]) -> dict[str, str]:
        for name in env:
            if name.startswith("RAY_AUTH_"):
                raise ValueError(f"{name} is not for this file; every launcher sees to the token")
        return env


def load_cluster_config(path: Path) -> ClusterConfig:
    """The cluster that the YAML file `path` describes.

    Raises:
        ConfigError: the file is missing or is not YAML, or a key is unknown or has a wrong type.
    """
    return read_settings(path, ClusterConfig, {})
