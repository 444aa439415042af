"""Which engines run M, and on what: the sections `engine` and `engines` of a configuration."""

import re
from dataclasses import dataclass
from typing import Any, Literal, get_args

from pydantic import Field, field_validator, model_validator

from pipeline.settings import Section

Kind = Literal["position", "sample", "loss"]  # P, S and L
KINDS: tuple[Kind, ...] = get_args(Kind)

BUILT_IN = ("auto", "torch", "vllm")
_OWN = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
VLLM_CONCURRENCY = 4  # units at once; its scheduler mixes the requests of all of them


class EngineConfig(Section):
    """How M is run; a name alone is short for a section with that name.

    An engine of one's own is named "package.module:Class" (engines/own.py) and given `options`.
    `token_budget` bounds the tokens of one forward pass, padding included, but for a text that
    is longer alone. In vLLM it is max_num_batched_tokens; on a CPU that is at least the context.
    """

    name: str = "auto"
    options: dict[str, Any] = Field(default_factory=dict)  # of an engine of one's own
    replicas: int = Field(default=1, ge=1)
    num_gpus: int = Field(default=0, ge=0)  # for each replica
    num_threads: int = Field(default=1, ge=1)  # CPU threads of each replica
    token_budget: int = Field(default=8192, ge=64)
    kept_tokens: int = Field(default=32_768, ge=0)  # of P, kept for S; torch
    tensor_parallel_size: int = Field(default=1, ge=1)  # GPUs that share M; vLLM
    gpu_memory_utilization: float = Field(default=0.9, gt=0.0, le=1.0)  # vLLM
    max_num_seqs: int = Field(default=256, ge=1)  # vLLM

    @model_validator(mode="before")
    @classmethod
    def _a_name_is_a_section(cls, data: Any) -> Any:
        return {"name": data} if isinstance(data, str) else data

    @field_validator("name")
    @classmethod
    def _a_name_or_a_place(cls, name: str) -> str:
        if name not in BUILT_IN and not _OWN.fullmatch(name):
            raise ValueError(
                f"{name!r} is no engine: there are {', '.join(BUILT_IN)}, and one of your own is "
                "named package.module:Class"
            )
        return name

    @field_validator("num_gpus", mode="before")
    @classmethod
    def _no_part_of_a_gpu(cls, num_gpus: Any) -> Any:
        if isinstance(num_gpus, float) and not num_gpus.is_integer():
            raise ValueError(
                f"got {num_gpus:g}, expected a whole number: an engine fills the memory of its "
                "GPU, so two never share one"
            )
        return num_gpus

    @model_validator(mode="after")
    def _one_gpu_for_each_part_of_the_model(self) -> "EngineConfig":
        parts = self.tensor_parallel_size
        if self.options and not self.is_own:
            raise ValueError(f"engine {self.name} takes no options; got {', '.join(self.options)}")
        if parts > 1 and self.name == "torch":
            raise ValueError(f"engine torch: tensor_parallel_size {parts}, expected 1; vllm splits")
        if self.num_gpus not in (0, parts):
            raise ValueError(
                f"num_gpus {self.num_gpus} with tensor_parallel_size {parts}: a replica has as "
                "many GPUs as tensor_parallel_size says, or none (num_gpus 0) where that is 1"
            )
        return self

    @property
    def is_own(self) -> bool:
        """Whether it is a class of the user's, and none of ours."""
        return self.name not in BUILT_IN

    @property
    def gpus(self) -> int:
        """GPUs of each replica: where M is split, `num_gpus` may be left out."""
        return max(self.num_gpus, self.tensor_parallel_size if self.tensor_parallel_size > 1 else 0)

    @property
    def concurrency(self) -> int:
        """How many units a replica of the engine gains by working on at once."""
        return VLLM_CONCURRENCY if self.name == "vllm" else 1


class EnginesConfig(Section):
    """Engines of their own for some kinds of work; a kind not named has `engine`."""

    position: EngineConfig | None = None
    sample: EngineConfig | None = None
    loss: EngineConfig | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolPlan:
    """Replicas of one engine and what they are asked."""

    kinds: tuple[Kind, ...]
    engine: EngineConfig

    @property
    def name(self) -> str:
        return "+".join(self.kinds)

    @property
    def units_at_once(self) -> int:
        """Units each replica is at work on at once."""
        return self.engine.concurrency * (2 if self.asks_for_positions else 1)

    @property
    def units_in_flight(self) -> int:
        """Units a stage holds for all replicas: those they are at work on, and one that waits."""
        return self.engine.replicas * (self.units_at_once + 1)

    @property
    def asks_for_positions(self) -> bool:
        """Whether S runs here and P elsewhere: while a unit waits for P, another can be sampled."""
        return "sample" in self.kinds and "position" not in self.kinds


def plan_pools(engine: EngineConfig, engines: EnginesConfig) -> tuple[PoolPlan, ...]:
    """The pools, in order of their first kind; kinds with equal settings share one.

    A pool that does not both compute P and sample has nobody who would use what is kept of P.
    """
    by_engine: list[tuple[EngineConfig, list[Kind]]] = []
    for kind in KINDS:
        settings = getattr(engines, kind) or engine
        shared = next((kinds for other, kinds in by_engine if other == settings), None)
        if shared is None:
            by_engine.append((settings, [kind]))
        else:
            shared.append(kind)
    pools = []
    for settings, kinds in by_engine:
        if not {"position", "sample"} <= set(kinds):
            settings = settings.model_copy(update={"kept_tokens": 0})
        pools.append(PoolPlan(kinds=tuple(kinds), engine=settings))
    return tuple(pools)
