"""Texts that grow, in both forms of a model, against plain forwards over all of each text."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

from pipeline.engines.causal_lm import CausalLM, causal_lm
from pipeline.engines.packed.lm import PackedLM
from pipeline.engines.packed.model import Tokens
from pipeline.engines.packed.texts import PackedTexts
from pipeline.engines.plain_lm import PlainLM
from tests.pipeline.engines.asked import at, ids
from tests.pipeline.engines.conftest import ARCHITECTURES
from tests.pipeline.tiny_checkpoints import CONTEXT, VOCABULARY, save_checkpoint


@pytest.fixture(scope="module", params=ARCHITECTURES)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A model as it is, and in the form in which it is run."""
    path = save_checkpoint(tmp_path_factory.mktemp("texts"), request.param)
    model: Any = AutoModelForCausalLM.from_pretrained(path)
    lm = causal_lm(model.eval(), torch.device("cpu"), CONTEXT)
    assert isinstance(lm, PlainLM if request.param == "gpt_neox" else PackedLM)
    return model, lm


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> PackedLM:
    path: Path = save_checkpoint(tmp_path_factory.mktemp("packed"), "llama")
    model: Any = AutoModelForCausalLM.from_pretrained(path)
    lm = causal_lm(model.eval(), torch.device("cpu"), CONTEXT)
    assert isinstance(lm, PackedLM)
    return lm


@torch.inference_mode()
def plain_logits(model: Any, text: Tokens) -> Tensor:
    logits_V: Tensor = model(input_ids=torch.from_numpy(text.astype(np.int64))[None]).logits[0, -1]
    return logits_V


def test_texts_that_come_grow_shrink_and_go(pair: tuple[Any, CausalLM]) -> None:
    model, lm = pair
    texts, random, before = lm.texts(), np.random.default_rng(5), lm.tokens_run
    held: dict[int, Tokens] = {}
    compared = run = longest = most = 0
    for turn in range(60):
        while len(held) < 2 or (len(held) < 9 and random.random() < 0.4):
            held[texts.begin()] = ids(0)
        for number in list(held):
            if random.random() < 0.04:
                texts.forget(number)
                del held[number]
            elif random.random() < 0.1:
                length = int(random.integers(0, len(held[number]) + 1))
                texts.cut(number, length)
                held[number] = held[number][:length]
        # Half of the passes are one token each; not all texts take part.
        at_most = 2 if turn % 2 else 16
        added = {
            number: ids(int(random.integers(1, at_most)), seed=turn)
            for number in random.permutation(list(held)).tolist()
            if random.random() < 0.8 and len(held[number]) + at_most <= CONTEXT
        }
        if not added:
            continue
        with torch.inference_mode():
            logits_NV = lm.head.logits(texts.extend(list(added), list(added.values())))
        for (number, tokens), logits_V in zip(added.items(), logits_NV, strict=True):
            held[number] = np.concatenate([held[number], tokens])
            run += len(tokens)
            longest, most = max(longest, len(held[number])), max(most, len(added))
            if random.random() < 0.4:
                torch.testing.assert_close(
                    logits_V, plain_logits(model, held[number]), atol=2e-3, rtol=1e-3
                )
                compared += 1
    # Some outgrew the first grid, of 64 columns.
    assert compared > 50 and longest > 64 and most > 5
    assert lm.tokens_run - before == run


def test_slots_are_used_again_and_nothing_is_held_of_no_texts(packed: PackedLM) -> None:
    texts = packed.texts()
    assert isinstance(texts, PackedTexts)
    first = [texts.begin() for _ in range(3)]
    texts.extend(first, [ids(3), ids(70), ids(5)])
    assert {grid.columns: grid.keys.shape[1] for grid in texts._grids.values()} == {64: 2, 128: 1}
    texts.forget(first[0])
    late = texts.begin()
    texts.extend([late], [ids(2)])
    assert {grid.columns: grid.used for grid in texts._grids.values()} == {64: {0, 1}, 128: {0}}
    for number in (late, *first[1:], texts.begin()):
        texts.forget(number)
    assert not texts._grids and not texts._texts


def test_what_a_slot_held_before_changes_no_number(packed: PackedLM) -> None:
    fresh, used = packed.texts(), packed.texts()
    numbers = [used.begin() for _ in range(4)]
    used.extend(numbers, [ids(60, seed=seed) for seed in range(4)])
    for number in numbers:
        used.cut(number, 0)
    beside = [fresh.begin() for _ in range(4)]
    for pieces in ([ids(9)] * 4, [ids(1)] * 4, [ids(5, seed=2)] * 4):
        assert fresh.extend(beside, pieces).equal(used.extend(numbers, pieces))


def test_what_was_no_number_is_gone_with_its_tokens(packed: PackedLM) -> None:
    broken = at(next(token for token in range(VOCABULARY) if token not in (*ids(9), *ids(4))))
    sound_D = packed._weights.embedding[int(broken[0])].clone()
    texts, expected = packed.texts(), packed.texts()
    with torch.inference_mode():
        packed._weights.embedding[int(broken[0])] = float("nan")
        first, left, cut = [texts.begin() for _ in range(3)]  # the first keeps the grid
        texts.extend([first, left, cut], [ids(9), ids(4), ids(4)])
        h_ND = texts.extend([left, cut], [broken, broken])
        packed._weights.embedding[int(broken[0])] = sound_D
    assert h_ND.isnan().any(dim=-1).tolist() == [True, True]
    texts.forget(left)
    texts.cut(cut, 3)
    late = texts.begin()
    texts.extend([late], [ids(2)])
    beside = [expected.begin() for _ in range(3)]
    expected.extend(beside, [ids(9), ids(2), ids(4)[:3]])
    # One token each: they attend over the columns of the longest, most of them masked.
    pieces = [ids(1)] * 3
    torch.testing.assert_close(
        texts.extend([first, late, cut], pieces), expected.extend(beside, pieces)
    )


def test_a_pass_that_breaks_off_changes_no_text(
    pair: tuple[Any, CausalLM], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, lm = pair
    texts = lm.texts()
    numbers = [texts.begin(), texts.begin()]
    texts.extend(numbers, [ids(9), ids(12)])
    body: Any = lm._weights if isinstance(lm, PackedLM) else lm.body  # type: ignore[attr-defined]
    last = body.layers[-1].mlp
    kind, run_it = type(last), type(last).__call__

    def full(module: Any, *args: Any, **settings: Any) -> Any:
        if module is last:
            raise torch.OutOfMemoryError("full")
        return run_it(module, *args, **settings)

    run = lm.tokens_run
    with monkeypatch.context() as patched:
        patched.setattr(kind, "__call__", full)
        with pytest.raises(torch.OutOfMemoryError):
            texts.extend(numbers, [ids(4), ids(60)])
    assert lm.tokens_run == run
    h_ND = texts.extend(numbers, [ids(2), ids(3)])
    with torch.inference_mode():
        logits_NV = lm.head.logits(h_ND)
    for logits_V, text in zip(
        logits_NV,
        (np.concatenate([ids(9), ids(2)]), np.concatenate([ids(12), ids(3)])),
        strict=True,
    ):
        torch.testing.assert_close(logits_V, plain_logits(model, text), atol=2e-3, rtol=1e-3)
