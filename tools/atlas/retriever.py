"""Contriever: the embedding of a query is the mean of BERT's states over its tokens."""

from collections.abc import Sequence
from pathlib import Path

import torch

from tools.atlas.formats import TEXT_MAXLENGTH
from tools.atlas.models import build_retriever, load_model
from tools.atlas.saved import VOCAB
from tools.atlas.shapes import QUERIES_PER_PASS, QUERY_STEP, round_up
from tools.atlas.tokenization import load_bert_tokenizer


class Retriever:
    """Embeds queries, in float32: it is a hundredth of the reader's work."""

    def __init__(self, directory: Path, *, device: torch.device) -> None:
        self._model = load_model(build_retriever, directory, dtype=torch.float32, device=device)
        self._device = device
        positions = self._model.get_parameter("embeddings.position_embeddings.weight").shape[0]
        self._max_length = min(TEXT_MAXLENGTH, positions)
        self._tokenizer = load_bert_tokenizer(directory / VOCAB, max_length=self._max_length)

    @torch.inference_mode()
    def embed(self, queries: Sequence[str]) -> torch.Tensor:
        """[len(queries), D] in float32, not normalised."""
        ids = self._tokenizer.encode(queries)
        lengths = [min(round_up(len(row), QUERY_STEP), self._max_length) for row in ids]
        embeddings: list[torch.Tensor | None] = [None] * len(ids)
        for length in sorted(set(lengths)):
            members = [index for index, own in enumerate(lengths) if own == length]
            for start in range(0, len(members), QUERIES_PER_PASS):
                chosen = members[start : start + QUERIES_PER_PASS]
                embedded = self._embed_pass([ids[index] for index in chosen], length)
                for index, embedding in zip(chosen, embedded, strict=False):
                    embeddings[index] = embedding
        return torch.stack([embedding for embedding in embeddings if embedding is not None])

    def _embed_pass(self, rows: list[list[int]], length: int) -> torch.Tensor:
        ids, mask = padded(rows, num_rows=QUERIES_PER_PASS, length=length)
        ids, mask = ids.to(self._device), mask.to(self._device)
        states = self._model(input_ids=ids, attention_mask=mask).last_hidden_state
        states = states.masked_fill(mask[..., None] == 0, 0.0)
        mean: torch.Tensor = states.sum(dim=1) / mask.sum(dim=1)[..., None]
        return mean


def padded(
    rows: Sequence[Sequence[int]], *, num_rows: int, length: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and mask [num_rows, length]; a free row is one token of padding."""
    ids = torch.zeros((num_rows, length), dtype=torch.long)
    mask = torch.zeros((num_rows, length), dtype=torch.long)
    mask[:, 0] = 1
    for index, row in enumerate(rows):
        ids[index, : len(row)] = torch.tensor(row)
        mask[index, : len(row)] = 1
    return ids, mask
