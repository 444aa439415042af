"""The networks, compared with plain computations and with themselves in other company."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import BertModel
from transformers.modeling_outputs import BaseModelOutput

from tests.tools.atlas.tiny_atlas import PASSAGES, small_state
from tools.atlas.formats import query_of, reader_row
from tools.atlas.models import UntiedT5
from tools.atlas.reader import Reader
from tools.atlas.retriever import Retriever
from tools.atlas.shapes import ReaderShapes
from tools.atlas.tokenization import load_t5_tokenizer

CPU = torch.device("cpu")
Rows = list[list[int]]


def open_reader(atlas: Path, *, dtype: torch.dtype = torch.float32, **options: int) -> Reader:
    settings = {"n_context": 4, "decoder_batch": 3, "max_new_tokens": 12, **options}
    return Reader(atlas / "reader", dtype=dtype, device=CPU, **settings)


@pytest.fixture(scope="module")
def reader(atlas: Path) -> Reader:
    return open_reader(atlas)


@pytest.fixture(scope="module")
def questions(atlas: Path) -> list[Rows]:
    """The reader rows of 11 questions, of many lengths; the last has fewer rows and one is cut."""
    tokenizer = load_t5_tokenizer(atlas / "reader" / "spiece.model", max_length=512)
    chosen = random.Random(1)
    questions = []
    for number in range(11):
        query = query_of(f"where is {PASSAGES[number]['title']} {'near ' * number}?")
        passages = chosen.sample(PASSAGES, 4 if number < 10 else 3)
        texts = [reader_row(query, title=str(p["title"]), text=str(p["text"])) for p in passages]
        if number == 5:
            texts[2] += " the river" * 300
        questions.append(tokenizer.encode(texts))
    return questions


def run(reader: Reader, questions: Sequence[Rows]) -> tuple[list[list[int]], list[torch.Tensor]]:
    """Answers, and the logits [B, vocab] of every step of every decoder pass."""
    steps: list[torch.Tensor] = []
    model: Any = reader._model
    hook = model.lm_head.register_forward_hook(lambda module, args, out: steps.append(out))
    try:
        rows = [row for question in questions for row in question]
        return reader.generate(rows, [len(question) for question in questions]), steps
    finally:
        hook.remove()


def padded_answer(model: Any, rows: Rows, max_new_tokens: int) -> tuple[list[int], torch.Tensor]:
    """As Atlas computes it: rows padded to 512, all states joined, no cache."""
    ids, mask = torch.zeros(len(rows), 512, dtype=torch.long), torch.zeros(len(rows), 512)
    for index, row in enumerate(rows):
        ids[index, : len(row)] = torch.tensor(row)
        mask[index, : len(row)] = 1
    with torch.inference_mode():
        states = model.encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        fused = BaseModelOutput(last_hidden_state=states.reshape(1, -1, states.shape[-1]))
        tokens, steps = [0], []
        while len(tokens) <= max_new_tokens and tokens[-1] != 1:
            logits = model(
                encoder_outputs=fused,
                attention_mask=mask.reshape(1, -1),
                decoder_input_ids=torch.tensor([tokens]),
                use_cache=False,
            ).logits
            steps.append(logits[0, -1])
            tokens.append(int(logits[0, -1].argmax()))
    return [token for token in tokens[1:] if token != 1], torch.stack(steps)


@pytest.fixture(scope="module")
def plain_t5(reader: Reader) -> Any:
    """The reader's network with the weights of the checkpoint, loaded by none of our code."""
    model: Any = UntiedT5(reader._model.config)
    state = {
        key.removeprefix("reader."): weight
        for key, weight in small_state().items()
        if key.startswith("reader.") and "EncDecAttention.relative" not in key
    }
    model.load_state_dict(state)
    return model.eval()


def test_packed_passages_give_what_padded_ones_give(
    reader: Reader, questions: list[Rows], plain_t5: Any
) -> None:
    lengths, largest = set(), 0.0
    for rows in questions:
        (answer,), steps = run(reader, [rows])
        expected, expected_logits = padded_answer(plain_t5, rows, 12)
        assert answer == expected
        logits = torch.stack([step[0] for step in steps])
        largest = max(largest, float((logits - expected_logits).abs().max()))
        lengths.add(len(answer))
    assert largest < 1e-5
    assert len(lengths) > 1  # some answers end, others are cut


def test_one_passage_is_plain_t5(atlas: Path, questions: list[Rows], plain_t5: Any) -> None:
    reader = open_reader(atlas, n_context=1)
    for rows in questions[:4]:
        (answer,), _ = run(reader, [rows[:1]])
        generated = plain_t5.generate(
            input_ids=torch.tensor(rows[:1]), max_new_tokens=12, do_sample=False, use_cache=False,
            decoder_start_token_id=0, pad_token_id=0, eos_token_id=1,
        )  # fmt: skip
        assert answer == [token for token in generated[0, 1:].tolist() if token != 1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_logits_have_the_same_bits_in_any_batch_and_order(
    atlas: Path, questions: list[Rows], dtype: torch.dtype
) -> None:
    reader = open_reader(atlas, dtype=dtype)
    alone = [run(reader, [rows]) for rows in questions]
    orders = [list(range(11)), list(reversed(range(11))), random.Random(2).sample(range(11), 7)]
    for order in orders:
        answers, steps = run(reader, [questions[index] for index in order])
        assert answers == [alone[index][0][0] for index in order]
        # Whatever place a question has in a pass, its logits are among those of the pass.
        seen = {step[place].float().numpy().tobytes() for step in steps for place in range(3)}
        for index in order:
            for step in alone[index][1]:
                assert step[0].float().numpy().tobytes() in seen


def test_the_order_of_passages_does_not_change_an_answer(
    reader: Reader, questions: list[Rows]
) -> None:
    answers, _ = run(reader, questions)
    assert run(reader, [rows[::-1] for rows in questions])[0] == answers
    assert len(set(map(tuple, answers))) > 3


def test_shapes_come_from_the_length_of_a_question_alone() -> None:
    small = ReaderShapes(d_model=64, cross_attention_bytes=4096, n_context=4, decoder_batch=16)
    assert [small.row_length(n) for n in (1, 64, 65, 512)] == [64, 64, 128, 512]
    assert (small.rows_per_pass(64), small.rows_per_pass(512)) == (16, 2)
    assert [small.packed_length(n) for n in (1, 128, 129)] == [128, 128, 256]
    # Atlas-xxl in bfloat16: keys and values of 24 layers of 64 x 64 are 393,216 bytes a token.
    bytes_per_token = 2 * 24 * 4096 * 2
    xxl = ReaderShapes(
        d_model=4096, cross_attention_bytes=bytes_per_token, n_context=40, decoder_batch=16
    )
    assert (xxl.rows_per_pass(192), xxl.packed_length(7200)) == (21, 7680)
    assert xxl.questions_per_pass(7680) == 5  # 16 GiB / 3.02 GB
    assert xxl.questions_per_pass(40 * 512) == 2
    assert (xxl.questions_per_group, small.questions_per_group) == (25, 64)


def test_queries_are_embedded_as_the_mean_of_berts_states(atlas: Path) -> None:
    retriever = Retriever(atlas / "retriever", device=CPU)
    model: Any = BertModel(  # type: ignore[no-untyped-call]
        retriever._model.config, add_pooling_layer=False
    )
    prefix = "retriever.contriever."
    state = {
        key.removeprefix(prefix): weight
        for key, weight in small_state().items()
        if key.startswith(prefix) and "position_ids" not in key
    }
    model.load_state_dict(state)
    queries = [query_of(f"where is the river {'near ' * number}") for number in range(0, 60, 3)]
    embedded_QD = retriever.embed(queries)
    for query, embedding in zip(queries, embedded_QD, strict=True):
        (ids,) = retriever._tokenizer.encode([query])
        assert len(ids) <= 48  # the retriever has no more positions
        with torch.inference_mode():
            states = model.eval()(input_ids=torch.tensor([ids])).last_hidden_state
        assert torch.allclose(states[0].mean(dim=0), embedding, atol=1e-5, rtol=0)
    for index in (0, 7, 19):
        assert torch.equal(retriever.embed([queries[index]])[0], embedded_QD[index])
    assert torch.equal(retriever.embed(queries[::-1]), embedded_QD.flip(0))
