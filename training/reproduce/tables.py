"""The counterparts of the paper's tables, with the paper's own numbers beside them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipeline.report.calls import ShownCall
from tools.base import one_line
from training.benchmarks.statistics import Performance, performance
from training.evaluate.result_table import perplexity_cell
from training.evaluate.scores import Score
from training.reproduce.measured import DISABLED, SizeMeasured
from training.reproduce.paper import paper
from training.reproduce.plan import BASE, PLAIN, TOOLFORMER

ROWS = (BASE, PLAIN, DISABLED, TOOLFORMER)
PAPER_ROWS = ("GPT-J", "GPT-J + CC", DISABLED, TOOLFORMER)
NOT_MEASURED = "not measured"
# Which benchmark of the paper is nearest to each of ours.
COUNTERPARTS = {
    "world_facts": "lama_t_rex",
    "world_arithmetic": "asdiv",
    "world_questions": "web_questions",
    "world_translation": "mlqa_es",
    "world_dates": "dateset",
    "dateset": "dateset",
}
_TAU_F = ("0.5", "1.0", "2.0")
_CONTEXT = 60  # characters before a call


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Cells as they are written; the first column is text, the others numbers."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def examples_table(sizes: Sequence[SizeMeasured]) -> Table:
    """Table 2: documents of C* with a call of each tool, at each tau_f."""
    tools = sizes[0].built.examples_at
    rows = []
    for tool in tools:
        for tau_f in _TAU_F:
            counts = [size.built.examples_at[tool].get(tau_f) for size in sizes]
            theirs = paper().table_2.get(tool, {}).get(tau_f)
            rows.append((tool, tau_f, *(_count(count) for count in (*counts, theirs))))
    return Table(
        columns=("tool", "tau_f", *(size.name for size in sizes), "paper"), rows=tuple(rows)
    )


def tasks_table(size: SizeMeasured, *, seed: int) -> Table:
    """Tables 3 to 7: what each model has right, in % with the interval, on each benchmark."""
    scores = {
        (row, benchmark): size.score(row, benchmark, seed=seed)
        for row in ROWS
        for benchmark in size.benchmarks
    }
    ours = [
        (row, *(_interval(scores[row, benchmark].all) for benchmark in size.benchmarks))
        for row in ROWS
    ]
    shares = (scores[TOOLFORMER, benchmark].share_with_call for benchmark in size.benchmarks)
    counts = (scores[BASE, benchmark].n for benchmark in size.benchmarks)
    calls = ("inputs with a call, %", *map(_percent, shares))
    asked = ("questions", *map(str, counts))
    return Table(columns=(size.name, *size.benchmarks), rows=(*ours, calls, asked))


def counterparts_table(benchmarks: Sequence[str]) -> Table:
    """What the paper has for the task nearest to each of `benchmarks`."""
    nearest = [paper().tasks.get(COUNTERPARTS.get(benchmark, "")) for benchmark in benchmarks]
    rows = tuple(
        (row, *("" if task is None else f"{task.scores[number]:.1f}" for task in nearest))
        for number, row in enumerate(PAPER_ROWS)
    )
    named = ("" if task is None else f"{task.name} (Table {task.table})" for task in nearest)
    return Table(columns=("paper", *benchmarks), rows=(("nearest task", *named), *rows))


def samples_table(scores: Mapping[str, Mapping[str, Score]]) -> Table:
    """The paper's benchmarks: its numbers, and those of each of ROWS where there are files."""
    rows = []
    for slug, task in paper().tasks.items():
        measured = scores.get(slug)
        if measured is None:
            ours = (NOT_MEASURED, *("" for _ in ROWS))
        else:
            ours = (str(measured[BASE].n), *(_interval(measured[row].all) for row in ROWS))
        theirs = " / ".join(f"{each:.1f}" for each in task.scores)
        rows.append((f"{task.name} (Table {task.table})", theirs, *ours))
    return Table(columns=("benchmark", "paper, the four models", "n", *ROWS), rows=tuple(rows))


def perplexity_table(
    sizes: Sequence[SizeMeasured], wikitext: Mapping[str, float] | None, *, seed: int
) -> Table:
    """Table 8: perplexities with calls disabled; `wikitext` by model, of the largest."""
    rows = []
    for size in sizes:
        for model in (BASE, PLAIN, TOOLFORMER):
            found = [size.perplexity(model, corpus, seed=seed) for corpus in size.corpora]
            values = [perplexity_cell(each).text for each in found]
            known = wikitext if size is sizes[-1] else None
            values.append(f"{known[model]:.2f}" if known else NOT_MEASURED)
            rows.append((f"{size.name}: {found[0].model}", *values))
    theirs = paper().table_8
    for number, row in enumerate(PAPER_ROWS[:-1]):
        values = [f"{theirs['CCNet'][number]:.1f} (CCNet)", *("" for _ in sizes[0].corpora[1:])]
        rows.append((f"paper: {row}", *values, f"{theirs['WikiText'][number]:.1f}"))
    return Table(columns=("perplexity", *sizes[0].corpora, "WikiText"), rows=tuple(rows))


def decoding_table(size: SizeMeasured, benchmarks: Sequence[str], *, seed: int) -> Table:
    """Table 9: all, with a call (AC), without (NC), and the share with a call, for each k."""
    rows = []
    for benchmark in benchmarks:
        for k in size.ks:
            found = size.score(TOOLFORMER, benchmark, seed=seed, k=k)
            parts = (found.all, found.with_call, found.without_call)
            cells = ("-" if part is None else _interval(part) for part in parts)
            rows.append((benchmark, str(k), *cells, _percent(found.share_with_call)))
    for name, by_k in paper().table_9.items():
        for k, values in by_k.items():
            cells = ("-" if value is None else f"{value:.1f}" for value in values)
            rows.append((f"paper: {name}", str(k), *cells))
    return Table(columns=("", "k", "All", "AC", "NC", "with a call, %"), rows=tuple(rows))


def calls_table(calls: Sequence[ShownCall]) -> Table:
    """Table 10: calls by L- - L+, which of them were kept, and those of the paper."""
    ours = [
        (
            f"...{one_line_of(shown.before)[-_CONTEXT:]} **[{shown.call.tool}({shown.call.input})"
            f" -> {one_line_of(shown.result or '')}]** {one_line_of(shown.after)[:_CONTEXT]}...",
            f"{shown.worth:.2f}",
            "kept" if shown.kept else "dropped",
        )
        for shown in calls
    ]
    theirs = [(f"paper: {tool}", f"{gain:.2f}", "") for tool, gain in paper().table_10]
    return Table(columns=("call", "L- - L+", ""), rows=(*ours, *theirs))


def one_line_of(text: str) -> str:
    """`text` in one line of a table."""
    return one_line(ValueError(text)).replace("|", "\\|")


def over_all(size: SizeMeasured, row: str, benchmarks: Sequence[str], *, seed: int) -> Performance:
    """What a row has right of all examples of `benchmarks` together."""
    right = [each for benchmark in benchmarks for each in size.of(row, benchmark).right()]
    return performance(right, seed=seed)


def _count(count: int | None) -> str:
    return "" if count is None else f"{count:,}"


def _interval(part: Performance) -> str:
    return f"{100 * part.mean:.1f} ({100 * part.low:.0f}-{100 * part.high:.0f})"


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"
