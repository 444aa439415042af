import json
from pathlib import Path

import pytest

from tools.base import InputError
from training.benchmarks.arithmetic import asdiv, math_prompt, mawps, svamp
from training.benchmarks.example import Benchmark
from training.benchmarks.judging import is_right

SHARED = Path(__file__).resolve().parents[4] / "shared" / "data"
PARTS = ("addsub", "multiarith", "singleeq", "singleop")
NOT_A_NUMBER = "the answer is not one number"

ASDIV = """\
<?xml version="1.0" encoding="UTF-8" ?>
<Machine-Reading-Corpus-File>

<ProblemSet>
	<Problem ID="nluds-0001" Grade="1" Source="http://example.org">
		<Body>Seven apples &amp; two pears are in
		the basket.</Body>
		<Question>How many is that?</Question>
		<Solution-Type>Addition</Solution-Type>
		<Answer>9 (pieces)</Answer>
		<Formula>7+2=9</Formula>
	</Problem>
	%s
</ProblemSet>

</Machine-Reading-Corpus-File>
"""


def problem(own_id: str, answer: str) -> str:
    return (
        f'<Problem ID="{own_id}"><Body>He has 3,</Body><Question>how many?</Question>'
        f'<Solution-Type Subgoal-1="Sum">Sum</Solution-Type><Answer>{answer}</Answer></Problem>'
    )


def asked(benchmark: Benchmark) -> list[tuple[str, str, tuple[str, ...], str]]:
    return [(one.id, one.prompt, one.answers, one.group) for one in benchmark.examples]


def test_the_prompt_is_the_problem_and_the_words_of_the_paper() -> None:
    assert math_prompt("He had $ 4 at the start", "How much?") == (
        "He had $ 4 at the start How much? The answer is"
    )
    assert math_prompt("", " How\nmuch? ") == "How much? The answer is"


def test_asdiv_keeps_problems_with_one_number(tmp_path: Path) -> None:
    path = tmp_path / "ASDiv.xml"
    answers = {
        "2": "11; 12; 13",
        "3": "Book store",
        "4": "3:5",
        "5": "1,200.50 (dollars)",
        "6": "11",
        "1": "7",
        "7": "25%",
        "8": "5 (m); 6 (m)",
    }
    rows = "\n".join(problem(f"nluds-000{number}", answer) for number, answer in answers.items())
    path.write_text(ASDIV % rows)
    benchmark = asdiv(path)
    first, *others = asked(benchmark)
    prompt = "Seven apples & two pears are in the basket. How many is that? The answer is"
    assert first == ("nluds-0001", prompt, ("9",), "Addition")
    assert others == [
        ("nluds-0005", "He has 3, how many? The answer is", ("1,200.50",), "Sum"),
        ("nluds-0006", "He has 3, how many? The answer is", ("11",), "Sum"),
        ("nluds-0007", "He has 3, how many? The answer is", ("25%",), "Sum"),
    ]
    assert benchmark.skipped == {NOT_A_NUMBER: 4, "its id was there before": 1}
    assert (benchmark.criterion, benchmark.without_tools) == ("number", ())
    assert is_right(" $1200.5", benchmark.examples[1], benchmark.criterion)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (ASDIV % "<Problem>", r"ASDiv\.xml:14: not XML: mismatched tag"),
        (ASDIV % "<Problem/>", r"ASDiv\.xml: problem 2 has no ID$"),
        (ASDIV % '<Problem ID="x"><Body/></Problem>', r"ASDiv\.xml: problem x: no Question$"),
        ("<Other/>", r"ASDiv\.xml: has no Problem$"),
    ],
)
def test_a_broken_asdiv_is_named(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "ASDiv.xml"
    path.write_text(content)
    with pytest.raises(InputError, match=message):
        asdiv(path)


def svamp_row(answer: object, own_id: str = "chal-1") -> dict[str, object]:
    texts = {"ID": own_id, "Body": "Dan had $ 4 at the start", "Question": "How much is left?"}
    return texts | {"Equation": "( 4.0 - 3.0 )", "Answer": answer, "Type": "Subtraction"}


def test_svamp_joins_body_and_question(tmp_path: Path) -> None:
    path = tmp_path / "SVAMP.json"
    rows = [svamp_row(51.0), svamp_row(2.5, "chal-2"), svamp_row(1200000.0, "chal-3")]
    path.write_text(json.dumps(rows))
    benchmark = svamp(path)
    prompt = "Dan had $ 4 at the start How much is left? The answer is"
    assert asked(benchmark) == [
        ("chal-1", prompt, ("51",), "Subtraction"),
        ("chal-2", prompt, ("2.5",), "Subtraction"),
        ("chal-3", prompt, ("1200000",), "Subtraction"),
    ]
    assert (benchmark.criterion, benchmark.skipped) == ("number", {})


@pytest.mark.parametrize("answer", ["51", None, True, float("nan")])
def test_an_answer_that_is_no_number_is_named(tmp_path: Path, answer: object) -> None:
    path = tmp_path / "SVAMP.json"
    path.write_text(json.dumps([svamp_row(1.0), svamp_row(answer)]))
    with pytest.raises(InputError, match=r"SVAMP\.json: problem 2: Answer is .*expected a number"):
        svamp(path)


def test_svamp_is_an_array(tmp_path: Path) -> None:
    path = tmp_path / "SVAMP.json"
    path.write_text(json.dumps({"data": []}))
    with pytest.raises(InputError, match="expected a JSON array, got dict"):
        svamp(path)


def test_mawps_is_four_files(tmp_path: Path) -> None:
    for part in PARTS:
        row = {"input": f"Sara 's {part} . How many ?", "target": 0.6666666667}
        (tmp_path / f"mawps{part}.jsonl").write_text("\n" + json.dumps(row) + "\n")
    benchmark = mawps(tmp_path)
    assert asked(benchmark) == [
        (f"{part}/2", f"Sara 's {part} . How many ? The answer is", ("0.6666666667",), part)
        for part in PARTS
    ]
    assert benchmark.criterion == "number"
    (tmp_path / "mawpssingleop.jsonl").unlink()
    with pytest.raises(InputError, match=r"mawpssingleop\.jsonl: no such file; it can be had from"):
        mawps(tmp_path)


def shared(name: str) -> Path:
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"needs shared/data/{name} beside the checkout")
    return path


@pytest.mark.shared_data
def test_real_problems_of_asdiv() -> None:
    benchmark = asdiv(shared("asdiv/ASDiv_sample30.xml"))
    assert (len(benchmark.examples), benchmark.skipped) == (28, {NOT_A_NUMBER: 2})
    assert benchmark.examples[0].prompt == (
        "Seven red apples and two green apples are in the basket. "
        "How many apples are in the basket? The answer is"
    )
    assert "43.07" in {example.answers[0] for example in benchmark.examples}


@pytest.mark.shared_data
def test_real_problems_of_svamp() -> None:
    benchmark = svamp(shared("svamp/svamp_dev200.json"))
    assert (len(benchmark.examples), benchmark.skipped) == (200, {})
    assert {example.group for example in benchmark.examples} == {
        "Addition",
        "Subtraction",
        "Multiplication",
        "Common-Division",
    }


@pytest.mark.shared_data
def test_real_problems_of_mawps(tmp_path: Path) -> None:
    sample = shared("mawps/pal_mawpsaddsub.jsonl")
    for part in PARTS:
        (tmp_path / f"mawps{part}.jsonl").symlink_to(sample)
    benchmark = mawps(tmp_path)
    assert (len(benchmark.examples), benchmark.skipped) == (4 * 395, {})
    assert benchmark.examples[0].answers == ("43",)
    assert all(example.prompt.endswith(" ? The answer is") for example in benchmark.examples[:10])
