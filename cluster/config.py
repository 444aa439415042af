"""The cluster configuration: which nodes a run gets, whoever provides them."""

from pathlib import Path

from pydantic import Field

from pipeline.settings import Section, read_settings


class ClusterConfig(Section):
    """Equal nodes with GPUs, and what is to be done on each before anything runs there."""

    name: str = Field(default="toolformer", pattern=r"^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$")
    nodes: int = Field(default=1, ge=1)
    gpus_per_node: int = Field(default=8, ge=0)
    cpus_per_node: int = Field(default=64, ge=1)
    memory_gib: int = Field(default=256, ge=4)  # of each node
    setup: tuple[str, ...] = ()  # shell lines on every node, as `source .venv/bin/activate`
    env: dict[str, str] = Field(default_factory=dict)  # for everything that runs; no secrets


def load_cluster_config(path: Path) -> ClusterConfig:
    """The cluster that the YAML file `path` describes.

    Raises:
        ConfigError: the file is missing or is not YAML, or a key is unknown or has a wrong type.
    """
    return read_settings(path, ClusterConfig, {})
