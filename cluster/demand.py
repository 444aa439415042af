"""Whether a job fits a cluster that does not grow: told before anybody waits for it."""

from cluster.job import Job, Step
from pipeline.config import load_config
from pipeline.resources import missing_gpus
from tools.base import ConfigError


def check_gpus(job: Job, *, nodes: int, gpus_per_node: int) -> None:
    """Refuse a job whose engines and tools would wait for ever for GPUs.

    Raises:
        ConfigError: they ask for more than all nodes have, or for more at once than one has; or
            the batch of the finetuning cannot be divided among all GPUs.
    """
    training = job.finetuning()
    if training is not None and gpus_per_node:
        try:
            training.accumulation_steps(nodes * gpus_per_node)
        except ConfigError as error:
            raise ConfigError(f"{job.finetune}: {error}, one for each GPU") from None
    if Step.ANNOTATE not in job.steps:
        return
    problems = missing_gpus(load_config(job.config), [gpus_per_node] * nodes)
    if problems:
        raise ConfigError(
            f"{job.config}: {'; '.join(problems)} (nodes: {nodes}, gpus_per_node: {gpus_per_node})"
        )
