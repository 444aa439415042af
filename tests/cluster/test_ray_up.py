"""What `python -m cluster ray-up` writes: Ray's own launcher takes it."""

import json
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import boto3  # type: ignore[import-untyped]
import pytest
import yaml

from cluster.config import Extra
from tests.cluster.commands import environment
from tests.cluster.in_process import cluster
from tests.object_store import Server

ROOT = Path(__file__).parents[2]
CLUSTER = ROOT / "cluster" / "configs" / "a100-aws.yaml"
TOKEN = "0123456789abcdef" * 4

# The server takes seconds to describe the thousand types of machines that EC2 has.
RAY_WITH_FEW_TYPES = """
import boto3
from ray.autoscaler._private.aws import node_provider
from ray.scripts.scripts import main

def described(region, credentials=None):
    types = ["m6i.2xlarge", "p4d.24xlarge"]
    return boto3.client("ec2", region).describe_instance_types(InstanceTypes=types)["InstanceTypes"]

node_provider.list_ec2_instances = described
node_provider.TAG_BATCH_DELAY = 0  # a second, for the tags of many machines at once
main()
"""


def rendered(tmp_path: Path, ray_up: Any = None, **changes: Any) -> dict[str, Any]:
    """What is written for the example's cluster with changes of its keys."""
    ended = cluster("ray-up", changed(tmp_path, ray_up, **changes))
    assert ended.code == 0, ended.err
    loaded: dict[str, Any] = yaml.safe_load(ended.out)
    return loaded


def changed(tmp_path: Path, ray_up: Any = None, **changes: Any) -> Path:
    settings = yaml.safe_load(CLUSTER.read_text(encoding="utf-8"))
    settings["ray_up"] |= ray_up or {}
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump(settings | changes), encoding="utf-8")
    return file


def test_ray_knows_every_key(tmp_path: Path) -> None:
    from ray.autoscaler._private.util import prepare_config, validate_config

    config = prepare_config(rendered(tmp_path, {"availability_zones": ["us-east-1a"]}))
    validate_config(config)
    config["available_node_types"]["node"]["min_worker"] = 1
    with pytest.raises(Exception, match="min_worker"):
        validate_config(config)


def test_machines_with_gpus_come_and_go_with_the_need_for_them(tmp_path: Path) -> None:
    config = rendered(tmp_path, {"idle_minutes": 7}, nodes=3)
    head, node = (config["available_node_types"][name] for name in ("head", "node"))
    assert node["resources"] == {"CPU": 96, "GPU": 8}
    assert node["node_config"]["InstanceType"] == "p4d.24xlarge"
    assert (node["min_workers"], node["max_workers"], config["max_workers"]) == (0, 3, 3)
    assert config["idle_timeout_minutes"] == 7
    assert head["resources"] == {"CPU": 0}  # no task runs where the driver is
    assert "--num-cpus=0" in config["head_start_ray_commands"][-1]


def test_extras_are_those_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    of_machines_with_gpus = project["optional-dependencies"].keys() - {"dev", "vllm-cpu"}
    assert set(get_args(Extra)) == of_machines_with_gpus


def test_security_groups_of_ones_own_are_those_of_all_machines(tmp_path: Path) -> None:
    config = rendered(tmp_path, {"security_groups": ["sg-1", "sg-2"]})
    for kind in config["available_node_types"].values():
        assert kind["node_config"]["SecurityGroupIds"] == ["sg-1", "sg-2"]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"ray_up": {"image": "ubuntu-22.04"}}, "ray_up.image"),
        ({"ray_up": {"idle_minutes": 0}}, "ray_up.idle_minutes"),
        ({"ray_up": {"zone": "us-east-1a"}}, "ray_up.zone"),
        ({"ray_up": {"extras": ["vllm", "lucen"]}}, "ray_up.extras.1"),
        ({"gpus_per_node": "many"}, "gpus_per_node"),
    ],
)
def test_a_wrong_value_is_one_line_that_names_its_key(
    tmp_path: Path, changes: dict[str, Any], told: str
) -> None:
    ended = cluster("ray-up", changed(tmp_path, **changes))
    assert ended.code == 1
    (line,) = ended.err.splitlines()
    assert line.startswith("error: ") and f"{told}: " in line


def test_a_cluster_without_the_section_is_refused() -> None:
    ended = cluster("ray-up", ROOT / "cluster" / "configs" / "a100-kuberay.yaml")
    assert (ended.code, ended.out) == (1, "")
    assert "a100-kuberay.yaml: ray_up: this section is missing" in ended.err


@pytest.fixture
def cloud(s3_server: Server) -> Iterator[dict[str, str]]:
    """What leads to a server that speaks EC2 and has the example's instance profile."""
    with pytest.MonkeyPatch.context() as patch:
        for key, value in s3_server.environment().items():
            patch.setenv(key, value)
        boto3.client("iam").create_instance_profile(InstanceProfileName="toolformer")
        yield s3_server.environment()


def executable(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/bash\n" + text)
    path.chmod(0o755)


def test_ray_up_makes_a_head_with_the_token_that_only_ssh_reaches(
    tmp_path: Path, cloud: dict[str, str]
) -> None:
    # The cloud starts machines that are none: ssh leads to a directory, rsync copies there, and
    # what is installed there writes down how it was called.
    home, machine, log = tmp_path / "home", tmp_path / "machine", tmp_path / "log"
    stubs = tmp_path / "bin"
    executable(
        stubs / "ssh",
        'while [[ "$1" != *@* ]]; do shift; done; shift\n'
        f'export HOME={machine} PATH=/usr/bin:/bin; cd; exec bash -c "$*" < /dev/null\n',
    )
    executable(
        stubs / "rsync",
        f'to="${{@: -1}}"; to="${{to#*:}}"; cp -rp "${{@: -2:1}}" "${{to/#\\~/{machine}}}"\n',
    )
    executable(
        machine / ".local" / "bin" / "uv",
        f'echo "uv $*" >> {log}\n'
        'if [ "$1" = venv ]; then mkdir -p .venv/bin\n'
        f'cp {tmp_path}/ray .venv/bin; echo "PATH=$PWD/.venv/bin:$PATH" > .venv/bin/activate; fi\n',
    )
    executable(tmp_path / "ray", f'echo "$PWD $RAY_AUTH_MODE $LETTERS: ray $*" >> {log}\n')
    (machine / ".bashrc").touch()
    (home / ".ray").mkdir(parents=True)
    (home / ".ray" / "auth_token").write_text(TOKEN)
    launcher = tmp_path / "a100.yaml"
    told = cluster(
        "ray-up",
        changed(tmp_path, env={"LETTERS": "a b"}, setup=[f"echo set up >> {log}"]),
        "--out",
        launcher,
    )
    assert TOKEN not in launcher.read_text()
    (command,) = (line.strip() for line in told.err.splitlines() if line.startswith("  ray up"))
    up = subprocess.run(
        [
            *(sys.executable, "-c", RAY_WITH_FEW_TYPES),
            *(*shlex.split(command)[1:], "--yes", "--no-config-cache"),
        ],
        env=environment() | cloud | {
            "HOME": str(home), "TMPDIR": str(tmp_path), "PATH": f"{stubs}:/usr/bin:/bin",
        },
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=300,
    )  # fmt: skip
    assert up.returncode == 0, up.stdout

    install = "uv pip install --python .venv -c .ci/constraints.txt"
    there = machine / "toolformer"
    assert log.read_text().splitlines() == [
        "uv venv --python 3.11 .venv",
        f"{install} -r pyproject.toml --extra vllm --extra s3 --extra lucene",
        f"{install} --no-deps pyserini",
        f"{install} boto3",
        f"{machine}  : ray stop",
        "set up",
        f"{there} token a b: ray start --head --port=6379 --num-cpus=0 --dashboard-host=127.0.0.1 "
        "--autoscaling-config=~/ray_bootstrap_config.yaml",
    ]
    for name in ("pyproject.toml", ".ci/constraints.txt"):
        assert (there / name).read_bytes() == (ROOT / name).read_bytes()
    token = machine / ".ray" / "auth_token"
    assert (token.read_text(), token.stat().st_mode & 0o777) == (TOKEN, 0o600)
    # What the head starts machines by hands the token on by its path as well.
    bootstrap = json.loads((machine / "ray_bootstrap_config.yaml").read_text())
    assert bootstrap["file_mounts"]["~/.ray/auth_token"] == "~/.ray/auth_token"
    assert bootstrap["available_node_types"]["node"]["resources"]["accelerator_type:A100"] == 1
    check_the_machines()
    # A machine with GPUs is set up by the same commands, and then joins.
    log.unlink()
    config = yaml.safe_load(launcher.read_text())
    joins = " && ".join(["source ~/.bashrc", config["worker_start_ray_commands"][-1]])
    subprocess.run(
        ["bash", "-c", joins],
        env={"HOME": str(machine), "PATH": "/usr/bin:/bin", "RAY_HEAD_IP": "10.0.0.1"},
        check=True,
        timeout=60,
    )
    assert log.read_text().splitlines() == [
        "set up",
        f"{there} token a b: ray start --address=10.0.0.1:6379",
    ]


def check_the_machines() -> None:
    """The head alone runs, and lets in its own kind and SSH."""
    ec2 = boto3.client("ec2")
    (started,) = ec2.describe_instances()["Reservations"]
    (head,) = started["Instances"]
    assert head["InstanceType"] == "m6i.2xlarge"
    assert head["IamInstanceProfile"]["Arn"].endswith("/toolformer")
    assert head["MetadataOptions"]["HttpTokens"] == "required"
    (group,) = head["SecurityGroups"]
    found = ec2.describe_security_groups(GroupIds=[group["GroupId"]])["SecurityGroups"][0]
    assert {
        (rule.get("FromPort"), *(pair["GroupId"] for pair in rule["UserIdGroupPairs"]))
        for rule in found["IpPermissions"]
    } == {(None, group["GroupId"]), (22,)}
