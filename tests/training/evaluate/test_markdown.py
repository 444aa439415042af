from pathlib import Path

from tests.training.evaluate.made_results import made_score
from training.evaluate.answers import TextPerplexity
from training.evaluate.results import ModelFacts, Results, write_results

_MODELS = {
    "GPT-J": ModelFacts(where="/home/someone/gpt-j", parameters=6_050_882_784, calls=False),
    "Toolformer": ModelFacts(where="runs/model", parameters=6_050_882_784, calls=True),
    "a|b_*c*": ModelFacts(where="https://api.example.org/v1", parameters=None, calls=False),
}
_SCORES = [
    made_score("GPT-J", "asdiv", 0.075),
    made_score("Toolformer", "asdiv", 0.149, errors=2),
    made_score("Toolformer", "asdiv", 0.404, api_top_k=10, tools={"Calculator": 0.47}, errors=3),
    made_score("a|b_*c*", "asdiv", 0.6),
    made_score("GPT-J", "svamp", 0.052),
    made_score("GPT-J", "dateset", 0.039, n=9400),
]
_PERPLEXITY = TextPerplexity(
    model="GPT-J",
    corpus="WikiText",
    perplexity=9.9,
    low=9.5,
    high=10.4,
    num_documents=62,
    num_tokens=2800,
)


def told(out: Path) -> str:
    results = Results(seed=5, models=_MODELS, scores=_SCORES, perplexities=[_PERPLEXITY])
    write_results(out, results, {"Toolformer": ["Toolformer"]})
    return (out / "results.md").read_text(encoding="utf-8")


def test_each_table_stands_under_its_heading_with_its_plots(tmp_path: Path) -> None:
    first, *sections = told(tmp_path).split("\n## ")
    assert first.startswith("# Evaluation\n") and "(seed 5)" in first
    assert "| Toolformer | 6,050,882,784 | yes |\n" in first
    assert sections[0] == (
        "Math, as Table 4: % right\n"
        "\n"
        "| model | ASDiv (n = 200) | SVAMP (n = 200) |\n"
        "|---|---:|---:|\n"
        "| GPT-J | 7.5 (2-12) | 5.2 (0-10) |\n"
        "| Toolformer | **40.4 (35-45)** | - |\n"
        r"| a\|b\_\*c\* | 60.0 (55-65) | - |"
        "\n\n"
        "With calls, k = 10: Toolformer.\n"
        "\n"
        "Errors, counted as wrong: Toolformer 3 of 200 on ASDiv.\n"
        "\n"
        "### Math: % of inputs with a call\n"
        "\n"
        "| model: benchmark | of any tool | Calculator |\n"
        "|---|---:|---:|\n"
        "| Toolformer: ASDiv | 50.0 | 47.0 |\n"
        "\n"
        "### ASDiv, Toolformer: % right by k, as Table 9\n"
        "\n"
        "| k | All | AC | NC | % with a call |\n"
        "|---|---:|---:|---:|---:|\n"
        "| 0 | 14.9 (10-20) | - | 14.9 (10-20) | 0.0 |\n"
        "| 10 | 40.4 (35-45) | 40.4 (35-45) | 40.4 (35-45) | 50.0 |\n"
        "\n"
        "AC: examples with a call. NC: all others.\n"
        "\n"
        "![Math, as Table 4: % right](plots/math.svg)\n"
        "\n"
        "![ASDiv, Toolformer: % right by k, as Table 9](plots/calibration-1-asdiv.svg)\n"
        "\n"
        "![Math: % right over parameters, as Figure 4](plots/scaling-math.svg)\n"
    )
    assert sections[1].startswith(
        "Temporal, as Table 7: % right\n\n| model | Dateset (n = 9,400) |\n|---|---:|\n"
    )
    assert sections[2].startswith("Perplexity without calls, as Table 8\n\n| model | WikiText")


def test_a_reader_learns_no_path_of_the_machine(tmp_path: Path) -> None:
    assert "/home" not in told(tmp_path)


def test_every_plot_that_is_shown_is_there(tmp_path: Path) -> None:
    text = told(tmp_path)
    shown = {line.split("](")[1].rstrip(")") for line in text.splitlines() if line[:2] == "!["}
    assert shown == {f"plots/{file.name}" for file in (tmp_path / "plots").iterdir()}
    assert len(shown) == 5
