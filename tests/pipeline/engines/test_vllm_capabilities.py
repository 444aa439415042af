"""How P is asked for, and when there is no exact way."""

import pytest

from pipeline.engines.vllm_capabilities import Capabilities, PositionMethod
from tools.base import ConfigError

NEW = ("prompt_logprob_token_ids", "logprob_token_ids", "prompt_logprobs")


@pytest.mark.parametrize(
    ("fields", "v2", "floor", "method"),
    [
        (NEW, True, 0.0, PositionMethod.PROMPT_IDS),
        (NEW, True, 0.3, PositionMethod.PROMPT_IDS),
        (NEW, False, 0.05, PositionMethod.TOP),
        (NEW, False, 0.0499, PositionMethod.ONE_BY_ONE),
        (NEW, False, 0.0, PositionMethod.ONE_BY_ONE),
        (("prompt_logprobs",), True, 0.05, PositionMethod.TOP),
    ],
)
def test_the_cheapest_exact_way(
    fields: tuple[str, ...], v2: bool, floor: float, method: PositionMethod
) -> None:
    assert Capabilities.of(fields, v2_model_runner=v2).position_method(floor) is method


def test_small_thresholds_are_refused_where_only_the_likeliest_tokens_are_told() -> None:
    old = Capabilities.of(("prompt_logprobs",), v2_model_runner=True)
    with pytest.raises(ConfigError, match=r"tau_s: got 0, expected at least 0\.05"):
        old.position_method(0.0)
    assert "below 0.05: not possible" in str(old)
