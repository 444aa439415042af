"""What is computed is the same for any number of processes, and what plain PyTorch computes."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy
from transformers import AutoModelForCausalLM

from tests.training.finetune.made_dataset import demo_codec
from tests.training.finetune.processes import finetuned, start
from tests.training.finetune.small_model import small_training
from training.finetune.batches import TrainingStream
from training.finetune.config import FinetuneConfig
from training.finetune.development import load_development_set
from training.finetune.examples import load_training_set
from training.finetune.record import FinetuneRecord, read_record

STEPS, BATCH, WARMUP, CLIP = 5, 8, 2, 0.5


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return small_training(tmp_path_factory.mktemp("two_ranks"), development=5) | {
        "sequence_tokens": 48,
        "max_steps": STEPS,
        "eval_steps": 3,
        "batch_size": BATCH,
        "micro_batch_size": 2,
        "warmup_share": WARMUP / STEPS,
        "max_grad_norm": CLIP,
    }


def trained(settings: dict[str, Any], out: Path, num: int, **changes: Any) -> FinetuneRecord:
    ended = start(finetuned, [settings | {"out": str(out)} | changes], out / "logs", num).end()
    assert ended.codes == [0] * num, ended.outputs
    record = read_record(out)
    assert record is not None
    return record


@pytest.fixture(scope="module")
def by_two(settings: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> FinetuneRecord:
    """By two processes under ZeRO-3."""
    return trained(settings, tmp_path_factory.mktemp("by_two"), 2)


@pytest.fixture(scope="module")
def plain(settings: dict[str, Any]) -> list[float]:
    """The loss of each step by PyTorch alone, a sequence at a time, without padding."""
    config = FinetuneConfig.model_validate(settings | {"out": "unused"})
    examples = load_training_set(config, demo_codec()).examples
    assert len(examples) < STEPS * BATCH  # some come a second time
    stream = TrainingStream(examples, max_steps=STEPS, batch_size=BATCH, seed=config.seed)
    model: Any = AutoModelForCausalLM.from_pretrained(settings["model"]["path"])
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.0)
    losses = []
    for step in range(STEPS):
        batch = [stream[step * BATCH + j] for j in range(BATCH)]
        num_trained = sum(int(example.trained.sum()) for example in batch)
        total = 0.0
        for example in batch:
            ids = torch.from_numpy(example.input_ids).long()
            trained = torch.from_numpy(example.trained)[1:]
            logits = model(ids[None]).logits[0, :-1]
            nats: Any = cross_entropy(logits[trained], ids[1:][trained], reduction="sum")
            loss = nats / num_trained
            loss.backward()
            total += loss.item()
        losses.append(total)
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        for group in optimizer.param_groups:
            group["lr"] = config.learning_rate * min(1.0, step / WARMUP)
        optimizer.step()
        optimizer.zero_grad()
    return losses


def losses(record: FinetuneRecord) -> list[float]:
    assert [step for step, _ in record.losses] == [1, 2, 3, 4, 5]
    return [loss for _, loss in record.losses]


def test_two_processes_compute_the_losses_of_plain_pytorch(
    by_two: FinetuneRecord, plain: list[float]
) -> None:
    assert losses(by_two) == pytest.approx(plain, abs=1e-5)
    assert plain[-1] < plain[0] - 0.5


@pytest.mark.parametrize(
    ("num", "micro_batch_size", "stage"), [(1, 8, 3), (2, 1, 2), (1, 4, 1), (1, 2, 0)]
)
def test_neither_processes_nor_micro_batches_nor_stages_change_a_loss(
    settings: dict[str, Any],
    plain: list[float],
    by_two: FinetuneRecord,
    tmp_path: Path,
    num: int,
    micro_batch_size: int,
    stage: int,
) -> None:
    record = trained(
        settings, tmp_path, num, micro_batch_size=micro_batch_size, zero={"stage": stage}
    )
    assert losses(record) == pytest.approx(plain, abs=1e-5)
    assert [each.loss for each in record.evaluations] == pytest.approx(
        [each.loss for each in by_two.evaluations], abs=1e-5
    )


def test_bfloat16_learns_nearly_the_same(
    settings: dict[str, Any], plain: list[float], tmp_path: Path
) -> None:
    record = trained(settings, tmp_path, 1, precision="bfloat16")
    assert losses(record) == pytest.approx(plain, abs=0.05)
    weights: Any = AutoModelForCausalLM.from_pretrained(tmp_path / "model").state_dict()
    assert {weight.dtype for weight in weights.values()} == {torch.bfloat16}


def test_perplexity_is_that_of_a_plain_forward_over_all_tokens(
    settings: dict[str, Any], by_two: FinetuneRecord
) -> None:
    config = FinetuneConfig.model_validate(settings | {"out": "unused"})
    codec = demo_codec()
    development = load_development_set(config, codec, load_training_set(config, codec))
    assert len(development.examples) == 5  # the last of three batches is of one, for one process
    for path, measured in (
        (settings["model"]["path"], by_two.before),
        (str(by_two.config.out / "model"), by_two.best),
    ):
        model: Any = AutoModelForCausalLM.from_pretrained(path)
        nats, tokens = 0.0, 0
        for example in development.examples:
            ids = torch.from_numpy(example.input_ids).long()
            with torch.no_grad():
                logits = model(ids[None]).logits[0, :-1]
            nats += float(cross_entropy(logits.double(), ids[1:], reduction="sum"))
            tokens += len(ids) - 1
        assert measured.loss == pytest.approx(nats / tokens, abs=1e-6)
        assert measured.perplexity == pytest.approx(math.exp(nats / tokens), rel=1e-6)
    assert [each.step for each in by_two.evaluations] == [0, 3, 5]
