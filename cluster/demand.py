"""Whether a run fits a cluster that does not grow: told before anybody waits for it."""

from cluster.config import ClusterConfig
from cluster.job import Job, Step
from pipeline.config import load_config
from pipeline.resources import without_a_node
from tools.base import ConfigError


def check_gpus(job: Job, cluster: ClusterConfig) -> None:
    """Refuse a job whose engines and tools would wait for ever for GPUs.

    Raises:
        ConfigError: they ask for more than all nodes have, or for more at once than one has.
    """
    if Step.ANNOTATE not in job.steps:
        return
    run = load_config(job.config)
    asked: float = sum(pool.engine.replicas * pool.engine.gpus for pool in run.pools)
    asked += sum(tool.actors * tool.num_gpus for tool in run.tools.values())
    there = cluster.nodes * cluster.gpus_per_node
    problems = without_a_node(run.pools, [cluster.gpus_per_node] * cluster.nodes)
    if asked > there:
        problems.insert(0, f"{asked:g} GPUs are asked for and {there} are there")
    if problems:
        raise ConfigError(
            f"{job.config}: {'; '.join(problems)} (nodes: {cluster.nodes}, gpus_per_node: "
            f"{cluster.gpus_per_node})"
        )
