"""The paper's rules against tasks of lm-evaluation-harness, on the same completions."""

from collections.abc import Callable, Iterator
from itertools import islice, pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.training.harness.public_tasks import (
    PublicTask,
    gsm8k_task,
    nq_open_task,
    trivia_qa_task,
)
from training.benchmarks.arithmetic import asdiv, svamp
from training.benchmarks.example import Benchmark, Criterion, Example
from training.benchmarks.judging import is_right
from training.benchmarks.questions import natural_questions, trivia_qa

SHARED = Path(__file__).resolve().parents[4] / "shared" / "data"
NQ, TRIVIA = "nq_open/dpr_nq_dev.jsonl", "triviaqa/dpr_trivia_dev.jsonl"
SVAMP, ASDIV = "svamp/svamp_dev200.json", "asdiv/ASDiv_sample30.xml"
NUM_QUESTIONS = 200


def of_paper(completion: str, criterion: Criterion, *answers: str) -> bool:
    """Whether the paper counts it as right."""
    return is_right(completion, Example(id="1", prompt="", answers=answers, group=""), criterion)


def shared(load: Callable[[Path], Benchmark], name: str) -> Benchmark:
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"needs shared/data/{name} beside the checkout")
    return load(path)


@pytest.fixture(scope="module")
def trivia() -> PublicTask:
    return trivia_qa_task()


@pytest.fixture(scope="module")
def nq() -> PublicTask:
    return nq_open_task()


@pytest.fixture(scope="module")
def gsm8k() -> PublicTask:
    return gsm8k_task()


@pytest.fixture(scope="module")
def gsm8k_first() -> PublicTask:
    return gsm8k_task(first=True)


# Questions: the answer within 20 words, and an exact match of all before "\n", "." or ",".


@pytest.mark.parametrize(
    ("completion", "answer", "right"),
    [
        (" Paris", "Paris", True),
        (" paris", "Paris", True),
        (' "Paris"!', "Paris", True),
        (" Paris.", "Paris", True),
        (" Paris, in France.", "Paris", True),
        (" Paris\nQuestion: and of Spain? Paris", "Paris", True),
        (" 1999", "1999", True),
        (" London", "Paris", False),
        (" Par", "Paris", False),
        (" 19", "1999", False),
        ("", "Paris", False),
    ],
)
def test_an_answer_alone_is_judged_alike(
    completion: str, answer: str, right: bool, trivia: PublicTask, nq: PublicTask
) -> None:
    assert of_paper(completion, "answer_within_20", "nothing", answer) is right
    assert trivia.is_right(completion, "nothing", answer) is right
    assert nq.is_right(completion, "nothing", answer) is right


@pytest.mark.parametrize(
    ("completion", "answer", "paper", "by_trivia", "by_nq"),
    [
        # The paper looks for the answer in what a model says, which need not be it alone.
        (" It is Paris.", "Paris", True, False, False),
        (" London. No: Paris", "Paris", True, False, False),
        (" London\nParis", "Paris", True, False, False),
        # The harness stops at the first "." or ",", which may be in the answer.
        (" Washington, D.C.", "Washington, D.C.", True, False, False),
        (" 10,000 years", "10,000 years", True, False, False),
        # Articles: the paper's rule leaves them out, nq_open at the beginning, triviaqa nowhere.
        (" The Beatles", "Beatles", True, False, True),
        (" Lord of the Rings", "Lord of Rings", True, False, True),
        # The harness drops punctuation, here it parts words.
        (" Spider Man", "Spider-Man", True, False, False),
        (" Spiderman", "Spider-Man", False, True, True),
        # Beyond the twentieth word.
        (" so" * 20 + " Paris", "Paris", False, False, False),
        (" so" * 21, "so so so" + " so" * 18, False, True, True),
        # An answer without a letter or digit has no word to be found.
        (" \U0001f352", "\U0001f352", False, True, True),
        # Characters that are the same in other words.
        (" Stra\u00dfe", "STRASSE", True, False, False),
    ],
)  # fmt: skip
def test_where_the_rules_for_answers_differ(
    completion: str,
    answer: str,
    paper: bool,
    by_trivia: bool,
    by_nq: bool,
    trivia: PublicTask,
    nq: PublicTask,
) -> None:
    assert of_paper(completion, "answer_within_20", answer) is paper
    assert trivia.is_right(completion, answer) is by_trivia
    assert nq.is_right(completion, answer) is by_nq


def _answers_of_this_and_the_next_questions(benchmark: Benchmark) -> Iterator[tuple[str, Example]]:
    """Completions that the harness reads to their end, and for which question."""
    for number, example in enumerate(benchmark.examples[:NUM_QUESTIONS], start=1):
        others = benchmark.examples[number : number + 5]
        for answer in (*example.answers[:3], *(other.answers[0] for other in others)):
            if not {".", ","} & set(answer) and any(map(str.isalnum, answer)):
                yield f" {answer}\n\nQ: And then?", example


@pytest.mark.shared_data
def test_real_answers_are_judged_as_triviaqa_does(trivia: PublicTask) -> None:
    _judged_alike(trivia, shared(trivia_qa, TRIVIA), exceptions=set())


@pytest.mark.shared_data
def test_real_answers_are_judged_as_nq_open_does(nq: PublicTask) -> None:
    # "Six" is the answer to another question, which the paper finds in it.
    _judged_alike(nq, shared(natural_questions, NQ), exceptions={" The Six Grandfathers"})


def _judged_alike(task: PublicTask, benchmark: Benchmark, exceptions: set[str]) -> None:
    verdicts = {True: 0, False: 0}
    seen = set()
    for completion, example in _answers_of_this_and_the_next_questions(benchmark):
        verdict = task.is_right(completion, *example.answers)
        within = is_right(completion.partition("\n")[0], example, "answer_within_20")
        if within is not verdict:
            assert within
            seen.add(completion.partition("\n")[0])
        verdicts[verdict] += 1
    assert seen == exceptions
    assert min(verdicts.values()) > 150


# Problems: the first number, or the first after "=", and the last number of the harness.


@pytest.mark.parametrize(
    ("completion", "answer", "right"),
    [
        (" 181", "181", True),
        (" 181.", "181", True),
        (" 181 eggs.", "181", True),
        (" $181.", "181", True),
        (" 25%", "25", True),
        (" 1,200 days", "1200", True),
        (" 0.5 of it", "0.5", True),
        (" so it is 7", "7", True),
        (" -7", "-7", True),
        (" eggs = 181", "181", True),
        (" 180", "181", False),
        (" 1810", "181", False),
        (" -181", "181", False),
        (" one", "1", False),
        ("", "1", False),
    ],
)
def test_a_number_alone_is_judged_alike(
    completion: str, answer: str, right: bool, gsm8k: PublicTask, gsm8k_first: PublicTask
) -> None:
    assert of_paper(completion, "number", answer) is right
    assert gsm8k.is_right(completion, answer) is right
    assert gsm8k_first.is_right(completion, answer) is right


@pytest.mark.parametrize(
    ("completion", "answer", "paper", "by_last", "by_first"),
    [
        # The first number counts in the paper, the last in the harness.
        (" 5 apples and 3 pears", "5", True, False, True),
        (" 5 apples, so 3 are left", "3", False, True, False),
        # Where there is an equation, its result.
        (" 95 + 86 = 181", "181", True, True, False),
        (" 95 + 86 = 181, of 2 kinds", "181", True, False, False),
        # Numbers are compared here, and digits there.
        (" 5.0", "5", True, False, False),
        (" 0.67", "0.6667", True, False, False),
        (" 05", "5", True, False, False),
        # A hyphen between numbers is no sign.
        (" 3-5", "3", True, False, True),
        (" 3-5", "-5", False, True, False),
        # Full stops are digits to the harness, which strips one.
        (" 181...", "181", True, False, False),
        # So is a number in a word.
        (" COVID19", "19", False, True, True),
    ],
)
def test_where_the_rules_for_numbers_differ(
    completion: str,
    answer: str,
    paper: bool,
    by_last: bool,
    by_first: bool,
    gsm8k: PublicTask,
    gsm8k_first: PublicTask,
) -> None:
    assert of_paper(completion, "number", answer) is paper
    assert gsm8k.is_right(completion, answer) is by_last
    assert gsm8k_first.is_right(completion, answer) is by_first


_NUMBERS = st.integers(min_value=0, max_value=2_000_000).flatmap(
    lambda n: st.sampled_from([f"{n}", f"{n:,}", f"${n}", f"{n}.", f"{n},", f"{n}%"])
)
_WORDS = st.sampled_from(["so", "there are", "apples", "in all.", "each,", "(left)"])


@given(pieces=st.lists(st.one_of(_WORDS, _NUMBERS), max_size=8), data=st.data())
def test_the_first_number_is_the_same(
    gsm8k_first: PublicTask, pieces: list[str], data: st.DataObject
) -> None:
    completion = " " + " ".join(pieces)
    numbers = [
        digits for piece in pieces if (digits := piece.strip("$.%").replace(",", "")).isdigit()
    ]
    answer = data.draw(st.sampled_from([*numbers, "17"]))
    expected = bool(numbers) and int(numbers[0]) == int(answer)
    assert of_paper(completion, "number", answer) is expected
    assert gsm8k_first.is_right(completion, answer) is expected


@pytest.mark.shared_data
@pytest.mark.parametrize(("load", "name"), [(svamp, SVAMP), (asdiv, ASDIV)])
def test_real_numbers_are_judged_alike(
    load: Callable[[Path], Benchmark], name: str, gsm8k: PublicTask
) -> None:
    examples = shared(load, name).examples
    for example, other in islice(pairwise(examples), 100):
        for number in (example.answers[0], other.answers[0]):
            for completion in (f" {number}", f" {number} apples.", f" so ${number} are left"):
                right = is_right(completion, example, "number")
                assert gsm8k.is_right(completion, *example.answers) is right
                assert right is (number == example.answers[0])
