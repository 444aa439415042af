"""The reader: a small T5 v1.1 that reads several passages per question (Fusion-in-Decoder).

An answer is copied out of a passage, and copying takes layers that work together: some tell each
piece what stood before it, and one finds the place where the same stood before. A model of this
size does not come upon that by itself within 300 steps, so some heads begin as such heads;
everything stays trainable.

Shapes: B questions, N passages per question, R = B * N rows, T tokens, D channels, K per head.
"""

import random
from collections.abc import Iterator
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn
from transformers import T5Config
from transformers.modeling_outputs import BaseModelOutput

from tools.atlas.formats import query_of, reader_row
from tools.atlas.models import UntiedT5
from tools.atlas.tokenization import TextTokenizer
from training.tool_models.asked import Asked, Library, libraries
from training.tool_models.loop import IGNORED, Batch, padded
from training.tool_models.passages import Passage

_PAD = 0
_QUESTIONS_PER_BATCH = 16
_ONE_PASSAGE_SHARE = 0.1  # of the steps, the first: what is read is copied before it is chosen
_NUM_PASSAGES = (2, 2, 2, 4)  # two rows teach what to choose as well as four, in half the time
_WORLD_PAGES = 200
_PAGES_ALIKE = 4
_POOL_WEIGHTS = (2, 3, 1)

_WIDTH, _HEAD_SIZE = 128, 32
_NEAR = 8.0  # bias of the distance that a head looks back, over all others
_SHARPNESS = 0.6  # squared, times the 32 of a match: 11 nats


class FiD(nn.Module):
    """The loss of a batch whose rows are encoded apart and read together.

    A second loss, whose weights are thrown away after training, asks the states of the rows which
    passage is the right one: what a passage says is copied long before it is chosen.
    """

    def __init__(self, t5: UntiedT5) -> None:
        super().__init__()
        self.t5 = t5
        self.relevance = nn.Linear(t5.config.d_model, 1)

    def forward(self, rows_BNT: Tensor, right_B: Tensor, labels: Tensor) -> dict[str, Tensor]:
        num_questions, num_passages, width = rows_BNT.shape
        rows_RT = rows_BNT.view(-1, width)
        mask_RT = (rows_RT != _PAD).long()
        states_RTD = self.t5.encoder(input_ids=rows_RT, attention_mask=mask_RT).last_hidden_state
        output = self.t5(
            encoder_outputs=BaseModelOutput(
                last_hidden_state=states_RTD.reshape(num_questions, num_passages * width, -1)
            ),
            attention_mask=mask_RT.view(num_questions, -1),
            labels=labels,
        )
        scores_RT = self.relevance(states_RTD)[..., 0] * mask_RT
        scores_BN = (scores_RT.sum(1) / mask_RT.sum(1)).view(num_questions, num_passages)
        return {"loss": output.loss + nn.functional.cross_entropy(scores_BN, right_B)}


def new_reader(vocab_size: int) -> UntiedT5:
    """A reader to train: 1.1 M parameters, 3 + 2 layers. Draws from torch's global generator."""
    config: dict[str, Any] = {
        "vocab_size": vocab_size,
        "d_model": _WIDTH,
        "d_kv": _HEAD_SIZE,
        "d_ff": 2 * _WIDTH,
        "num_layers": 3,
        "num_decoder_layers": 2,
        "num_heads": _WIDTH // _HEAD_SIZE,
        "dropout_rate": 0.0,
        "feed_forward_proj": "gated-gelu",
        "tie_word_embeddings": False,
        "decoder_start_token_id": _PAD,
        "pad_token_id": _PAD,
        "eos_token_id": 1,
    }
    model = UntiedT5(T5Config(**config))
    with torch.no_grad():
        model.lm_head.weight.copy_(model.shared.weight * _WIDTH**-0.5)
        _look_back(model)
        _look_for_the_same(model)
    return model


def _head(number: int) -> slice:
    return slice(number * _HEAD_SIZE, (number + 1) * _HEAD_SIZE)


def _random_subspace(size: int = _HEAD_SIZE) -> Tensor:
    """Orthonormal rows [K, D]."""
    return nn.init.orthogonal_(torch.empty(size, _WIDTH))


def _look_back(model: UntiedT5) -> None:
    """The first layers begin as layers that copy.

    Heads 0 and 1 of the encoder look one and two pieces back, head 0 of the decoder one. The first
    cross-attention compares what they saw with the pieces written last: head 0 finds where the
    last one stood, head 1 where the last two did, and both bring what stands behind.
    """
    encoder, decoder = (f"{part}.block.0.layer.0.SelfAttention" for part in ("encoder", "decoder"))
    piece_KD, one_back_KD, two_back_KD, said_before_KD = (_random_subspace() for _ in range(4))
    for attention, head, back, written_KD in (
        (encoder, 0, 1, one_back_KD),
        (encoder, 1, 2, two_back_KD),
        (decoder, 0, 1, said_before_KD),
    ):
        bias = model.get_parameter(f"{attention}.relative_attention_bias.weight")
        bias[:, head] = 0.0
        bias[back, head] = _NEAR
        model.get_parameter(f"{attention}.q.weight")[_head(head)] = 0.0
        model.get_parameter(f"{attention}.v.weight")[_head(head)] = piece_KD
        model.get_parameter(f"{attention}.o.weight")[:, _head(head)] = written_KD.T
    query, key, value, output = (
        model.get_parameter(f"decoder.block.0.layer.1.EncDecAttention.{name}.weight")
        for name in "qkvo"
    )
    query[_head(0)] = _SHARPNESS * piece_KD
    key[_head(0)] = _SHARPNESS * one_back_KD
    query[_head(1)] = _SHARPNESS * (piece_KD + said_before_KD)
    key[_head(1)] = _SHARPNESS * (one_back_KD + two_back_KD)
    carried_KD = _random_subspace(2 * _HEAD_SIZE)
    value[: 2 * _HEAD_SIZE] = carried_KD
    output[:, : 2 * _HEAD_SIZE] = carried_KD.T


def _look_for_the_same(model: UntiedT5) -> None:
    """Head 2 of the second encoder layer begins as one that looks for the same piece elsewhere.

    So a name in a title finds itself in the question, if it is there. The bias against a piece
    itself is shared by all layers, as T5's are.
    """
    first, second = (f"encoder.block.{layer}.layer.0.SelfAttention" for layer in (0, 1))
    model.get_parameter(f"{first}.relative_attention_bias.weight")[0, 2] = -_NEAR
    piece_KD = _random_subspace()
    for name in "qk":
        model.get_parameter(f"{second}.{name}.weight")[_head(2)] = _SHARPNESS * piece_KD


def _neighbours(asked: Asked, library: Library, count: int, rng: random.Random) -> list[int]:
    """Other passages such as a retriever finds: of the page, of pages like it, and any.

    The pages of a world stand in the order of their titles, so that names near each other share
    their first syllables.
    """
    section = library.passages[asked.passage]["section"]
    alike = [number for number, each in enumerate(library.passages) if each["section"] == section]
    alike.sort(key=lambda number: abs(number - asked.passage))
    pools = (list(asked.page), alike[: 1 + _PAGES_ALIKE], range(len(library.passages)))
    chosen: list[int] = []
    while len(chosen) < count:
        (pool,) = rng.choices(pools, weights=_POOL_WEIGHTS)
        number = rng.choice(pool)
        if number != asked.passage and number not in chosen:
            chosen.append(number)
    return chosen


def reader_batches(tokenizer: TextTokenizer, *, steps: int, seed: int) -> Iterator[Batch]:
    """Questions with one passage at first, then with up to four, the right one among them."""
    rng = random.Random(f"reader {seed}")
    questions = (
        (asked, library)
        for library in libraries(f"reader {seed}", pages=_WORLD_PAGES)
        for asked in library.asked
    )
    for step in range(steps):
        alone = step < _ONE_PASSAGE_SHARE * steps
        num_passages = 1 if alone else rng.choice(_NUM_PASSAGES)
        rows, targets, right = [], [], []
        for asked, library in islice(questions, _QUESTIONS_PER_BATCH * (2 if alone else 1)):
            numbers = [asked.passage, *_neighbours(asked, library, num_passages - 1, rng)]
            rng.shuffle(numbers)
            right.append(numbers.index(asked.passage))
            rows += [_row(asked.question, library.passages[number]) for number in numbers]
            targets.append(f"<extra_id_0> {asked.answer}")
        yield {
            "rows_BNT": padded(tokenizer.encode(rows), _PAD).view(len(targets), num_passages, -1),
            "right_B": torch.tensor(right),
            "labels": padded(tokenizer.encode(targets), IGNORED),
        }


def _row(question: str, passage: Passage) -> str:
    return reader_row(query_of(question), title=passage["title"], text=passage["text"])
