"""A run as a RayJob of the KubeRay operator: what `kubectl apply` is given.

The operator makes a cluster for the job, token and all, ends it afterwards, and after a failure
tries again with a new one: the same commands, which continue the run.
"""

import importlib.metadata
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

from cluster.config import ClusterConfig, KubeRay, load_cluster_config
from cluster.demand import check_gpus
from cluster.job import DEFAULT_STEPS, Config, Finetune, Job, Steps, parse_steps
from cluster.manifest import Cluster, Out, to_yaml, write
from cluster.nodes import NODE_ENVIRONMENT
from tools.base import ConfigError
from tools.places import Place, is_remote

MOUNT = Path("/etc/toolformer")  # of the ConfigMap, in the head
RUN_CONFIG, FINETUNE_CONFIG, SCRIPT = "run.yaml", "finetune.yaml", "run.sh"


def kuberay_command(
    config: Config,
    cluster_config: Cluster,
    steps: Steps = DEFAULT_STEPS,
    finetune: Finetune = None,
    out: Out = None,
) -> None:
    """Write a run as a RayJob, for Kubernetes with the KubeRay operator."""
    cluster = load_cluster_config(cluster_config)
    if cluster.kuberay is None:
        raise ConfigError(f"{cluster_config}: kuberay: this section is missing")
    job = Job.of(config, parse_steps(steps), finetune)
    check_gpus(job, nodes=cluster.nodes, gpus_per_node=cluster.gpus_per_node)
    documents = rayjob(job, cluster, cluster.kuberay)
    write(
        to_yaml(documents),
        out,
        "kubectl apply -f {out}",
        f"kubectl wait rayjob/{cluster.name} --timeout=30m"
        " --for=jsonpath={.status.jobDeploymentStatus}=Running",
        f"kubectl logs --follow job/{cluster.name}",
        "kubectl delete -f {out}",
    )


def rayjob(job: Job, cluster: ClusterConfig, kuberay: KubeRay) -> list[dict[str, Any]]:
    """The ConfigMap and the RayJob that do `job`, which bring its configuration files along.

    Raises:
        ConfigError: what the run or the finetuning writes would be lost.
    """
    _check_that_it_is_kept("run", job.run, kuberay)
    files = {RUN_CONFIG: job.config}
    if job.finetune is not None and (training := job.finetuning()) is not None:
        _check_that_it_is_kept("out", training.out, kuberay)
        files[FINETUNE_CONFIG] = job.finetune
    texts = {name: path.read_text(encoding="utf-8") for name, path in files.items()}
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": cluster.name},
            "data": texts | {SCRIPT: _script(job, kuberay)},
        },
        {
            "apiVersion": "ray.io/v1",
            "kind": "RayJob",
            "metadata": {"name": cluster.name},
            "spec": {
                # KubeRay pastes this into a shell line of its own, where the && and ; of several
                # commands would be that line's. A path needs no quotes anywhere.
                "entrypoint": f"bash {MOUNT / SCRIPT}",
                "submissionMode": "K8sJobMode",  # `kubectl logs job/NAME` shows what it says
                "backoffLimit": kuberay.retries,
                "shutdownAfterJobFinishes": True,
                "ttlSecondsAfterFinished": kuberay.keep_s,
                "rayClusterSpec": _ray_cluster(cluster, kuberay),
            },
        },
    ]


def _check_that_it_is_kept(name: str, place: Place, kuberay: KubeRay) -> None:
    if is_remote(place):
        return
    path = kuberay.directory / place
    written = [volume.path for volume in kuberay.volumes if not volume.read_only]
    if not any(path.is_relative_to(each) for each in written):
        raise ConfigError(
            f"{name}: {path} is on no volume of kuberay.volumes that pods may write to "
            f"({', '.join(map(str, written)) or 'there is none'}); it would end with its pod"
        )


def _script(job: Job, kuberay: KubeRay) -> str:
    """The steps in bash, one after the other as long as all goes well."""
    directory = shlex.quote(str(kuberay.directory))
    finetune = None if job.finetune is None else MOUNT / FINETUNE_CONFIG
    in_the_pod = replace(job, config=MOUNT / RUN_CONFIG, finetune=finetune)
    return "\n".join([f"cd {directory} || exit", *in_the_pod.shell_lines(fixed=True), ""])


def _ray_cluster(cluster: ClusterConfig, kuberay: KubeRay) -> dict[str, Any]:
    head = _pod(
        cluster, kuberay, "ray-head", cpus=kuberay.head_cpus, memory_gib=kuberay.head_memory_gib
    )
    head["volumes"].append({"name": "run", "configMap": {"name": cluster.name}})
    head["containers"][0]["volumeMounts"].append({"name": "run", "mountPath": str(MOUNT)})
    node = _pod(
        cluster,
        kuberay,
        "ray-worker",
        cpus=cluster.cpus_per_node,
        memory_gib=cluster.memory_gib,
        gpus=cluster.gpus_per_node,
    )
    node["nodeSelector"] = kuberay.node_selector
    node["tolerations"] = [each.model_dump(exclude_none=True) for each in kuberay.tolerations]
    return {
        "rayVersion": importlib.metadata.version("ray"),
        "authOptions": {"mode": "token"},  # KubeRay makes one, in a Secret, and gives it to pods
        "headGroupSpec": {
            "serviceType": "ClusterIP",
            # The driver lives here, and should not share its memory with anything.
            "rayStartParams": {"num-cpus": "0"},
            "template": {"spec": head},
        },
        "workerGroupSpecs": [
            {
                "groupName": "nodes",
                "replicas": cluster.nodes,
                "minReplicas": cluster.nodes,
                "maxReplicas": cluster.nodes,
                "rayStartParams": {},  # CPUs, GPUs and memory are the container's limits
                "template": {"spec": node},
            }
        ],
    }


def _pod(
    cluster: ClusterConfig,
    kuberay: KubeRay,
    name: str,
    *,
    cpus: int,
    memory_gib: int,
    gpus: int = 0,
) -> dict[str, Any]:
    resources: dict[str, Any] = {"cpu": cpus, "memory": f"{memory_gib}Gi"}
    if gpus:
        resources["nvidia.com/gpu"] = gpus
    # Ray's objects; what is in it counts as the container's memory.
    shared = {"medium": "Memory", "sizeLimit": f"{memory_gib // 2}Gi"}
    volumes: list[dict[str, Any]] = [{"name": "shared-memory", "emptyDir": shared}]
    mounts: list[dict[str, Any]] = [{"name": "shared-memory", "mountPath": "/dev/shm"}]
    for number, volume in enumerate(kuberay.volumes):
        claim = {"claimName": volume.claim, "readOnly": volume.read_only}
        volumes.append({"name": f"volume-{number}", "persistentVolumeClaim": claim})
        mounts.append({"name": f"volume-{number}", "mountPath": str(volume.path)})
    variables = {**NODE_ENVIRONMENT, **cluster.env}
    container: dict[str, Any] = {
        "name": name,
        "image": kuberay.image,
        "workingDir": str(kuberay.directory),
        "env": [{"name": key, "value": value} for key, value in variables.items()],
        "envFrom": [{"secretRef": {"name": secret}} for secret in kuberay.secrets],
        # Equal, so that the pod is the last that a node under pressure would end.
        "resources": {"requests": resources, "limits": resources},
        "volumeMounts": mounts,
    }
    if cluster.setup:
        # KubeRay runs this in the shell that starts Ray, before it.
        container["args"] = [" && ".join(cluster.setup)]
    pod: dict[str, Any] = {"containers": [container], "volumes": volumes}
    if kuberay.service_account:
        pod["serviceAccountName"] = kuberay.service_account
    return pod | {"imagePullSecrets": [{"name": secret} for secret in kuberay.pull_secrets]}
