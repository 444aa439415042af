from dataclasses import replace

import pytest
from rich.console import Console

from tests.training.evaluate.made_results import made_part, made_score
from training.benchmarks.world import WORLD_BENCHMARKS
from training.evaluate.answers import TextPerplexity
from training.evaluate.layout import (
    calibration_tables,
    calls_table,
    perplexity_table,
    score_table,
)
from training.evaluate.result_table import ResultTable
from training.evaluate.results import ModelFacts, Results, results_tables
from training.evaluate.scores import Score
from training.evaluate.tables import terminal_table
from training.evaluate.topics import topics_of

_LOCAL = {"GPT-J": True, "Toolformer": True, "Davinci": False}
_LAMA = [
    made_score("GPT-J", "lama_t_rex", 0.319),
    made_score("Toolformer", "lama_t_rex", 0.532, api_top_k=10, tools={"QA": 0.48, "MT": 0.02}),
    made_score("Davinci", "lama_t_rex", 0.6, errors=7),
    made_score("GPT-J", "lama_squad", 0.34),
    made_score("Toolformer", "lama_squad", 0.338, api_top_k=10, tools={"QA": 0.5}),
]


def shown(scores: list[Score], local: dict[str, bool] = _LOCAL) -> ResultTable:
    [topic] = topics_of(scores)
    return score_table(topic, scores, local)


def texts(table: ResultTable) -> dict[str, list[str | None]]:
    return {row.name: [cell.text if cell else None for cell in row.cells] for row in table.rows}


def best(table: ResultTable) -> list[tuple[str, str]]:
    return [
        (row.name, column)
        for row in table.rows
        for column, cell in zip(table.columns, row.cells, strict=True)
        if cell and cell.is_best
    ]


def perplexity(model: str, corpus: str, value: float, *, tokens: int = 900) -> TextPerplexity:
    return TextPerplexity(
        model=model,
        corpus=corpus,
        perplexity=value,
        low=value - 0.25,
        high=value + 0.25,
        num_documents=1200,
        num_tokens=tokens,
    )


def test_every_benchmark_has_its_place_in_the_order_of_the_paper() -> None:
    names = ["mine", "mlqa", "world_facts", "dateset", "asdiv", "trivia_qa", "lama_squad", "svamp"]
    topics = topics_of([made_score("A", name, 0.5) for name in names])
    assert [(topic.title, list(topic.benchmarks)) for topic in topics] == [
        ("LAMA, as Table 3", ["lama_squad"]),
        ("Math, as Table 4", ["asdiv", "svamp"]),
        ("Question answering, as Table 5", ["trivia_qa"]),
        ("MLQA, as Table 6", ["mlqa"]),
        ("Temporal, as Table 7", ["dateset"]),
        ("The invented world", ["world_facts"]),
        ("Other benchmarks", ["mine"]),
    ]


def test_the_benchmarks_of_the_world_are_one_table() -> None:
    table = shown([made_score("GPT-J", name, 0.5) for name in WORLD_BENCHMARKS])
    assert table.columns == ("arithmetic", "dates", "facts", "questions", "translation")


def test_a_cell_is_a_percentage_with_its_interval() -> None:
    table = shown(_LAMA)
    assert table.columns == ("SQuAD", "T-REx") and table.counts == ("n = 200", "n = 200")
    assert texts(table) == {
        "GPT-J": ["34.0 (29-39)", "31.9 (27-37)"],
        "Toolformer": ["33.8 (29-39)", "53.2 (48-58)"],
        "Davinci": [None, "60.0 (55-65)"],
    }


def test_the_best_is_one_of_the_models_that_run_here() -> None:
    assert best(shown(_LAMA)) == [("GPT-J", "SQuAD"), ("Toolformer", "T-REx")]
    assert best(shown(_LAMA, {**_LOCAL, "Davinci": True}))[-1] == ("Davinci", "T-REx")
    as_good = [*_LAMA[:2], made_score("Davinci", "lama_t_rex", 0.532)]
    assert best(shown(as_good)) == [("Toolformer", "T-REx")]


def test_where_all_are_the_same_none_is_the_best() -> None:
    assert best(shown(_LAMA[:1])) == []
    same = [made_score("GPT-J", "svamp", 0.0), made_score("Toolformer", "svamp", 0.0)]
    assert best(shown(same)) == []


def test_a_model_is_shown_with_its_largest_k() -> None:
    at = [made_score("Toolformer", "svamp", k / 100, api_top_k=k) for k in (3, 10, 0, 1)]
    assert texts(shown(at)) == {"Toolformer": ["10.0 (5-15)"]}
    assert shown(at).notes == ("With calls, k = 10: Toolformer.",)


def test_errors_and_different_numbers_of_examples_are_said() -> None:
    assert shown(_LAMA).notes[1:] == ("Errors, counted as wrong: Davinci 7 of 200 on T-REx.",)
    fewer = [*_LAMA[:2], made_score("Davinci", "lama_t_rex", 0.6, n=1500)]
    assert shown(fewer).counts == ("n = 200-1,500",)


def test_mlqa_is_by_language_and_its_english_is_an_upper_bound() -> None:
    groups = {"de": made_part(0.16, n=40), "es": made_part(0.15, n=50)}
    english = {"de": made_part(0.27, n=40), "es": made_part(0.24, n=49)}
    table = shown(
        [
            made_score("GPT-J", "mlqa_in_english", 0.25, groups=english),
            made_score("GPT-J", "mlqa", 0.155, groups=groups),
            made_score("Toolformer", "mlqa", 0.2, groups={"es": made_part(0.2, n=50)}),
        ]
    )
    assert table.columns == ("Es", "De") and table.counts == ("n = 49-50", "n = 40")
    assert texts(table) == {
        "GPT-J": ["15.0 (10-20)", "16.0 (11-21)"],
        "Toolformer": ["20.0 (15-25)", None],
        "GPT-J (All En)": ["24.0 (19-29)", "27.0 (22-32)"],
    }
    assert best(table) == [("Toolformer", "Es")]


def test_languages_of_mlqa_may_be_benchmarks_of_their_own() -> None:
    scores = [
        made_score("GPT-J", "mlqa_es", 0.15, groups={"es": made_part(0.15, n=50)}),
        made_score("GPT-J", "mlqa_de", 0.16, groups={"de": made_part(0.16, n=40)}),
        made_score("GPT-J", "mlqa_in_english_es", 0.24, groups={"es": made_part(0.24, n=49)}),
    ]
    table = shown(scores)
    assert table.title == "MLQA, as Table 6: % right"
    assert table.columns == ("Es", "De")
    assert texts(table) == {
        "GPT-J": ["15.0 (10-20)", "16.0 (11-21)"],
        "GPT-J (All En)": ["24.0 (19-29)", None],
    }


def test_calls_without_a_result_are_said() -> None:
    calls = {"QA": {"ok": 1200, "timeout": 5}, "MT": {"ok": 2, "empty": 1},
             "WikiSearch": {"failed": 2, "invalid": 1}}  # fmt: skip
    scores = [
        made_score("Toolformer", "svamp", 0.5, api_top_k=10, calls=calls),
        made_score("Toolformer", "asdiv", 0.5, api_top_k=10, calls={"QA": {"timeout": 3}}),
        made_score("GPT-J", "svamp", 0.5),
    ]
    assert shown(scores).notes[1:] == (
        "Calls without a result: "
        "Toolformer on SVAMP, QA 5 timeout of 1,205, WikiSearch 2 failed, 1 invalid of 3; "
        "Toolformer on ASDiv, QA 3 timeout of 3.",
    )


def test_what_is_left_out_of_a_benchmark_is_said_once() -> None:
    skipped = {"not a number": 1200, "two numbers": 3}
    scores = [made_score(model, "svamp", 0.5, skipped=skipped) for model in ("GPT-J", "Davinci")]
    assert shown([*scores, made_score("GPT-J", "asdiv", 0.5)]).notes == (
        "Left out of the files: SVAMP 1,200 (not a number), 3 (two numbers).",
    )


def test_calls_are_told_by_tool_where_there_may_be_any() -> None:
    [topic] = topics_of(_LAMA)
    table = calls_table(topic, _LAMA, _LOCAL)
    assert table and table.columns == ("of any tool", "MT", "QA")
    assert texts(table) == {
        "Toolformer: SQuAD": ["50.0", "0.0", "50.0"],
        "Toolformer: T-REx": ["50.0", "2.0", "48.0"],
    }
    assert calls_table(topic, _LAMA[:1], _LOCAL) is None


def test_several_k_are_a_table_like_table_9() -> None:
    disabled = made_score("Toolformer", "lama_t_rex", 0.349)
    some = replace(
        made_score("Toolformer", "lama_t_rex", 0.478, api_top_k=1),
        share_with_call=0.403,
        with_call=made_part(0.53),
        without_call=made_part(0.443),
    )
    [topic] = topics_of([some])
    [table] = calibration_tables(topic, [some, disabled, _LAMA[0]])
    assert [row.name for row in table.rows] == ["0", "1"]
    assert table.title == "T-REx, Toolformer: % right by k, as Table 9"
    assert table.columns == ("All", "AC", "NC", "% with a call")
    assert texts(table) == {
        "0": ["34.9 (30-40)", None, "34.9 (30-40)", "0.0"],
        "1": ["47.8 (43-53)", "53.0 (48-58)", "44.3 (39-49)", "40.3"],
    }
    assert calibration_tables(topic, _LAMA) == []


def test_the_lowest_perplexity_is_the_best() -> None:
    found = [
        perplexity("GPT-J", "WikiText", 9.9),
        perplexity("Toolformer", "WikiText", 10.25),
        perplexity("Toolformer", "CCNet", 10.5),
    ]
    table = perplexity_table(found, _LOCAL)
    assert table and table.counts == ("n = 1,200", "n = 1,200") and table.notes == ()
    assert texts(table) == {
        "GPT-J": ["9.90 (9.65-10.15)", None],
        "Toolformer": ["10.25 (10.00-10.50)", "10.50 (10.25-10.75)"],
    }
    assert best(table) == [("GPT-J", "WikiText")]
    assert perplexity_table([], _LOCAL) is None


def test_perplexities_per_different_tokens_are_not_compared() -> None:
    found = [
        perplexity("GPT-J", "WikiText", 9.9),
        perplexity("Toolformer", "WikiText", 8, tokens=1),
    ]
    table = perplexity_table(found, _LOCAL)
    assert table and best(table) == []
    [note] = table.notes
    assert note.startswith("The models have different numbers of tokens in WikiText")


def test_a_terminal_shows_every_table_and_the_best_in_bold() -> None:
    models = {name: ModelFacts(where="m", parameters=None, calls=True) for name in _LOCAL}
    results = Results(
        seed=0,
        models=models,
        scores=[*_LAMA, made_score("Toolformer", "lama_squad", 0.2)],
        perplexities=[perplexity("GPT-J", "WikiText", 9.9)],
    )
    tables = results_tables(results)
    assert [str(table.title) for table in tables] == [
        "LAMA, as Table 3: % right",
        "LAMA: % of inputs with a call",
        "SQuAD, Toolformer: % right by k, as Table 9",
        "Perplexity without calls, as Table 8",
    ]
    console = Console(width=100, force_terminal=True)
    with console.capture() as captured:
        console.print(tables[0])
    told = captured.get()
    assert "\x1b[1m34.0 (29-39)\x1b[0m" in told and "\x1b[1m33.8" not in told


@pytest.mark.parametrize("name", ["[bold]x[/bold]", "[/x]", "a [b] c"])
def test_a_terminal_shows_brackets_as_they_are(name: str) -> None:
    table = shown([made_score(name, "svamp", 0.5, errors=1)], {name: True})
    console = Console(width=100)
    with console.capture() as captured:
        console.print(terminal_table(replace(table, title=name)))
    assert captured.get().count(name) == 3


def test_names_stay_whole_beside_five_columns_in_a_narrow_terminal() -> None:
    name = "Toolformer (disabled)"
    table = shown([made_score(name, each, 0.5) for each in WORLD_BENCHMARKS], {name: True})
    console = Console(width=80)
    with console.capture() as captured:
        console.print(terminal_table(table))
    lines = captured.get().splitlines()
    [at] = [number for number, line in enumerate(lines) if line.lstrip().startswith(name)]
    assert lines[at].split()[2:] == ["50.0"] * 5
    assert lines[at + 1].split() == ["(45-55)"] * 5
