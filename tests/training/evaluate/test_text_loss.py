"""-log p with " [" disabled, against hand-computed numbers and transformers' own forward."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from pipeline.engines.torch_checkpoint import load_checkpoint, on_device
from pipeline.tokens import Ids
from tests.pipeline.tiny_checkpoints import save_checkpoint
from training.evaluate.text_loss import TextLoss, TextLosses, nats_without

CONTEXT = 16
BRACKETS = "a [b] c [d] (x) [y] z and so on, the city of Bologna lies in the north."


def test_the_other_tokens_share_the_probability_of_the_one_without() -> None:
    logits_RV = torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.7, 0.1, 0.1, 0.1]]).log()
    nats_R = nats_without(3, logits_RV, torch.tensor([0, 2]))
    assert nats_R.tolist() == pytest.approx([-math.log(0.1 / 0.6), -math.log(0.1 / 0.9)], abs=1e-6)


def test_what_an_almost_certain_call_leaves_to_the_others_is_exact() -> None:
    # p(" [") is 1 in float32, and log(1 - p) would be infinite.
    logits_RV = torch.tensor([[1.0, 2.0, 40.0]])
    nats = nats_without(2, logits_RV, torch.tensor([0]))
    assert nats.item() == pytest.approx(math.log(1 + math.e), abs=1e-6)


def losses(checkpoint: Path, texts: list[str], token_budget: int) -> tuple[list[TextLoss], Any]:
    model, codec, bos_id, weights_id = load_checkpoint(str(checkpoint), None, "float32")
    lm, info = on_device(model, torch.device("cpu"), weights_id)
    open_id = codec.open_ids[0]
    ids = [codec.canonical(text) for text in texts]
    of = TextLosses(lm, bos_id=bos_id, open_id=open_id, max_len=info.max_len)
    told: list[tuple[int, int]] = []
    got = of.of(ids, token_budget, lambda done, total: told.append((done, total)))
    assert told[-1] == (sum(map(len, ids)),) * 2 and told == sorted(told)
    whole: Any = AutoModelForCausalLM.from_pretrained(checkpoint)
    expected = [by_hand(whole, x, bos_id, open_id, info.max_len) for x in ids]
    return got, expected


@torch.inference_mode()
def by_hand(
    model: Any, ids: Ids, bos_id: int, open_id: int, context: int
) -> tuple[float, int, int]:
    """Sum, tokens that count and tokens left out, one token after the other."""
    total, counted, left_out = 0.0, 0, 0
    for place, token in enumerate(ids.tolist()):
        if token == open_id:
            left_out += 1
            continue
        first = place - place % context  # of its window
        before = torch.tensor([[bos_id, *ids[first:place].tolist()]])
        p_V = model(input_ids=before).logits[0, -1].double().softmax(dim=-1)
        total -= math.log(p_V[token] / (1 - p_V[open_id]))
        counted += 1
    return total, counted, left_out


# gpt_neox runs through transformers, padded; the budget makes several passes of both.
@pytest.mark.parametrize("architecture", ["gptj", "gpt_neox"])
def test_batches_of_windows_are_as_one_token_after_the_other(
    architecture: str, tmp_path: Path
) -> None:
    checkpoint = save_checkpoint(tmp_path, architecture, context=CONTEXT)
    texts = [BRACKETS, "The city lies in the north.", "[", "a [b] c"]
    got, expected = losses(checkpoint, texts, token_budget=2 * CONTEXT)
    assert max(loss.num_tokens for loss in got) > 2 * CONTEXT  # of three windows or more
    for loss, (nats, num_tokens, num_left_out) in zip(got, expected, strict=True):
        assert (loss.num_tokens, loss.num_left_out) == (num_tokens, num_left_out)
        assert loss.nats == pytest.approx(nats, rel=1e-4)
    assert (got[2].nats, got[2].num_tokens, got[2].num_left_out) == (0.0, 0, 1)
    assert got[0].num_left_out == 3


def test_a_window_is_as_long_as_the_context(tmp_path: Path) -> None:
    """Its last token is predicted from the begin-of-text token and all others."""
    checkpoint = save_checkpoint(tmp_path, "gptj", context=CONTEXT)
    model, _, bos_id, weights_id = load_checkpoint(str(checkpoint), None, "float32")
    lm, info = on_device(model, torch.device("cpu"), weights_id)
    of = TextLosses(lm, bos_id=bos_id, open_id=5, max_len=info.max_len)
    ids = np.arange(10, 10 + CONTEXT, dtype=np.int32)
    [whole] = of.of([ids], 8192, lambda done, total: None)
    assert (whole.num_tokens, lm.tokens_run) == (CONTEXT, CONTEXT)
    [longer] = of.of([np.append(ids, np.int32(9))], 8192, lambda done, total: None)
    [alone] = of.of([np.array([9], dtype=np.int32)], 8192, lambda done, total: None)
    assert longer.nats == pytest.approx(whole.nats + alone.nats, rel=1e-5)
