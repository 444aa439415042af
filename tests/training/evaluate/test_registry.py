"""Benchmarks by name, and the examples that are drawn of them."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from tools.base import ConfigError, InputError
from training.benchmarks.dateset import SIZES, dateset
from training.benchmarks.example import Benchmark, Example
from training.benchmarks.mlqa import LANGUAGES
from training.benchmarks.world import WORLD_BENCHMARKS
from training.evaluate.config import BenchmarkConfig
from training.evaluate.plan import MAX_NEW_TOKENS
from training.evaluate.registry import GENERATED, NAMES, drawn, load_benchmark


def test_every_benchmark_of_the_paper_has_a_name() -> None:
    assert NAMES[:13] == (
        "lama_squad", "lama_google_re", "lama_t_rex", "asdiv", "svamp", "mawps", "web_questions",
        "natural_questions", "trivia_qa", "mlqa", "mlqa_in_english", "templama", "dateset",
    )  # fmt: skip
    assert set(NAMES[12:]) == set(GENERATED) == {"dateset", *WORLD_BENCHMARKS}
    for name in ("dateset", "world_dates"):
        benchmark = load_benchmark(name, None)
        assert benchmark.name == name and benchmark.criterion in MAX_NEW_TOKENS
        assert len({example.id for example in benchmark.examples}) == len(benchmark.examples) > 100


def test_a_subset_is_drawn_from_all_of_a_benchmark() -> None:
    whole = dateset()
    some = drawn(whole, 940, seed=0)
    ids = [example.id for example in whole.examples]
    chosen = [example.id for example in some.examples]
    assert len(chosen) == 940 and chosen == [each for each in ids if each in set(chosen)]
    groups = Counter(example.group for example in some.examples)
    for template, size in SIZES.items():  # a tenth of each, by chance within 4 standard deviations
        assert abs(groups[template] - size / 10) < 4 * (size * 0.09) ** 0.5
    fewer = {example.id for example in drawn(whole, 100, seed=0).examples}
    assert len(fewer) == 100 and fewer < set(chosen)
    assert drawn(whole, 100, seed=0) == drawn(whole, 100, seed=0) != drawn(whole, 100, seed=1)
    assert drawn(whole, None, seed=0) is drawn(whole, 9400, seed=0) is whole


def test_one_language_of_mlqa_is_a_benchmark_of_its_own(tmp_path: Path) -> None:
    for language in LANGUAGES:
        entry = {"id": "1", "question": f"{language}?", "answers": [{"text": "x"}]}
        content = {"data": [{"paragraphs": [{"context": "c", "qas": [entry]}]}]}
        (tmp_path / f"test-context-en-question-{language}.json").write_text(json.dumps(content))
    assert len(load_benchmark("mlqa", tmp_path).examples) == 6
    spanish = load_benchmark("mlqa", tmp_path, "es")
    assert spanish.name == "mlqa_es"
    assert [example.prompt[-3:] for example in spanish.examples] == ["es?"]


def test_mlqa_is_drawn_alike_in_all_languages_and_in_english() -> None:
    def of(name: str, languages: Sequence[str]) -> Benchmark:
        examples = tuple(
            Example(id=f"{each}/{n}", prompt=f"{each} {n}", answers=("x",), group=each)
            for each in languages
            for n in range(40)
        )
        return Benchmark(
            name=name, examples=examples, criterion="answer_within_10", without_tools=(),
            skipped={},
        )  # fmt: skip

    def ids(benchmark: Benchmark, number: int = 12) -> list[str]:
        return [example.id for example in drawn(benchmark, number, seed=0).examples]

    asked = ids(of("mlqa", LANGUAGES))
    assert Counter(each.partition("/")[0] for each in asked) == dict.fromkeys(LANGUAGES, 2)
    assert len({each.partition("/")[2] for each in asked}) == 2
    assert ids(of("mlqa_in_english", LANGUAGES)) == asked
    assert ids(of("mlqa_es", ["es"]), 2) == asked[:2]
    fewer = ids(of("mlqa", LANGUAGES), 7)
    assert set(fewer) < set(asked) and len(fewer) == 7


def test_a_wrong_name_lists_the_right_ones() -> None:
    with pytest.raises(ConfigError) as caught:
        load_benchmark("squad", None)
    assert str(caught.value) == f"no benchmark is called 'squad'; there are {', '.join(NAMES)}"


@pytest.mark.parametrize("name", [name for name in NAMES if name not in GENERATED])
def test_a_missing_file_says_which_to_get(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"^{name} needs a path: .*https://"):
        load_benchmark(name, None)
    with pytest.raises(InputError, match=r"no such file; it can be had from .*(https://|http)"):
        load_benchmark(name, tmp_path / "none")


def test_what_a_benchmark_needs_to_write_may_be_set() -> None:
    assert BenchmarkConfig(name="dateset", max_new_tokens=7).max_new_tokens == 7
    assert MAX_NEW_TOKENS == {
        "word_within_5": 24, "number": 64, "answer_within_20": 64, "answer_within_10": 48
    }  # fmt: skip
