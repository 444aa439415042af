"""The paper's numbers as typed in, against the text of the paper."""

import re
from pathlib import Path

import pytest

from training.evaluate.registry import GENERATED, PUBLISHED
from training.reproduce.paper import paper
from training.reproduce.tables import COUNTERPARTS, PAPER_ROWS

TEXTS = Path(__file__).resolve().parents[4] / "shared" / "paper"
TABLES = {
    3: ("lama_squad", "lama_google_re", "lama_t_rex"),
    4: ("asdiv", "svamp", "mawps"),
    5: ("web_questions", "natural_questions", "trivia_qa"),
    6: ("mlqa_es", "mlqa_de", "mlqa_hi", "mlqa_vi", "mlqa_zh", "mlqa_ar"),
    7: ("templama", "dateset"),
}


@pytest.fixture(scope="module")
def text() -> str:
    """The first version, which prints its numbers with zeros before them."""
    found = sorted(TEXTS.glob("000_*.txt"))
    if not found:
        pytest.skip("needs shared/paper beside the checkout")
    return found[0].read_text()


def rows(text: str, table: int, num_columns: int) -> list[tuple[str, list[float]]]:
    """The lines of numbers above the caption of a table, down to the last other table."""
    above = text.split(f"\nTable {table}: ")[0]
    above = above[max(above.rfind("\nTable "), 0) :]
    line = re.compile(rf"^(.+?)((?: [0-9][0-9.,]*){{{num_columns}}})$", re.MULTILINE)
    return [
        (found[1], [float(number.replace(",", "")) for number in found[2].split()])
        for found in line.finditer(above)
    ]


@pytest.mark.shared_data
@pytest.mark.parametrize("table", TABLES)
def test_scores_of_the_tasks_are_those_that_are_printed(text: str, table: int) -> None:
    printed = dict(rows(text, table, len(TABLES[table])))
    for number, row in enumerate(PAPER_ROWS):
        assert [paper().tasks[task].scores[number] for task in TABLES[table]] == printed[row]
    assert {paper().tasks[task].table for task in TABLES[table]} == {table}


@pytest.mark.shared_data
def test_examples_and_perplexities_are_those_that_are_printed(text: str) -> None:
    printed = dict(rows(text, 2, 3))
    names = {
        "QA": "Question Answering",
        "WikiSearch": "Wikipedia Search",
        "Calculator": "Calculator",
        "Calendar": "Calendar",
        "MT": "Machine Translation",
    }
    for tool, counts in paper().table_2.items():
        assert list(counts) == ["0.5", "1.0", "2.0"]
        assert printed[names[tool]] == list(counts.values())
    perplexities = dict(rows(text, 8, 2))
    for number, row in enumerate(PAPER_ROWS[:3]):
        assert [paper().table_8[corpus][number] for corpus in ("WikiText", "CCNet")] == (
            perplexities[row]
        )


@pytest.mark.shared_data
def test_rows_of_k_are_those_that_are_printed(text: str) -> None:
    """Where there is no example it prints 0; of WebQS the last column lost a space."""
    above = text.split("\nTable 9: ")[0]
    for k in (0, 1, 3, 10):
        (line,) = re.findall(rf"^{k} ((?:[0-9.]+ ?){{8}})$", above, re.MULTILINE)
        printed = [float(number) for number in line.split()]
        by_hand = [*paper().table_9["T-REx"][k], *paper().table_9["WebQS"][k]]
        assert [value or 0.0 for value in by_hand[:7]] == printed[:7]
    shares = [values[3] for values in paper().table_9["WebQS"].values()]
    assert shares == [0.0, 8.5, 99.3, 100.0]


@pytest.mark.shared_data
def test_gains_of_calls_are_those_that_are_printed(text: str) -> None:
    above = text.split("\nTable 10: ")[0]
    calls = re.findall(r"<API> (\w+)\(.* (-?[0-9]\.[0-9]{2})-?$", above, re.MULTILINE)
    assert [(tool, float(gain)) for tool, gain in calls] == list(paper().table_10)


def test_every_task_of_the_paper_is_a_benchmark_and_every_counterpart_a_task() -> None:
    languages = {name for name in paper().tasks if name.startswith("mlqa_")}
    assert paper().tasks.keys() - languages <= PUBLISHED.keys() | GENERATED.keys()
    assert {name.removeprefix("mlqa_") for name in languages} == {
        "es",
        "de",
        "hi",
        "vi",
        "zh",
        "ar",
    }
    assert COUNTERPARTS.keys() == GENERATED.keys()
    assert set(COUNTERPARTS.values()) <= paper().tasks.keys()
