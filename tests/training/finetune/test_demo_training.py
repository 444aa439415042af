"""The demo's model, really trained by two processes under ZeRO-3 on C* and on C."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from pipeline.config import ModelConfig
from pipeline.engine_config import EngineConfig
from pipeline.engines.load import load_engine
from pipeline.tokens import TokenCodec
from tests.training.finetune.made_dataset import DEMO_MODEL, held_out, made_run
from tests.training.finetune.processes import finetuned, start
from training.finetune.record import FinetuneRecord, read_record

# So much more may C* leave of the perplexity of plain text, after twelve steps from a model that
# knows neither: a third of the tokens of C* are calls, so it sees less plain text in a step.
MARGIN = 1.25


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("demo")
    held_out(directory, 16)
    return made_run(directory / "run", 60)


def trained(run: Path, dataset: str) -> FinetuneRecord:
    out = run.parent / dataset
    settings = {
        "run": str(run),
        "out": str(out),
        "dataset": dataset,
        "development": {"input": str(run.parent / "held_out.parquet"), "documents": 16},
        "sequence_tokens": 128,
        "max_steps": 12,
        "eval_steps": 6,
        "batch_size": 16,
        "micro_batch_size": 8,
        "learning_rate": 3e-4,
        "precision": "float32",
        "gradient_checkpointing": False,
    }
    ended = start(finetuned, [settings], run.parent / "logs", 2).end()
    assert ended.codes == [0, 0], ended.outputs
    record = read_record(out)
    assert record is not None
    return record


@pytest.fixture(scope="module")
def augmented(run: Path) -> FinetuneRecord:
    return trained(run, "dataset")


@pytest.fixture(scope="module")
def plain(run: Path) -> FinetuneRecord:
    return trained(run, "dataset_plain")


def test_loss_falls_on_both(augmented: FinetuneRecord, plain: FinetuneRecord) -> None:
    for record in (augmented, plain):
        losses = [loss for _, loss in record.losses]
        assert len(losses) == 12
        assert sum(losses[-3:]) / 3 < sum(losses[:3]) / 3 - 0.8


def test_plain_text_is_not_predicted_much_worse_than_by_the_plain_baseline(
    augmented: FinetuneRecord, plain: FinetuneRecord
) -> None:
    assert augmented.before == plain.before
    assert augmented.best.perplexity < MARGIN * plain.best.perplexity
    assert augmented.best.perplexity < 0.6 * augmented.before.perplexity


def test_both_train_the_same_documents(augmented: FinetuneRecord, plain: FinetuneRecord) -> None:
    # The tokens of the calls are all that C does not have.
    without = {"trained_tokens": plain.data.trained_tokens}
    assert augmented.data.model_copy(update=without) == plain.data
    assert augmented.data.trained_tokens > plain.data.trained_tokens
    assert sum(augmented.data.calls.values()) > 40


def test_model_loads_where_others_load_it(augmented: FinetuneRecord, run: Path) -> None:
    path = str(augmented.config.out / "model")
    model: Any = AutoModelForCausalLM.from_pretrained(path)
    before: Any = AutoModelForCausalLM.from_pretrained(DEMO_MODEL)
    assert model.config.use_cache is before.config.use_cache
    weights, old = model.state_dict(), before.state_dict()
    assert {name: w.shape for name, w in weights.items()} == {n: w.shape for n, w in old.items()}
    assert not torch.equal(weights["lm_head.weight"], old["lm_head.weight"])

    text = "Veltara has 1,400 inhabitants [Calculator(1400/7) -> 200]."
    tokenizer, base = AutoTokenizer.from_pretrained(path), TokenCodec.load(str(DEMO_MODEL))
    codec = TokenCodec.load(path)
    assert codec.canonical(text).tolist() == base.canonical(text).tolist()
    assert tokenizer(" " + text)["input_ids"] == base.canonical(text).tolist()
    assert codec.bos_id == base.bos_id and codec.open_ids == base.open_ids
    load_engine(ModelConfig(path=path), EngineConfig(name="torch"))  # compares with the logits


def test_card_tells_of_the_training_and_of_no_path(augmented: FinetuneRecord) -> None:
    card = (augmented.config.out / "model/README.md").read_text()
    assert (
        f"| best, these weights | {augmented.best_step} | {augmented.best.perplexity:.3f} |" in card
    )
    assert f"| before | 0 | {augmented.before.perplexity:.3f} |" in card
    assert f"| Calculator | {augmented.data.calls['Calculator']} |" in card
    assert "learning_rate: 0.0003" in card and "deepspeed" in card
    assert "/" + str(augmented.config.out).split("/")[1] + "/" not in card


def test_losses_are_drawn_and_logged(augmented: FinetuneRecord) -> None:
    out = augmented.config.out
    svg = ElementTree.parse(out / "losses.svg").getroot()
    assert svg.tag == "{http://www.w3.org/2000/svg}svg"
    circles = svg.findall("{http://www.w3.org/2000/svg}circle")
    drawn = [circle.get("class") for circle in circles]
    assert (drawn.count("loss"), drawn.count("perplexity"), drawn.count("best")) == (12, 3, 1)
    assert len(list((out / "tensorboard").glob("events.out.tfevents.*"))) == 1
    assert json.loads((out / "finetune.json").read_text())["best_step"] == augmented.best_step
