import json
from pathlib import Path

import pytest

from tools.base import InputError
from training.benchmarks.example import Benchmark
from training.benchmarks.lama import lama_google_re, lama_squad, lama_t_rex

SHARED = Path(__file__).resolve().parents[4] / "shared" / "data" / "lama"
PROMPT = "Please complete the following text so that it is factually correct: "
NOT_FINAL = "the mask is not the final token"


def write(path: Path, *records: object) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def statement(own_id: str, *sentences: str, answer: str = "gold") -> dict[str, object]:
    return {
        "masked_sentences": sentences,
        "obj_label": answer,
        "id": own_id,
        "sub_label": "Squad",
    }


def fact(uuid: str, subject: str, answer: str, votes: str = "yyynn") -> dict[str, object]:
    judgments = [{"rater": "1", "judgment": {"y": "yes", "n": "no"}[vote]} for vote in votes]
    labels = {"sub_label": subject, "obj_label": answer, "obj_aliases": ["other"]}
    return {"uuid": uuid, **labels, "judgments": judgments, "masked_sentences": ["[MASK] ."]}


def relation(name: str, template: str) -> dict[str, object]:
    return {"relation": name, "template": template, "label": "", "type": "N-1"}


def asked(benchmark: Benchmark) -> list[tuple[str, str, tuple[str, ...]]]:
    return [
        (example.id, example.prompt.removeprefix(PROMPT), example.answers)
        for example in benchmark.examples
    ]


def test_squad_keeps_statements_that_end_with_their_mask(tmp_path: Path) -> None:
    write(
        tmp_path / "Squad" / "test.jsonl",
        statement("1_0", "The colour of Super Bowl 50 was [MASK]."),
        statement("2_0", "The [MASK] colour was used."),
        statement("3_0", "It was played.", "Its colour was [MASK] ."),
        statement("4_0", "Was [MASK] or was it [MASK]?"),
        statement("5_0", "What was used is [MASK]"),
        statement("6_0", "What was used (in [MASK])."),
        statement("1_0", "It is there again: [MASK]."),
    )
    benchmark = lama_squad(tmp_path)
    assert asked(benchmark) == [
        ("1_0", "The colour of Super Bowl 50 was", ("gold",)),
        ("3_0", "It was played. Its colour was", ("gold",)),
        ("5_0", "What was used is", ("gold",)),
    ]
    assert benchmark.examples[0].prompt == PROMPT + "The colour of Super Bowl 50 was"
    assert benchmark.skipped == {
        NOT_FINAL: 2,
        "there are several masks": 1,
        "its id was there before": 1,
    }
    assert benchmark.criterion == "word_within_5"
    assert benchmark.without_tools == ("WikiSearch",)


def test_google_re_asks_by_template_for_what_most_hold_true(tmp_path: Path) -> None:
    directory = tmp_path / "Google_RE"
    write(
        directory / "place_of_birth_test.jsonl",
        fact("a", "Ann B. Lee", "Rome"),
        fact("b", "Bo", "Oslo", votes="nnnyy"),
        fact("c", "Ann B. Lee", "Rome"),
        fact("d", "Cy", "Oslo", votes="ny"),
    )
    write(directory / "date_of_birth_test.jsonl", fact("e", "Bo", "1941"), fact("f", "Cy", "1942"))
    write(directory / "place_of_death_test.jsonl", fact("a", "Bo", "Rome"))
    benchmark = lama_google_re(tmp_path)
    assert asked(benchmark) == [
        ("place_of_birth/a", "Ann B. Lee was born in", ("Rome",)),
        ("place_of_birth/d", "Cy was born in", ("Oslo",)),
        ("place_of_death/a", "Bo died in", ("Rome",)),
    ]
    assert [example.group for example in benchmark.examples] == [
        "place_of_birth",
        "place_of_birth",
        "place_of_death",
    ]
    assert benchmark.skipped == {
        "more judged it false than true": 1,
        "the fact was there before": 1,
        NOT_FINAL: 2,
    }
    assert benchmark.without_tools == ("WikiSearch",)


def test_t_rex_asks_by_the_templates_of_its_relations(tmp_path: Path) -> None:
    write(
        tmp_path / "relations.jsonl",
        relation("P36", "The capital of [X] is [Y] ."),
        relation("P190", "[X] and [Y] are twin cities ."),
        relation("P166", "[X] was awarded the [Y] ."),  # has no file, also as published
    )
    rows = [fact("a", "Norway", "Oslo"), fact("a", "Italy", "Rome"), fact("b", "Norway", "Oslo")]
    write(tmp_path / "TREx" / "P36.jsonl", *rows)
    write(tmp_path / "TREx" / "P190.jsonl", *rows)
    benchmark = lama_t_rex(tmp_path)
    assert asked(benchmark) == [("P36/a", "The capital of Norway is", ("Oslo",))]
    assert benchmark.skipped == {
        NOT_FINAL: 3,
        "its id was there before": 1,
        "the fact was there before": 1,
    }
    assert benchmark.criterion == "word_within_5"
    (tmp_path / "TREx" / "P190.jsonl").unlink()
    with pytest.raises(InputError, match=r"P190\.jsonl: no such file; it can be had from https://"):
        lama_t_rex(tmp_path)


def test_a_subject_that_looks_like_a_mask_changes_nothing(tmp_path: Path) -> None:
    write(tmp_path / "relations.jsonl", relation("P36", "The capital of [X] is [Y] ."))
    write(tmp_path / "TREx" / "P36.jsonl", fact("a", "[Y] City", "Oslo"))
    assert asked(lama_t_rex(tmp_path))[0][1] == "The capital of [Y] City is"


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (statement("2", "Nothing is missing."), r"test\.jsonl:2: masked_sentences has no \[MASK\]"),
        (statement("2", "It is [MASK].", answer=" "), r"test\.jsonl:2: obj_label is empty"),
        ({"masked_sentences": "It is [MASK]."}, r"test\.jsonl:2: masked_sentences is str"),
        ([], r"test\.jsonl:2: expected a JSON object"),
    ],
)
def test_a_broken_statement_is_named(tmp_path: Path, record: object, message: str) -> None:
    write(tmp_path / "Squad" / "test.jsonl", statement("1", "It is [MASK]."), record)
    with pytest.raises(InputError, match=message):
        lama_squad(tmp_path)


def test_a_broken_template_or_judgment_is_named(tmp_path: Path) -> None:
    write(tmp_path / "relations.jsonl", relation("P36", "The capital of [X] ."))
    with pytest.raises(InputError, match=r"relations\.jsonl:1: template .* needs \[X\] and \[Y\]"):
        lama_t_rex(tmp_path)
    row = fact("a", "Ann", "Rome") | {"judgments": [{"rater": "1"}]}
    write(tmp_path / "Google_RE" / "place_of_birth_test.jsonl", row)
    with pytest.raises(InputError, match=r"place_of_birth_test\.jsonl:1: no 'judgment'"):
        lama_google_re(tmp_path)


@pytest.fixture
def real_lama(tmp_path: Path) -> Path:
    """The real sample under the names that LAMA publishes, with the relations it has files of."""
    if not SHARED.is_dir():
        pytest.skip("needs shared/data/lama beside the checkout")
    for sample in SHARED.glob("*/*.sample.jsonl"):
        copy = tmp_path / sample.parent.name / sample.name.replace(".sample", "")
        copy.parent.mkdir(exist_ok=True)
        copy.symlink_to(sample)
    lines = (SHARED / "relations.jsonl").read_text().splitlines()
    names = {path.stem for path in (tmp_path / "TREx").iterdir()}
    kept = [line for line in map(json.loads, lines) if line["relation"] in names]
    write(tmp_path / "relations.jsonl", *kept)
    return tmp_path


@pytest.mark.shared_data
def test_real_statements_of_squad(real_lama: Path) -> None:
    benchmark = lama_squad(real_lama)
    assert (len(benchmark.examples), benchmark.skipped) == (12, {NOT_FINAL: 8})
    first = benchmark.examples[0]
    assert first.prompt.endswith("1997-98 season was originally aired by")
    assert first.answers == ("CBS",)


@pytest.mark.shared_data
def test_real_facts_of_google_re(real_lama: Path) -> None:
    benchmark = lama_google_re(real_lama)
    assert len(benchmark.examples) + sum(benchmark.skipped.values()) == 30
    assert benchmark.skipped[NOT_FINAL] == 10
    assert benchmark.examples[0].prompt == PROMPT + "Khatchig Mouradian was born in"


@pytest.mark.shared_data
def test_real_facts_of_t_rex(real_lama: Path) -> None:
    benchmark = lama_t_rex(real_lama)
    assert (len(benchmark.examples), benchmark.skipped) == (46, {NOT_FINAL: 10})
    prompts = {example.id.split("/")[0]: example.prompt for example in benchmark.examples}
    assert prompts["P31"] == PROMPT + "Long Preston is a"
    assert not {"P413", "P106", "P27", "P136", "P140"} & set(prompts)
