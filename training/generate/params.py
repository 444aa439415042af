"""How one text is generated. Defaults are the paper's (section 4.2): greedy, k = 10, one call."""

import datetime as dt

from pydantic import Field, field_validator

from pipeline.settings import Section
from pipeline.tool_config import check_tool_names

PAPER_API_TOP_K = 10
LOWEST_TEMPERATURE = 0.01  # vLLM draws at none below; greedy is 0


class GenerationParams(Section):
    """What a request may say.

    `max_new_tokens` counts tokens of plain text: what is written inside a call counts towards
    `max_call_tokens`, and results are bounded by the tools' configuration. A call starts where
    " [" is among the `api_top_k` most likely tokens; 0 disables calls: " [" has probability 0.
    So have the names of the tools in `without_tools`, where a call would name them.
    """

    max_new_tokens: int = Field(default=128, ge=1)
    temperature: float = Field(default=0.0, ge=0.0, le=2.0)  # 0, or at least 0.01
    top_p: float = Field(default=1.0, gt=0.0, le=1.0)
    seed: int = Field(default=0, ge=0, lt=2**63)
    stop: tuple[str, ...] = ()  # plain text ends before the first of these
    api_top_k: int = Field(default=PAPER_API_TOP_K, ge=0, lt=2**31)
    max_calls: int = Field(default=1, ge=0)
    max_call_tokens: int = Field(default=64, ge=1)
    without_tools: tuple[str, ...] = ()  # "we prevent [it] from using" them (4.2.1, 4.2.3)
    interactive_search: bool = False  # the same search again is answered with the next passage
    date: dt.date | None = None  # "today" for the Calendar; the day it is, in UTC, when not given

    @field_validator("temperature")
    @classmethod
    def _no_temperature_that_is_almost_greedy(cls, temperature: float) -> float:
        if 0.0 < temperature < LOWEST_TEMPERATURE:
            raise ValueError(f"expected 0, which is greedy, or at least {LOWEST_TEMPERATURE}")
        return temperature

    @field_validator("stop", mode="before")
    @classmethod
    def _one_stop_is_a_list(cls, value: object) -> object:
        return [value] if isinstance(value, str) else value

    @field_validator("stop")
    @classmethod
    def _no_empty_stop(cls, stop: tuple[str, ...]) -> tuple[str, ...]:
        if "" in stop:
            raise ValueError("an empty text stops everything")
        return stop

    @field_validator("without_tools")
    @classmethod
    def _tool_names_can_stand_in_a_call(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        check_tool_names(names)
        return names

    @property
    def disabled(self) -> bool:
        """Whether no call can start."""
        return self.api_top_k == 0 or self.max_calls == 0
