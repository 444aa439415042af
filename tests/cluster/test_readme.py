"""Every command of cluster/README.md is run here, is run by another test, or cannot be here."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipeline.demo_runs import ROOT

# As they stand, one after the other, in a checkout of this repository.
HERE = (
    "python -m cluster slurm my.yaml cluster/configs/a100-slurm.yaml --dry-run",
    "python -m cluster kuberay my.yaml cluster/configs/a100-kuberay.yaml --out job.yaml",
    "ray get-auth-token --generate > /dev/null",
    "python -m cluster ray-up cluster/configs/a100-aws.yaml --out a100.yaml",
    "python -m cluster metrics --out monitoring",
    "(umask 077; python -c 'import secrets; print(secrets.token_hex(32))' > ~/.ray_token)",
    "export RAY_AUTH_TOKEN_PATH=~/.ray_token",
)
# By a test, with other files.
ELSEWHERE = {
    "python -m cluster local my.yaml --nodes 2": "test_local.py",
    "python -m cluster submit my.yaml --address http://127.0.0.1:8265": "test_submit.py",
    "python -m cluster slurm my.yaml cluster/configs/a100-slurm.yaml": "test_slurm.py",
    "ray up a100.yaml": "test_ray_up.py",
    "kubectl apply -f job.yaml": "test_kuberay.py",  # its schema, and that kubectl reads it
    "cluster=$(kubectl get rayjob toolformer": "test_kuberay.py",  # that there are such fields
    "service=$(kubectl get rayjob toolformer": "test_kuberay.py",
}
# For want of a registry, a Kubernetes cluster or an AWS account.
NOT_HERE = ("docker", "kubectl", "ray dashboard", "ray down")


def commands() -> list[str]:
    """The lines of the README's bash blocks, without comments."""
    text = (ROOT / "cluster" / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```bash\n(.*?)```", text, re.DOTALL)
    lines = [line.split("  #")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def test_every_command_is_accounted_for() -> None:
    unknown = [
        command
        for command in commands()
        if command not in HERE and not command.startswith((*ELSEWHERE, *NOT_HERE))
    ]
    assert unknown == [], "add them to one of the lists above"
    gone = [each for each in (*HERE, *ELSEWHERE) if not any(c.startswith(each) for c in commands())]
    assert gone == []
    for test in ELSEWHERE.values():
        assert (Path(__file__).parent / test).exists()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A place with this repository's files, and a run configuration."""
    place = tmp_path / "checkout"
    place.mkdir()
    for name in ("pyproject.toml", ".ci", "cluster", "pipeline", "tools", "training"):
        (place / name).symlink_to(ROOT / name)
    paper = (ROOT / "pipeline" / "configs" / "paper.yaml").read_text(encoding="utf-8")
    (place / "my.yaml").write_text(paper, encoding="utf-8")
    return place


def test_the_commands_that_need_no_cluster_do_what_they_say(checkout: Path) -> None:
    home = checkout.parent
    script = "\n".join(["set -e", *(each for each in commands() if each in HERE)])
    ended = subprocess.run(
        ["bash", "-c", f'{script}\necho "token: $(cat "$RAY_AUTH_TOKEN_PATH")"'],
        cwd=checkout,
        env={
            "HOME": str(home),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        },
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr
    assert "#SBATCH --gres=gpu:8" in ended.stdout
    assert re.search(r"^token: [0-9a-f]{64}$", ended.stdout, re.MULTILINE)
    assert "kind: RayJob" in (checkout / "job.yaml").read_text()
    assert "p4d.24xlarge" in (checkout / "a100.yaml").read_text()
    token = home / ".ray" / "auth_token"
    assert re.fullmatch(r"[0-9a-f]{64}", token.read_text())
    assert token.read_text() not in ended.stdout
    assert "kubectl apply -f job.yaml" in ended.stderr
    assert "ray up a100.yaml" in ended.stderr
