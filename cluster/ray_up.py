"""Machines of AWS as a cluster of Ray's launcher: what `ray up` is given.

The head is small and starts machines with GPUs when a run asks for them. The token of the cluster
is the user's own, in ~/.ray/auth_token; the file names it and does not hold it.
"""

import shlex
from pathlib import Path
from typing import Any

from cluster.config import ClusterConfig, RayUp, load_cluster_config
from cluster.manifest import Cluster, Out, to_yaml, write
from cluster.nodes import NODE_ENVIRONMENT
from tools.base import ConfigError

# What the environment is made of. The code itself comes with each job: `ray up` would set up all
# machines anew whenever a file changes that it brought.
ENVIRONMENT_FILES = ("pyproject.toml", ".ci/constraints.txt")
TOKEN = "~/.ray/auth_token"

_CHECKOUT = Path(__file__).parents[1]
_DIRECTORY = "~/toolformer"
_UV = "~/.local/bin/uv"  # images bring another Python, or none that makes environments
_PYTHON = "3.11"


def ray_up_command(cluster_config: Cluster, out: Out = None) -> None:
    """Write machines of AWS as a cluster, for Ray's cluster launcher."""
    cluster = load_cluster_config(cluster_config)
    if cluster.ray_up is None:
        raise ConfigError(f"{cluster_config}: ray_up: this section is missing")
    write(
        to_yaml([launcher_config(cluster, cluster.ray_up, _CHECKOUT)]),
        out,
        "ray get-auth-token --generate > /dev/null   # where there is none",
        "ray up {out}",
        "ray dashboard {out}   # in another terminal: http://127.0.0.1:8265",
        "python -m cluster submit RUN.yaml --address http://127.0.0.1:8265",
        "ray down {out}",
    )


def launcher_config(cluster: ClusterConfig, ray_up: RayUp, checkout: Path) -> dict[str, Any]:
    """The cluster launcher's configuration for `cluster`, with the environment of `checkout`."""
    return {
        "cluster_name": cluster.name,
        "max_workers": cluster.nodes,
        "idle_timeout_minutes": ray_up.idle_minutes,
        "provider": _provider(ray_up),
        "auth": {"ssh_user": ray_up.ssh_user},
        "available_node_types": {
            "head": {
                "node_config": _machine(ray_up, ray_up.head_instance_type),
                "resources": {"CPU": 0},
                "min_workers": 0,
                "max_workers": 0,
            },
            "node": {
                "node_config": _machine(ray_up, ray_up.instance_type),
                "resources": {"CPU": cluster.cpus_per_node, "GPU": cluster.gpus_per_node},
                "min_workers": 0,
                "max_workers": cluster.nodes,
            },
        },
        "head_node_type": "head",
        "file_mounts": {
            TOKEN: TOKEN,
            **{f"{_DIRECTORY}/{name}": str(checkout / name) for name in ENVIRONMENT_FILES},
        },
        "setup_commands": _setup(ray_up),
        "head_setup_commands": [f"{_install()} boto3"],  # with which it starts machines
        "worker_setup_commands": [],
        "head_start_ray_commands": _start(
            cluster,
            "ray start --head --port=6379 --num-cpus=0 --dashboard-host=127.0.0.1"
            " --autoscaling-config=~/ray_bootstrap_config.yaml",
        ),
        "worker_start_ray_commands": _start(cluster, "ray start --address=$RAY_HEAD_IP:6379"),
    }


def _provider(ray_up: RayUp) -> dict[str, Any]:
    provider: dict[str, Any] = {"type": "aws", "region": ray_up.region}
    if ray_up.availability_zones:
        provider["availability_zone"] = ",".join(ray_up.availability_zones)
    # A stopped machine would keep its disk, and its token.
    return provider | {"cache_stopped_nodes": False}


def _machine(ray_up: RayUp, instance_type: str) -> dict[str, Any]:
    """A machine in the words of EC2's RunInstances."""
    machine: dict[str, Any] = {
        "InstanceType": instance_type,
        "ImageId": ray_up.image,
        "IamInstanceProfile": {"Name": ray_up.instance_profile},
        "BlockDeviceMappings": [
            {
                "DeviceName": "/dev/sda1",
                "Ebs": {"VolumeSize": ray_up.disk_gib, "VolumeType": "gp3", "Encrypted": True},
            }
        ],
        # Only with a session token: code that can be made to fetch an address gets no credentials.
        "MetadataOptions": {"HttpTokens": "required"},
    }
    if ray_up.security_groups:
        machine["SecurityGroupIds"] = list(ray_up.security_groups)
    return machine


def _setup(ray_up: RayUp) -> list[str]:
    """What a new machine needs, once."""
    extras = " ".join(f"--extra {shlex.quote(extra)}" for extra in ray_up.extras)
    lucene = [f"{_install()} --no-deps pyserini"] if "lucene" in ray_up.extras else []
    activate = f"source {_DIRECTORY}/.venv/bin/activate"
    return [
        f"chmod 600 {TOKEN}",
        f"test -x {_UV} || curl -LsSf https://astral.sh/uv/install.sh | sh",
        f"cd {_DIRECTORY} && (test -d .venv || {_UV} venv --python {_PYTHON} .venv)",
        f"{_install()} -r pyproject.toml {extras}".rstrip(),
        *lucene,
        # The launcher gives every command to a shell that reads this first.
        f"grep -qxF '{activate}' ~/.bashrc || echo '{activate}' >> ~/.bashrc",
    ]


def _install() -> str:
    return f"cd {_DIRECTORY} && {_UV} pip install --python .venv -c .ci/constraints.txt"


def _start(cluster: ClusterConfig, command: str) -> list[str]:
    """Ray started where what it starts, jobs among them, inherits the variables and the setup."""
    variables = {**NODE_ENVIRONMENT, **cluster.env, "RAY_AUTH_MODE": "token"}
    exports = [f"export {key}={shlex.quote(value)}" for key, value in variables.items()]
    lines = [f"cd {_DIRECTORY}", *exports, *cluster.setup, command]
    return ["ray stop", f"ulimit -n 65536; {' && '.join(lines)}"]
