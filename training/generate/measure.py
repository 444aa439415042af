"""What tools change: calls and answers of a model where documents of the demo's world need them."""

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.table import Table

from pipeline.config import ModelConfig
from tools.atomic import write_text_atomically
from training.generate.config import GenerateConfig
from training.generate.events import Generation
from training.generate.generator import Generator, text_of
from training.generate.params import GenerationParams
from training.world.answers import Question

ALL = "all"
_SENTENCE_ENDS = (". ", "\n")
_MAX_NEW_TOKENS = 40  # the longest answer is a phrase of some 16 English words
_Z = 1.96  # of a normal distribution: 95 %


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """How many of the questions of one tool had any call, one of the right tool, the right call
    (tool and argument), and a right answer."""

    questions: int
    with_call: int
    right_tool: int
    right_call: int
    right_answer: int


Scores = Mapping[str, Score]  # by tool, and of all


def score(questions: Sequence[Question], texts: Sequence[Generation]) -> Scores:
    """What became of each question, counted; the first call of a text is the one that counts."""
    scores = {}
    for tool in (*dict.fromkeys(question.tool for question in questions), ALL):
        rows = [
            (question, text, [ended.started.call for ended in text.calls[:1]])
            for question, text in zip(questions, texts, strict=True)
            if tool in (question.tool, ALL)
        ]
        scores[tool] = Score(
            questions=len(rows),
            with_call=sum(bool(calls) for _, _, calls in rows),
            right_tool=sum(call.tool == asked.tool for asked, _, calls in rows for call in calls),
            right_call=sum(call in asked.calls for asked, _, calls in rows for call in calls),
            right_answer=sum(asked.is_answered(text.text) for asked, text, _ in rows),
        )
    return scores


async def go_on(
    generator: Generator, questions: Sequence[Question], *, disabled: bool
) -> list[Generation]:
    """How each question's document goes on to the end of its sentence, as the paper decodes.

    At most one call, started where " [" is among the 10 most likely tokens (section 4.2), or none.
    """
    params = GenerationParams(max_new_tokens=_MAX_NEW_TOKENS, stop=_SENTENCE_ENDS)
    if disabled:
        params = params.model_copy(update={"api_top_k": 0})
    asked = ((each.prompt, params.model_copy(update={"date": each.today})) for each in questions)
    async with aclosing(generator.generate_all(asked)) as outcomes:
        return [text_of(outcome) async for outcome in outcomes]


async def measure(
    config: GenerateConfig, questions: Sequence[Question], baselines: Sequence[str] = ()
) -> dict[str, Scores]:
    """Scores of the model with tools and with calls disabled, and of others with calls disabled.

    Raises:
        ToolformerError: a model or a tool cannot be loaded.
    """
    async with Generator(config) as generator:
        scores = {
            name: score(questions, await go_on(generator, questions, disabled=disabled))
            for name, disabled in (("with tools", False), ("disabled", True))
        }
    for path in baselines:
        model = ModelConfig(path=path, dtype=config.model.dtype)
        without = config.model_copy(update={"model": model, "tools": {}})
        async with Generator(without) as generator:
            texts = await go_on(generator, questions, disabled=True)
        scores[path] = score(questions, texts)
    return scores


def wilson(count: int, total: int) -> tuple[float, float]:
    """The interval that holds a share with 95 % confidence, when `count` of `total` were seen."""
    share, spread = count / total, _Z * _Z / total
    middle = share + spread / 2
    half = _Z * math.sqrt(share * (1 - share) / total + spread / total / 4)
    return (max(0.0, middle - half) / (1 + spread), min(1 + spread, middle + half) / (1 + spread))


def scores_table(scores: Mapping[str, Scores]) -> Table:
    """A row of shares for each tool and one for all, in %, then the intervals these lie in."""
    table = Table()
    table.add_column("%", no_wrap=True)
    for heading in ("asked", "any call", "right tool", "right call"):
        table.add_column(heading, justify="right")
    for name in scores:
        table.add_column(f"right answer, {name}", justify="right", overflow="fold")
    with_tools = next(iter(scores.values()))
    for tool, first in with_tools.items():
        counts = [first.with_call, first.right_tool, first.right_call]
        counts += [of[tool].right_answer for of in scores.values()]
        shares = [f"{100 * count / first.questions:.0f}" for count in counts]
        table.add_row(tool, str(first.questions), *shares)
        if tool == ALL:
            table.add_row("95 %", "", *(_interval(count, first.questions) for count in counts))
    return table


def _interval(count: int, total: int) -> str:
    low, high = wilson(count, total)
    return f"{100 * low:.0f}-{100 * high:.0f}"


def write_scores(out: Path, scores: Mapping[str, Scores], about: Mapping[str, object]) -> None:
    """Writes `about` and the counts as JSON, with the interval of each share of right answers.

    Raises:
        OutputError: the file cannot be written.
    """
    told = {
        name: {
            tool: asdict(each)
            | {"right_answer_interval": wilson(each.right_answer, each.questions)}
            for tool, each in of.items()
        }
        for name, of in scores.items()
    }
    text = json.dumps({**about, "scores": told}, indent=2, ensure_ascii=False) + "\n"
    write_text_atomically(out, text)
