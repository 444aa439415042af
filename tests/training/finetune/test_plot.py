"""losses.svg and the model card, of a training as it might have been."""

from typing import Any
from xml.etree import ElementTree

import pytest

from training.finetune.model_card import model_card
from training.finetune.plot import losses_svg
from training.finetune.record import FinetuneRecord

_SVG = "{http://www.w3.org/2000/svg}"


def record(**changes: Any) -> FinetuneRecord:
    config = {
        "run": "/home/someone/runs/mine",
        "out": "/home/someone/out",
        "development": {"input": "/home/someone/held_out"},
    }
    values = {
        "config": config,
        "base_model": "EleutherAI/gpt-j-6b",
        "fingerprint": {},
        "num_processes": 8,
        "data": {
            "documents": 25_110,
            "examples": 26_000,
            "trained_tokens": 14_200_000,
            "calls": {"Calculator": 994, "QA": 18_526},
            "dropped": {"calls_over_cap": 7},
            "development_documents": 1000,
            "development_excluded": 3,
            "development_unusable": 2,
        },
        "evaluations": [
            {"step": step, "loss": 2.0, "perplexity": value}
            for step, value in ((0, 10.2), (500, 9.7), (1000, 9.1), (1500, 9.3), (2000, 9.4))
        ],
        "losses": [(step, 3.0 - step / 1000) for step in range(1, 2001)],
        "best_step": 1000,
        "versions": {"torch": "2.13.0"},
    }
    return FinetuneRecord.model_validate(values | changes)


def test_long_training_is_drawn_with_few_dots_and_round_numbers() -> None:
    svg = ElementTree.fromstring(losses_svg(record()))
    kinds = [circle.get("class") for circle in svg.findall(f"{_SVG}circle")]
    assert 400 <= kinds.count("loss") <= 600 and kinds.count("perplexity") == 5
    texts = [text.text for text in svg.findall(f"{_SVG}text")]
    assert "perplexity of the development set: 10.2 before, 9.1 at step 1,000, the best" in texts
    assert {"0", "500", "1,000", "1,500", "2,000", "1.5", "2.5"} <= set(texts)


@pytest.mark.parametrize("losses", [[(1, 2.0)], [(1, 2.0), (2, 2.0)]])
def test_training_that_learns_nothing_is_drawn_as_well(losses: list[tuple[int, float]]) -> None:
    same = [{"step": step, "loss": 0.7, "perplexity": 2.0} for step in (0, len(losses))]
    config = record().config.model_copy(update={"max_steps": len(losses)})
    drawn = losses_svg(
        record(config=config, losses=losses, evaluations=same, best_step=len(losses))
    )
    kinds = [circle.get("class") for circle in ElementTree.fromstring(drawn).iter(f"{_SVG}circle")]
    assert kinds.count("loss") == len(losses)


def test_card_names_model_and_numbers_but_no_path() -> None:
    card = model_card(record())
    assert "base_model: EleutherAI/gpt-j-6b\n" in card and "# gpt-j-6b, finetuned on C*" in card
    assert "| best, these weights | 1,000 | 9.100 |" in card and "| last | 2,000 | 9.400 |" in card
    assert "| QA | 18,526 |" in card and "| calls over cap | 7 |" in card
    assert "On 1,000 held-out documents" in card and "3 were left out" in card
    assert "8 processes with DeepSpeed ZeRO-3" in card
    assert "/home" not in card
    plain = model_card(
        record(
            config=record().config.model_copy(update={"dataset": "dataset_plain"}),
            base_model="/home/someone/models/gpt-j",
        )
    )
    assert "that knows no tools" in " ".join(plain.split()) and "base_model" not in plain
    assert "# gpt-j, finetuned on C\n" in plain and "/home" not in plain
