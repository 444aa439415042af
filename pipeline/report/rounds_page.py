"""What the page and the terminal say of rounds: numbered from 1, the last one is the run itself."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pipeline.report.rounds import Round, Rounds, ToolRound

_KINDS = ("early", "before", "last")  # of bars: older rounds look alike


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundBar:
    """One round of a tool as a bar."""

    kind: str
    title: str
    value: str
    share: float  # of the longest bar of all tools, in percent


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundView:
    """A round as a row."""

    number: int
    run: str
    model: str
    counted: Round
    kept: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundsView:
    """The section of the page."""

    rounds: list[RoundView]
    tools: dict[str, list[tuple[int, ToolRound]]]  # with the number of the round
    kept: dict[str, list[RoundBar]]
    mean_gain: dict[str, list[RoundBar]]
    notes: list[str]


def view_of(rounds: Rounds) -> RoundsView:
    """The rounds by tool; the tools of the last round first."""
    tools = tools_of(rounds)
    return RoundsView(
        rounds=[
            RoundView(
                number=number,
                run=_short(counted.run),
                model=_short(counted.model),
                counted=counted,
                kept=sum(tool.kept for tool in counted.tools.values()),
            )
            for number, counted in enumerate(rounds.rounds, start=1)
        ],
        tools=tools,
        kept=_bars(tools, len(rounds.rounds), lambda tool: tool.kept, "{:,.0f}"),
        mean_gain=_bars(tools, len(rounds.rounds), lambda tool: tool.mean_gain, "{:.2f}"),
        notes=list(notes_of(rounds)),
    )


def tools_of(rounds: Rounds) -> dict[str, list[tuple[int, ToolRound]]]:
    """Each tool's rounds with their numbers; the tools of the last round first."""
    names = dict.fromkeys(name for counted in reversed(rounds.rounds) for name in counted.tools)
    return {
        name: [
            (number, counted.tools[name])
            for number, counted in enumerate(rounds.rounds, start=1)
            if name in counted.tools
        ]
        for name in names
    }


def notes_of(rounds: Rounds) -> Iterator[str]:
    """What one must know before one compares the numbers."""
    last = rounds.rounds[-1].tools.values()
    thresholds = {tool.tau_f for tool in last} | {float(at) for tool in last for at in tool.kept_at}
    for number, counted in enumerate(rounds.rounds, start=1):
        texts = counted.texts
        if texts is not None and (texts.new or texts.lost):
            yield (
                f"Rounds {number - 1} and {number} did not annotate the same texts: "
                f"{texts.same:,} are in both, {texts.lost:,} only in round {number - 1}, "
                f"{texts.new:,} only in round {number} (documents, and parts of long ones). "
                "Calls in these count as lost and as new."
            )
        if counted.units < counted.units_planned:
            yield (
                f"Round {number} is not finished: {counted.units:,} of "
                f"{counted.units_planned:,} units."
            )
        if counted.gains_from > min(thresholds, default=counted.gains_from):
            yield (
                f"Round {number} did not compute gains that are below {counted.gains_from:g}: at "
                "lower thresholds it has fewer calls than there may be."
            )


def lines_of(rounds: Rounds) -> Iterator[str]:
    """Which run and model each round is, then `notes_of`."""
    for number, counted in enumerate(rounds.rounds, start=1):
        yield f"round {number}: {counted.run}, model {counted.model}"
    yield from notes_of(rounds)


def _bars(
    tools: dict[str, list[tuple[int, ToolRound]]],
    num_rounds: int,
    value_of: Callable[[ToolRound], float | None],
    text: str,
) -> dict[str, list[RoundBar]]:
    values = {
        name: [(number, value_of(tool)) for number, tool in by_round]
        for name, by_round in tools.items()
    }
    longest = max((v for bars in values.values() for _, v in bars if v is not None), default=0.0)
    return {
        name: [
            RoundBar(
                kind=_KINDS[max(0, 2 - (num_rounds - number))],
                title=f"{name}, round {number}",
                value="\u2013" if value is None else text.format(value),
                share=round(100 * value / longest, 2) if value and longest else 0.0,
            )
            for number, value in bars
        ]
        for name, bars in values.items()
    }


def _short(place: str) -> str:
    return "/".join(Path(place).parts[-2:])
