"""How a tool is reached and asked, whatever it is asked for."""

from collections.abc import Iterable
from typing import Any

from pydantic import Field, model_validator

from pipeline.settings import Section
from tools.calls import is_tool_name


def check_tool_names(names: Iterable[str]) -> None:
    """Raises ValueError for a name that cannot stand in a call."""
    for name in names:
        if not is_tool_name(name):
            raise ValueError(f"{name!r} is not a tool name: letters, digits and _ only")


class ServedTool(Section):
    """What answers the calls of one tool, and in how many processes."""

    factory: str | None = None  # "package.module:callable" of a tool of one's own
    options: dict[str, Any] = Field(default_factory=dict)  # keyword arguments of the tool
    actors: int = Field(default=0, ge=0)  # processes of its own; 0: inside the one that asks
    batch_size: int = Field(default=32, ge=1)  # requests it is given at once, at most
    timeout_s: float = Field(default=60.0, gt=0.0)  # for a batch; an actor that hangs is restarted
    retries: int = Field(default=2, ge=0)  # of what may mend itself, and of a process that dies
    num_gpus: float = Field(default=0.0, ge=0.0)  # for each actor
    num_cpus: float = Field(default=0.0, ge=0.0)  # for each actor

    @model_validator(mode="after")
    def _resources_are_for_actors(self) -> "ServedTool":
        if not self.actors and (self.num_gpus or self.num_cpus):
            raise ValueError("num_gpus and num_cpus are for actors; set actors to 1 or more")
        return self
