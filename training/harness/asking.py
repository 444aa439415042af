"""What lm-evaluation-harness asks of a model, as this system generates."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from pipeline.settings import describe
from pipeline.tokens import TokenCodec
from tools.base import ConfigError
from training.generate.params import GenerationParams

# Other names of max_gen_toks that tasks use; the first that is there counts.
_MAX_NEW_TOKENS = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")
_CHANGES_NOTHING = {"num_beams": 1}

GenKwargs = Mapping[str, Any]


def decoding(
    defaults: GenerationParams, changes: Mapping[str, Any], where: str
) -> GenerationParams:
    """`defaults` with `changes`, of which `where` tells whose they are.

    Raises:
        ConfigError: an unknown key, or a value it cannot have.
    """
    try:
        return GenerationParams.model_validate(defaults.model_dump() | dict(changes))
    except ValidationError as error:
        raise ConfigError(f"{where}: {describe(error)}") from None


def params_of(gen_kwargs: GenKwargs, defaults: GenerationParams) -> GenerationParams:
    """How a request of a task wants its text; `defaults` where it says nothing.

    As in the harness's own models, `do_sample: false` is greedy whatever the temperature.

    Raises:
        ConfigError: it asks for what this system does not do.
    """
    asked = dict(gen_kwargs)
    changes: dict[str, Any] = {}
    lengths = [asked.pop(name) for name in _MAX_NEW_TOKENS if name in asked]
    if lengths:
        changes["max_new_tokens"] = lengths[0]
    if "until" in asked:
        until = asked.pop("until")
        changes["stop"] = [until] if isinstance(until, str) else until
    if asked.pop("do_sample", None) is False:
        asked["temperature"] = 0.0
    for name, value in _CHANGES_NOTHING.items():
        if asked.get(name) == value:
            del asked[name]
    return decoding(defaults, changes | asked, "generation_kwargs")


def seeded(asked: Sequence[tuple[str, GenerationParams]]) -> list[tuple[str, GenerationParams]]:
    """The same, with a seed of its own for each time that the same is asked (`repeats` of a task).

    Else all samples of a prompt would be one.
    """
    times: Counter[tuple[str, GenerationParams]] = Counter()
    varied = []
    for prompt, params in asked:
        before = times[prompt, params]
        times[prompt, params] += 1
        varied.append((prompt, params.model_copy(update={"seed": params.seed + before})))
    return varied


def shortened(prompt: str, codec: TokenCodec, at_most: int) -> str:
    """The end of `prompt` that has at most so many tokens; all of it where it is no longer.

    As in the harness's own models: what is nearest to the answer stays. Part of a character at
    the beginning is left out.

    Raises:
        NotLossless: the tokens do not spell the prompt.
    """
    ids = codec.beginning(prompt)
    if len(ids) <= at_most:
        return prompt
    kept = b"".join(codec.token_bytes(ids[len(ids) - at_most :])).decode("utf-8", errors="ignore")
    # It begins with a word now, and other tokens may stand for it: drop words until it fits.
    while len(codec.beginning(kept)) > at_most:
        kept = kept.lstrip()[1:]
    return kept
