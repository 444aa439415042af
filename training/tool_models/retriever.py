"""The retriever: a small BERT whose mean-pooled states of question and passage are compared.

Trained as dual encoders are: all passages of a world but its own are wrong answers to a question.

Shapes: Q questions, P passages, R texts, T tokens, D channels.
"""

import random
from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor, nn
from transformers import BertConfig, BertModel

from tools.atlas.formats import query_of
from tools.atlas.tokenization import TextTokenizer
from training.tool_models.asked import draw_library
from training.tool_models.loop import Batch, padded
from training.tool_models.passages import Passage

RETRIEVER_FORMAT = "{title} {text}"
_PAD = 0
_QUESTIONS_PER_BATCH = 64
_PAGES_PER_BATCH = 40
_TEXTS_PER_PASS = 64


class DualEncoder(nn.Module):
    """The loss of questions among all passages of a batch; `labels` number the right ones."""

    def __init__(self, bert: BertModel) -> None:
        super().__init__()
        self.bert = bert

    def forward(
        self, questions_QT: Tensor, passages_PT: Tensor, labels: Tensor
    ) -> dict[str, Tensor]:
        scores_QP = pooled(self.bert, questions_QT) @ pooled(self.bert, passages_PT).T
        return {"loss": nn.functional.cross_entropy(scores_QP, labels)}


def new_retriever(vocab_size: int) -> BertModel:
    """A retriever to train: 0.4 M parameters, 2 layers of width 128, heads of 64 as in BERT."""
    config = BertConfig(
        vocab_size=vocab_size,
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=256,
        max_position_embeddings=512,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return BertModel(config, add_pooling_layer=False)  # type: ignore[no-untyped-call]


def pooled(bert: nn.Module, ids_RT: Tensor) -> Tensor:
    """The mean of the last states over the tokens of each row, [R, D], not normalised."""
    mask_RT = (ids_RT != _PAD).long()
    states_RTD = bert(input_ids=ids_RT, attention_mask=mask_RT).last_hidden_state
    mean_RD: Tensor = (states_RTD * mask_RT[..., None]).sum(1) / mask_RT.sum(1, keepdim=True)
    return mean_RD


def passage_text(passage: Passage) -> str:
    """What is embedded of a passage."""
    return RETRIEVER_FORMAT.format(title=passage["title"], text=passage["text"])


@torch.inference_mode()
def embed(bert: nn.Module, tokenizer: TextTokenizer, texts: Sequence[str]) -> Tensor:
    """The embeddings of `texts`, [R, D]."""
    return torch.cat(
        [
            pooled(bert, padded(tokenizer.encode(texts[start : start + _TEXTS_PER_PASS]), _PAD))
            for start in range(0, len(texts), _TEXTS_PER_PASS)
        ]
    )


def retriever_batches(tokenizer: TextTokenizer, *, steps: int, seed: int) -> Iterator[Batch]:
    """Per step the passages of one fresh world and questions about it."""
    rng = random.Random(f"retriever {seed}")
    for _ in range(steps):
        library = draw_library(rng, pages=_PAGES_PER_BATCH)
        asked = library.asked[:_QUESTIONS_PER_BATCH]
        yield {
            "questions_QT": _rows(tokenizer, (query_of(each.question) for each in asked)),
            "passages_PT": _rows(tokenizer, map(passage_text, library.passages)),
            "labels": torch.tensor([each.passage for each in asked]),
        }


def _rows(tokenizer: TextTokenizer, texts: Iterable[str]) -> Tensor:
    return padded(tokenizer.encode(list(texts)), _PAD)
