"""A finetuning on a Ray cluster: as `finetune` in the processes of a launcher."""

from typing import TYPE_CHECKING, cast

import ray
from rich.console import Console

from pipeline.ray_session import ray_session
from tools.base import ConfigError
from tools.places import absolute
from training.finetune.config import FinetuneConfig
from training.finetune.launch_ray import Workers, run_on_ray

if TYPE_CHECKING:
    from training.finetune.finetune import Outcome


def finetune_on_ray(
    config: FinetuneConfig,
    workers: Workers,
    *,
    address: str | None,
    fixed_cluster: bool,
    console: Console,
) -> "Outcome":
    """What `finetune` returns, on the Ray cluster at `address`.

    All nodes have to see the run, `config.out` and the development documents by the same names.
    Where a worker is lost all start again, from the newest whole checkpoint.

    Raises:
        ConfigError: there is no such cluster; or it is said to be fixed, and the workers do not
            fit it.
        ToolformerError: whatever `finetune` raises, or workers are lost again and again.
    """
    with ray_session(address, dashboard=False):
        there = ray.nodes()  # type: ignore[no-untyped-call]
        nodes = [node["Resources"] for node in there if node["Alive"]]
        workers = workers.on(nodes)
        room = workers.room(nodes)
        if workers.number is not None and room < workers.number:
            each = ", ".join(f"{much:g} {name}" for name, much in workers.resources().items())
            problem = f"{workers.number} workers of {each} are asked for, there is room for {room}"
            if fixed_cluster:
                raise ConfigError(f"{problem} on the cluster")
            console.print(f"waiting for nodes: {problem}", highlight=False, soft_wrap=True)
        config = _seen_from_everywhere(config)
        done = run_on_ray(_finetune, config, workers, directory=config.out, console=console)
    return cast("Outcome", done)


def _seen_from_everywhere(config: FinetuneConfig) -> FinetuneConfig:
    """The same with names that hold in the directory a worker is started in."""
    development = config.development.model_copy(
        update={"input": absolute(config.development.input)}
    )
    names = {"run": absolute(config.run), "out": config.out.resolve(), "development": development}
    return config.model_copy(update=names)


def _finetune(config: FinetuneConfig, console: Console | None) -> "Outcome":
    from training.finetune.finetune import finetune

    return finetune(config, console=console)
