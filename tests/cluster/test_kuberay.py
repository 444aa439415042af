"""What `python -m cluster kuberay` writes: true to KubeRay's schema, and of use to a run."""

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster.config import KubeRay
from cluster.manifest import to_yaml
from tests.cluster.custom_resources import problems, type_of
from tests.cluster.in_process import Ended, cluster

ROOT = Path(__file__).parents[2]
CLUSTER = ROOT / "cluster" / "configs" / "a100-kuberay.yaml"
RUN = ROOT / "pipeline" / "configs" / "paper.yaml"

Render = Callable[..., Ended]


@pytest.fixture
def render(tmp_path: Path) -> Render:
    """`python -m cluster kuberay`, the example's cluster with changes of its keys."""

    def run(*options: str, run: Path = RUN, kuberay: Any = None, **changes: Any) -> Ended:
        settings = yaml.safe_load(CLUSTER.read_text(encoding="utf-8"))
        settings["kuberay"] |= kuberay or {}
        file = tmp_path / "cluster.yaml"
        file.write_text(yaml.safe_dump(settings | changes), encoding="utf-8")
        return cluster("kuberay", run, file, *options)

    return run


def documents(rendered: Ended) -> tuple[dict[str, Any], dict[str, Any]]:
    """The ConfigMap and the RayJob."""
    assert rendered.code == 0, rendered.err
    config_map, rayjob = yaml.safe_load_all(rendered.out)
    return config_map, rayjob


def pods(rayjob: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What pods of the head and of the nodes are made of."""
    spec = rayjob["spec"]["rayClusterSpec"]
    (group,) = spec["workerGroupSpecs"]
    return spec["headGroupSpec"]["template"]["spec"], group["template"]["spec"]


@pytest.mark.shared_data
def test_every_field_is_one_that_kuberay_knows(render: Render) -> None:
    _, rayjob = documents(
        render(
            setup=["source .venv/bin/activate"],
            kuberay={
                "secrets": ["bucket"],
                "service_account": "toolformer",
                "pull_secrets": ["registry"],
                "tolerations": [{"key": "a", "operator": "Equal", "value": "b"}],
            },
        )
    )
    assert problems(rayjob) == []
    # The schema would tell.
    head, _ = pods(rayjob)
    head["containers"][0]["enviroment"] = []
    rayjob["spec"]["backoffLimit"] = "2"
    told = problems(rayjob)
    assert len(told) == 2
    assert told[0].startswith("spec.backoffLimit: '2' is not of type 'integer'")
    assert "'enviroment' was unexpected" in told[1]


def test_each_node_gets_its_gpus_and_the_head_none(render: Render) -> None:
    _, rayjob = documents(render(nodes=3, gpus_per_node=5, cpus_per_node=30, memory_gib=200))
    spec = rayjob["spec"]["rayClusterSpec"]
    (group,) = spec["workerGroupSpecs"]
    assert (group["replicas"], group["minReplicas"], group["maxReplicas"]) == (3, 3, 3)
    head, node = pods(rayjob)
    wanted = {"cpu": 30, "memory": "200Gi", "nvidia.com/gpu": 5}
    assert node["containers"][0]["resources"] == {"requests": wanted, "limits": wanted}
    assert "nvidia.com/gpu" not in head["containers"][0]["resources"]["limits"]
    assert spec["headGroupSpec"]["rayStartParams"] == {"num-cpus": "0"}
    assert node["nodeSelector"] == {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}
    assert node["tolerations"] == [
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    ]


def test_all_pods_share_the_claims_and_have_memory_for_objects(render: Render) -> None:
    _, rayjob = documents(render())
    for pod in pods(rayjob):
        mounts = {each["mountPath"]: each["name"] for each in pod["containers"][0]["volumeMounts"]}
        volumes = {each["name"]: each for each in pod["volumes"]}
        assert volumes[mounts["/dev/shm"]]["emptyDir"]["medium"] == "Memory"
        for path, claim in (("/data", "toolformer-data"), ("/app/runs", "toolformer-runs")):
            assert volumes[mounts[path]]["persistentVolumeClaim"]["claimName"] == claim


def test_the_cluster_asks_for_a_token_and_the_file_has_none(
    render: Render, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text("0123456789abcdef" * 4)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("RAY_AUTH_TOKEN", "fedcba9876543210" * 4)
    rendered = render()
    _, rayjob = documents(rendered)
    assert rayjob["spec"]["rayClusterSpec"]["authOptions"] == {"mode": "token"}
    assert rayjob["spec"]["rayClusterSpec"]["headGroupSpec"]["serviceType"] == "ClusterIP"
    assert "0123456789abcdef" not in rendered.out
    assert "fedcba9876543210" not in rendered.out


def test_the_job_runs_the_steps_in_the_code_of_the_image_until_one_fails(
    render: Render, tmp_path: Path
) -> None:
    image, bin_ = tmp_path / "an image's code", tmp_path / "bin"
    (image / "runs").mkdir(parents=True)
    bin_.mkdir()
    python = bin_ / "python"
    python.write_text(
        '#!/bin/bash\nprintf "%s|" "$PWD" "$@" >> "$LOG"; echo >> "$LOG"; [ "$3" != "$FAIL" ]\n'
    )
    python.chmod(0o755)
    volumes = [{"claim": "runs", "path": str(image / "runs")}]
    config_map, rayjob = documents(render(kuberay={"directory": str(image), "volumes": volumes}))
    # KubeRay pastes the entrypoint into a line of bash, unquoted.
    entrypoint = rayjob["spec"]["entrypoint"]
    shell, script = shlex.split(entrypoint)
    assert shlex.join([shell, script]) == entrypoint
    head, _ = pods(rayjob)
    mount = next(
        each["mountPath"] for each in head["containers"][0]["volumeMounts"] if each["name"] == "run"
    )
    assert Path(script).parent == Path(mount)
    script_there = tmp_path / "run.sh"
    script_there.write_text(config_map["data"][Path(script).name])

    def lines(fail: str) -> tuple[list[str], int]:
        log = tmp_path / f"log-{fail}"
        environment = os.environ | {
            "PATH": f"{bin_}:{os.environ['PATH']}", "LOG": str(log), "FAIL": fail
        }  # fmt: skip
        ended = subprocess.run([shell, script_there], env=environment, timeout=60)
        return log.read_text().splitlines(), ended.returncode

    expected = [
        f"{image}|-m|pipeline|annotate|{mount}/run.yaml|--address|auto|--fixed-cluster|",
        f"{image}|-m|pipeline|build|runs/paper|",
        f"{image}|-m|pipeline|report|runs/paper|",
    ]
    assert lines(fail="none") == (expected, 0)
    assert lines(fail="build") == (expected[:2], 1)


def test_the_image_has_all_that_a_job_needs_of_this_repository() -> None:
    dockerfile = (ROOT / "cluster" / "Dockerfile").read_text(encoding="utf-8")
    copied = {line.split()[1] for line in dockerfile.splitlines() if line.startswith("COPY")}
    assert all((ROOT / each).exists() for each in copied)
    rooms = {f"{path.parent.name}/" for path in ROOT.glob("*/__init__.py")}
    assert copied == rooms | {"pyproject.toml", ".ci/constraints.txt"}
    assert f"WORKDIR {KubeRay.model_fields['directory'].default}\n" in dockerfile


@pytest.mark.shared_data
def test_what_the_readme_asks_of_a_job_is_in_its_status() -> None:
    readme = (ROOT / "cluster" / "README.md").read_text(encoding="utf-8")
    paths = re.findall(r"jsonpath='?{\.(status\S+)}", readme)
    assert len(paths) == 3
    for path in paths:
        assert type_of("RayJob", path) == "string"


def test_only_the_steps_asked_for_are_run_and_a_finetuning_brings_its_configuration(
    render: Render, tmp_path: Path
) -> None:
    finetune = tmp_path / "finetune.yaml"
    settings = {
        "run": "runs/paper", "out": "runs/finetuned", "development": {"input": "held-out"},
        "micro_batch_size": 4,  # of 128 on 32 GPUs
    }  # fmt: skip
    finetune.write_text(yaml.safe_dump(settings))
    asked = ("--steps", "build,finetune", "--finetune", str(finetune))
    config_map, _ = documents(render(*asked))
    build, training = config_map["data"]["run.sh"].splitlines()[1:]
    assert build.startswith("python -m pipeline build runs/paper ||")
    command, _ = training.split(" ||")
    assert command == (
        "python -m training finetune /etc/toolformer/finetune.yaml --address auto --fixed-cluster"
    )
    assert yaml.safe_load(config_map["data"]["finetune.yaml"]) == settings
    finetune.write_text(yaml.safe_dump(settings | {"out": "/tmp/finetuned"}))
    told = render(*asked)
    assert told.code == 1
    assert "out: /tmp/finetuned is on no volume of kuberay.volumes" in told.err


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl")
def test_kubernetes_reads_what_was_meant(render: Render, tmp_path: Path) -> None:
    # Its YAML takes some words for numbers or truth, and a text of many lines can lose some.
    words = {"A": "1e3", "B": "y", "C": "0o7", "D": "no", "E": "1_000", "F": "~", "G": "", "H": "x"}
    run = tmp_path / "run.yaml"
    text = "run: /data/run  \n\n\tinput: [\u00fc,\u2028 '---']\n---\n  last: no newline"
    run.write_text(RUN.read_text(encoding="utf-8"), encoding="utf-8")
    out = tmp_path / "job.yaml"
    told = render("--out", str(out), run=run, env=words)
    assert told.code == 0, told.err
    config_map, rayjob = yaml.safe_load_all(out.read_text(encoding="utf-8"))
    config_map["data"]["odd"] = text
    out.write_text(to_yaml([config_map, rayjob]), encoding="utf-8")
    read = subprocess.run(
        ["kubectl", "label", "--local", "-f", out, "checked=yes", "-o", "json"],
        capture_output=True, text=True, timeout=60, check=True,
    ).stdout  # fmt: skip
    decoder, theirs, at = json.JSONDecoder(), [], 0
    while at < len(read.rstrip()):
        document, at = decoder.raw_decode(read, at)
        theirs.append(document)
        at += 1
    for document in theirs:
        assert document["metadata"].pop("labels") == {"checked": "yes"}
    assert theirs == [config_map, rayjob]
    assert config_map["data"]["run.yaml"] == RUN.read_text(encoding="utf-8")
    env = pods(theirs[1])[1]["containers"][0]["env"]
    assert words.items() <= {each["name"]: each["value"] for each in env}.items()


def test_a_run_that_would_end_with_its_pod_is_refused(render: Render, tmp_path: Path) -> None:
    only_data = {"volumes": [{"claim": "data", "path": "/data"}]}
    refused = render(kuberay=only_data)
    assert refused.code == 1
    assert refused.out == ""
    assert refused.err.startswith("error: run: /app/runs/paper is on no volume")
    assert "kuberay.volumes" in refused.err and "(/data)" in refused.err
    assert len(refused.err.splitlines()) == 1
    read_only = {"volumes": [{"claim": "runs", "path": "/app/runs", "read_only": True}]}
    assert "(there is none)" in render(kuberay=read_only).err
    in_a_store = tmp_path / "run.yaml"
    in_a_store.write_text(
        RUN.read_text(encoding="utf-8").replace("run: runs/paper", "run: s3://bucket/paper")
    )
    config_map, _ = documents(render(run=in_a_store, kuberay=only_data))
    assert "build s3://bucket/paper " in config_map["data"]["run.sh"]


def test_a_run_that_would_wait_for_ever_for_gpus_is_refused(render: Render, tmp_path: Path) -> None:
    refused = render(nodes=1, gpus_per_node=8)
    assert (refused.code, refused.out) == (1, "")
    assert "12 GPUs are asked for and 8 are there (nodes: 1, gpus_per_node: 8)" in refused.err
    assert render("--steps", "build", nodes=1, gpus_per_node=0).code == 0
    split = yaml.safe_load(RUN.read_text(encoding="utf-8"))
    split["engine"] |= {"name": "vllm", "replicas": 2, "num_gpus": 4, "tensor_parallel_size": 4}
    run = tmp_path / "run.yaml"
    run.write_text(yaml.safe_dump(split), encoding="utf-8")
    refused = render(run=run, nodes=8, gpus_per_node=2)
    assert "4 GPUs of one node are asked for" in refused.err
    assert "12 GPUs" not in refused.err  # 8 and 4 of the tools are there


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"kuberay": {"volumes": [{"claim": "a", "path": "b"}]}}, "kuberay.volumes.0.path"),
        ({"kuberay": {"images": "a"}}, "kuberay.images"),
        ({"kuberay": {"tolerations": [{"key": "a", "operator": "Is"}]}}, "tolerations.0.operator"),
        ({"kuberay": {"retries": -1}}, "kuberay.retries"),
        ({"env": {"RAY_AUTH_TOKEN": "0123"}}, "env"),
        ({"env": {"A B": "0123"}}, "env.A B.[key]"),
        ({"name": "Big_Name"}, "name"),
        ({"nodes": 0}, "nodes"),
    ],
)
def test_a_wrong_value_is_one_line_that_names_its_key(
    render: Render, changes: dict[str, Any], told: str
) -> None:
    refused = render(**changes)
    assert refused.code == 1
    (line,) = refused.err.splitlines()
    assert line.startswith("error: ")
    assert f"{told}: " in line
