"""Which numbers stand in which table: those of the paper, for a terminal, Markdown and plots."""

from collections.abc import Iterable, Mapping, Sequence

from tools.base import ToolStatus
from training.benchmarks.mlqa import LANGUAGES
from training.benchmarks.statistics import Performance
from training.evaluate.answers import TextPerplexity
from training.evaluate.result_table import (
    ResultTable,
    Row,
    percent_cells,
    perplexity_cell,
    share_cell,
    with_best,
)
from training.evaluate.scores import Score
from training.evaluate.topics import Topic, largest_k

_MLQA, _IN_ENGLISH = "mlqa", "mlqa_in_english"
_NO_RESULT = (ToolStatus.FAILED, ToolStatus.TIMEOUT, ToolStatus.INVALID)


def score_table(topic: Topic, scores: Sequence[Score], is_local: Mapping[str, bool]) -> ResultTable:
    """A row for each model, by name: what it has right with the largest k it was decoded with."""
    shown = _of(topic, scores)
    if topic.slug == _MLQA:
        columns, rows = _by_language(shown, is_local)
    else:
        columns = tuple(topic.benchmarks.values())
        rows = {
            model: [_all(shown.get((model, name))) for name in topic.benchmarks]
            for model in is_local
        }
    measured = {name: parts for name, parts in rows.items() if any(parts)}
    return ResultTable(
        slug=topic.slug,
        title=f"{topic.title}: % right",
        of_rows="model",
        columns=columns,
        counts=tuple(map(_count, zip(*measured.values(), strict=True))),
        rows=with_best(
            [
                Row(
                    name=name,
                    cells=percent_cells(parts),
                    may_be_best=is_local.get(name, False),
                )
                for name, parts in measured.items()
            ],
            max,
        ),
        notes=tuple(_notes(topic, shown)),
    )


def calls_table(topic: Topic, scores: Sequence[Score], models: Iterable[str]) -> ResultTable | None:
    """How many inputs call each tool, in %; None where no model may call any."""
    shown = {pair: score for pair, score in _of(topic, scores).items() if score.api_top_k}
    if not shown:
        return None
    tools = sorted({tool for score in shown.values() for tool in score.tools})
    rows = [
        Row(
            name=f"{model}: {heading}",
            cells=(
                share_cell(score.share_with_call),
                *(share_cell(score.tools.get(tool, 0.0)) for tool in tools),
            ),
        )
        for model in models
        for name, heading in topic.benchmarks.items()
        if (score := shown.get((model, name)))
    ]
    return ResultTable(
        slug=f"calls-{topic.slug}",
        title=f"{topic.name}: % of inputs with a call",
        of_rows="model: benchmark",
        columns=("of any tool", *tools),
        rows=tuple(rows),
    )


def calibration_tables(topic: Topic, scores: Sequence[Score]) -> list[ResultTable]:
    """For each benchmark and model with calls that was decoded with several k: its Table 9."""
    by_k: dict[tuple[str, str], dict[int, Score]] = {}
    for score in scores:
        by_k.setdefault((score.benchmark, score.model), {})[score.api_top_k] = score
    several = [(*pair, found) for pair, found in by_k.items() if len(found) > 1]
    return [
        ResultTable(
            slug=f"calibration-{number}-{benchmark}",
            title=f"{topic.benchmarks[benchmark]}, {model}: % right by k, as Table 9",
            of_rows="k",
            columns=("All", "AC", "NC", "% with a call"),
            rows=tuple(
                Row(
                    name=str(k),
                    cells=(
                        *percent_cells([score.all, score.with_call, score.without_call]),
                        share_cell(score.share_with_call),
                    ),
                )
                for k, score in sorted(found.items())
            ),
            notes=("AC: examples with a call. NC: all others.",),
        )
        for number, (benchmark, model, found) in enumerate(several, start=1)
        if benchmark in topic.benchmarks
    ]


def perplexity_table(
    perplexities: Sequence[TextPerplexity], is_local: Mapping[str, bool]
) -> ResultTable | None:
    """A row for each model and a column for each corpus; None where nothing was measured.

    In a column with several tokenizers none is the best: their tokens are not the same.
    """
    if not perplexities:
        return None
    found = {(each.model, each.corpus): each for each in perplexities}
    corpora = list(dict.fromkeys(each.corpus for each in perplexities))
    models = [model for model in is_local if any((model, corpus) in found for corpus in corpora)]
    rows = [
        Row(
            name=model,
            cells=tuple(
                perplexity_cell(found[model, corpus]) if (model, corpus) in found else None
                for corpus in corpora
            ),
            may_be_best=is_local[model],
        )
        for model in models
    ]
    documents: dict[str, set[int]] = {corpus: set() for corpus in corpora}
    tokens: dict[str, set[int]] = {corpus: set() for corpus in corpora}
    for each in perplexities:
        documents[each.corpus].add(each.num_documents)
        tokens[each.corpus].add(each.num_tokens)
    unlike = [corpus for corpus in corpora if len(tokens[corpus]) > 1]
    return ResultTable(
        slug="perplexity",
        title="Perplexity without calls, as Table 8",
        of_rows="model",
        columns=tuple(corpora),
        counts=tuple(_range(documents[corpus]) for corpus in corpora),
        rows=with_best(rows, min, except_columns=[corpora.index(corpus) for corpus in unlike]),
        notes=tuple(
            f"The models have different numbers of tokens in {corpus}: "
            "perplexities per token cannot be compared."
            for corpus in unlike
        ),
    )


def _of(topic: Topic, scores: Sequence[Score]) -> dict[tuple[str, str], Score]:
    return largest_k([score for score in scores if score.benchmark in topic.benchmarks])


def _by_language(
    shown: Mapping[tuple[str, str], Score], models: Iterable[str]
) -> tuple[tuple[str, ...], dict[str, list[Performance | None]]]:
    """Columns and rows of Table 6; the rows that were asked in English are an upper bound.

    Languages may be benchmarks of their own.
    """
    found: dict[tuple[str, bool], dict[str, Performance]] = {}
    for (model, benchmark), score in shown.items():
        in_english = benchmark.startswith(_IN_ENGLISH)
        found.setdefault((model, in_english), {}).update(score.groups)
    languages = [each for each in LANGUAGES if any(each in groups for groups in found.values())]
    rows = {
        f"{model}{ending}": [groups.get(language) for language in languages]
        for in_english, ending in ((False, ""), (True, " (All En)"))
        for model in models
        if (groups := found.get((model, in_english)))
    }
    return tuple(map(str.capitalize, languages)), rows


def _notes(topic: Topic, shown: Mapping[tuple[str, str], Score]) -> Iterable[str]:
    calling: dict[int, list[str]] = {}
    for score in shown.values():
        if score.api_top_k and score.model not in calling.setdefault(score.api_top_k, []):
            calling[score.api_top_k].append(score.model)
    for k, models in sorted(calling.items()):
        yield f"With calls, k = {k}: {', '.join(models)}."
    failed = [
        f"{score.model} {score.errors:,} of {score.n:,} on {topic.benchmarks[score.benchmark]}"
        for score in shown.values()
        if score.errors
    ]
    if failed:
        yield f"Errors, counted as wrong: {', '.join(failed)}."
    ended = [
        f"{score.model} on {topic.benchmarks[score.benchmark]}, {told}"
        for score in shown.values()
        if (told := _without_result(score))
    ]
    if ended:
        yield f"Calls without a result: {'; '.join(ended)}."
    skipped = {
        topic.benchmarks[score.benchmark]: ", ".join(
            f"{number:,} ({reason})" for reason, number in score.skipped.items()
        )
        for score in shown.values()
        if score.skipped
    }
    if skipped:
        told = "; ".join(f"{heading} {reasons}" for heading, reasons in skipped.items())
        yield f"Left out of the files: {told}."


def _without_result(score: Score) -> str:
    """For each tool whose calls did not all end well: how many, and how."""
    return ", ".join(
        f"{tool} {', '.join(bad)} of {sum(by_status.values()):,}"
        for tool, by_status in score.calls.items()
        if (
            bad := [
                f"{by_status[status]:,} {status}" for status in _NO_RESULT if status in by_status
            ]
        )
    )


def _all(score: Score | None) -> Performance | None:
    return None if score is None else score.all


def _count(parts: Sequence[Performance | None]) -> str:
    return _range({part.n for part in parts if part})


def _range(counts: set[int]) -> str:
    low, high = min(counts), max(counts)
    return f"n = {low:,}" if low == high else f"n = {low:,}-{high:,}"
