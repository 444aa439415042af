"""Fusion-in-Decoder: every passage is encoded alone, the decoder attends to all of them.

Shapes: R rows of an encoder pass, L their length, B questions of a decoder pass, S packed tokens,
D d_model.

T5's cross-attention knows no positions, so padding can be left out before the states of a
question's passages are joined: what the decoder computes is the same.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import DynamicCache, EncoderDecoderCache

from tools.atlas.formats import TEXT_MAXLENGTH
from tools.atlas.models import build_reader, load_model
from tools.atlas.retriever import padded
from tools.atlas.saved import SPIECE
from tools.atlas.shapes import ReaderShapes
from tools.atlas.tokenization import load_t5_tokenizer

PAD, EOS = 0, 1  # padding is also what the decoder starts with


class Reader:
    """Answers questions from passages: greedy, and the same bits in any company."""

    def __init__(
        self,
        directory: Path,
        *,
        n_context: int,
        decoder_batch: int,
        max_new_tokens: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        model = load_model(build_reader, directory, dtype=dtype, device=device)
        self._model: Any = model
        self._tokenizer = load_t5_tokenizer(directory / SPIECE, max_length=TEXT_MAXLENGTH)
        self._max_new_tokens = max_new_tokens
        self._device, self._dtype = device, dtype
        config: Any = self._model.config
        inner_size = config.num_heads * config.d_kv
        self.shapes = ReaderShapes(
            d_model=config.d_model,
            cross_attention_bytes=2 * config.num_decoder_layers * inner_size * dtype.itemsize,
            n_context=n_context,
            decoder_batch=decoder_batch,
        )

    def answer(self, rows_of_questions: Sequence[Sequence[str]]) -> list[str]:
        """One answer for each question, given as its reader rows."""
        answers: list[str] = []
        size = self.shapes.questions_per_group
        for start in range(0, len(rows_of_questions), size):
            group = rows_of_questions[start : start + size]
            ids = self._tokenizer.encode([row for rows in group for row in rows])
            answers += map(
                self._tokenizer.decode, self.generate(ids, [len(rows) for rows in group])
            )
        return answers

    @torch.inference_mode()
    def generate(self, rows: Sequence[Sequence[int]], counts: Sequence[int]) -> list[list[int]]:
        """The token ids of the answers to questions with `counts` of the `rows` each."""
        packed_SD = [torch.cat(states) for states in _split(self._encode(rows), counts)]
        lengths = [self.shapes.packed_length(len(states)) for states in packed_SD]
        answers: list[list[int]] = [[] for _ in packed_SD]
        for length in sorted(set(lengths)):
            members = [index for index, own in enumerate(lengths) if own == length]
            size = self.shapes.questions_per_pass(length)
            for start in range(0, len(members), size):
                chosen = members[start : start + size]
                decoded = self._decode([packed_SD[index] for index in chosen], length, size)
                for index, answer in zip(chosen, decoded, strict=True):
                    answers[index] = answer
        return answers

    def _encode(self, rows: Sequence[Sequence[int]]) -> list[torch.Tensor]:
        """The states [len(row), D] of each row."""
        lengths = [self.shapes.row_length(len(row)) for row in rows]
        states: list[torch.Tensor] = [torch.empty(0)] * len(rows)
        for length in sorted(set(lengths)):
            members = [index for index, own in enumerate(lengths) if own == length]
            size = self.shapes.rows_per_pass(length)
            for start in range(0, len(members), size):
                chosen = members[start : start + size]
                ids, mask = padded([rows[i] for i in chosen], num_rows=size, length=length)
                states_RLD = self._model.encoder(
                    input_ids=ids.to(self._device), attention_mask=mask.to(self._device)
                ).last_hidden_state
                for place, index in enumerate(chosen):
                    states[index] = states_RLD[place, : len(rows[index])]
        return states

    def _decode(
        self, packed_SD: Sequence[torch.Tensor], length: int, num_questions: int
    ) -> list[list[int]]:
        """Greedy tokens up to the end token, which is left out."""
        device = self._device
        states_BSD = torch.zeros(
            (num_questions, length, self.shapes.d_model), dtype=self._dtype, device=device
        )
        mask_BS = torch.zeros((num_questions, length), dtype=torch.long, device=device)
        mask_BS[:, 0] = 1  # a dummy attends to one state of zeros
        for index, states in enumerate(packed_SD):
            states_BSD[index, : len(states)] = states
            mask_BS[index, : len(states)] = 1
        cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
        tokens_B = torch.full((num_questions,), PAD, device=device)
        is_done_B = torch.arange(num_questions, device=device) >= len(packed_SD)
        generated: list[torch.Tensor] = []
        for _ in range(self._max_new_tokens):
            states = self._model.decoder(
                input_ids=tokens_B[:, None],
                encoder_hidden_states=states_BSD,
                encoder_attention_mask=mask_BS,
                past_key_values=cache,
                use_cache=True,
            ).last_hidden_state
            tokens_B = self._model.lm_head(states[:, -1]).argmax(dim=-1)
            tokens_B = tokens_B.masked_fill(is_done_B, PAD)
            is_done_B = is_done_B | (tokens_B == EOS)
            generated.append(tokens_B)
            if bool(is_done_B.all()):
                break
        rows = torch.stack(generated, dim=1)[: len(packed_SD)].tolist()
        return [row[: row.index(EOS)] if EOS in row else row for row in rows]


def _split(states: Sequence[torch.Tensor], counts: Sequence[int]) -> list[list[torch.Tensor]]:
    rest = iter(states)
    return [[next(rest) for _ in range(count)] for count in counts]
