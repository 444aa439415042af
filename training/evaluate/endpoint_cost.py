"""What hosted models will cost, told and agreed to before anything is sent."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from tools.base import ConfigError, ToolformerError
from training.evaluate.endpoint import EndpointConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Of prompts that are sent once; what is tried again may be counted again.

    `usd` is for as many tokens as there may be.
    """

    num_prompts: int
    prompt_tokens: int
    is_bound: bool  # of prompt_tokens, which are fewer
    max_new_tokens: int  # of all prompts together
    usd: float


def expected_cost(config: EndpointConfig, prompts: Sequence[str], max_new_tokens: int) -> Cost:
    """The cost of prompts with up to `max_new_tokens` new tokens each.

    Raises:
        ConfigError: the tokenizer the configuration names is not there.
    """
    prompt_tokens = _num_tokens(config.tokenizer, prompts)
    all_new_tokens = len(prompts) * max_new_tokens
    return Cost(
        num_prompts=len(prompts),
        prompt_tokens=prompt_tokens,
        is_bound=config.tokenizer is None,
        max_new_tokens=all_new_tokens,
        usd=(
            prompt_tokens * config.usd_per_million_prompt_tokens
            + all_new_tokens * config.usd_per_million_new_tokens
        )
        / 1e6,
    )


def cost_table(costs: Mapping[str, Cost]) -> Table:
    """A row for each cost, under the name of what it is of, and their sum."""
    table = Table(title="what endpoints will cost")
    table.add_column("")
    for heading in ("prompts", "prompt tokens", "new tokens, at most", "USD, at most"):
        table.add_column(heading, justify="right")
    for name, cost in costs.items():
        table.add_row(name, *_cells(cost))
    if len(costs) > 1:
        table.add_section()
        table.add_row("all", *_cells(_sum([*costs.values()])))
    if any(cost.is_bound for cost in costs.values()):
        table.caption = (
            "< a token has a byte at least; in English it has about four. `tokenizer` of an "
            "endpoint counts them."
        )
    return table


def agree_to_cost(costs: Mapping[str, Cost], console: Console, *, yes: bool) -> None:
    """Show what will be spent, and go on with `yes`, or if "yes" is typed.

    Raises:
        ConfigError: there is nobody to ask.
        ToolformerError: something else is typed.
    """
    console.print(cost_table(costs))
    if yes:
        return
    if not sys.stdin.isatty():
        raise ConfigError("endpoints cost money: --yes agrees to it where nobody can be asked")
    if console.input("Type yes to spend it: ").strip().lower() != "yes":
        raise ToolformerError("not started, and nothing was sent")


def _num_tokens(tokenizer: str | None, prompts: Sequence[str]) -> int:
    encoded = [prompt.encode("utf-8", "replace") for prompt in prompts]
    if tokenizer is None:
        return sum(map(len, encoded))
    from pipeline.engines.checkpoint import load_tokenizer
    from pipeline.token_bytes import plain_tokenizer

    backend = plain_tokenizer(load_tokenizer(tokenizer, None).backend)  # which cuts nothing off
    return sum(
        len(encoding.ids) for encoding in backend.encode_batch([text.decode() for text in encoded])
    )


def _sum(costs: Sequence[Cost]) -> Cost:
    return Cost(
        num_prompts=sum(cost.num_prompts for cost in costs),
        prompt_tokens=sum(cost.prompt_tokens for cost in costs),
        is_bound=any(cost.is_bound for cost in costs),
        max_new_tokens=sum(cost.max_new_tokens for cost in costs),
        usd=sum(cost.usd for cost in costs),
    )


def _cells(cost: Cost) -> tuple[str, str, str, str]:
    return (
        f"{cost.num_prompts:,}",
        f"{'<' if cost.is_bound else ''}{cost.prompt_tokens:,}",
        f"{cost.max_new_tokens:,}",
        f"{cost.usd:,.2f}" if cost.usd >= 1 else f"{cost.usd:.4f}",
    )
