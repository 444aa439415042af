"""The shapes of every forward pass, fixed by the model and the options, never by the batch.

The bits of a floating-point result depend on the shape of the pass it comes from. So each pass has
one of a few shapes, chosen by the length of the question's own texts, and free places are filled
with dummies: then an answer does not depend on what else is asked.
"""

import itertools
import math
from dataclasses import dataclass

from tools.atlas.formats import TEXT_MAXLENGTH

QUERY_STEP = 32
QUERIES_PER_PASS = 16
_ROW_STEP = 64
_PACKED_TOKENS_PER_ROW = 32
_ENCODER_TOKENS = 4096  # 10^13 operations of Atlas-xxl: enough to keep an accelerator busy
_ENCODER_TOKENS_SMALL = 1024  # a model this small runs on a CPU, where dummies cost time
_SMALL_D_MODEL = 256
_CROSS_ATTENTION_BYTES = 16 << 30
_GROUP_TOKENS = 1 << 19  # 4 GiB of encoder states of Atlas-xxl in bfloat16
_MAX_GROUP = 64
_MANY_ROWS = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderShapes:
    """The passes of the reader, from its config.json and what was asked for."""

    d_model: int
    cross_attention_bytes: int  # keys and values of one packed token in all layers
    n_context: int
    decoder_batch: int

    @property
    def questions_per_group(self) -> int:
        """How many questions are read together; no result depends on it."""
        return max(1, min(_MAX_GROUP, _GROUP_TOKENS // (self.n_context * TEXT_MAXLENGTH)))

    def row_length(self, num_tokens: int) -> int:
        """The padded length of a reader row of `num_tokens`."""
        return round_up(num_tokens, _ROW_STEP)

    def rows_per_pass(self, row_length: int) -> int:
        tokens = _ENCODER_TOKENS_SMALL if self.d_model < _SMALL_D_MODEL else _ENCODER_TOKENS
        return max(1, tokens // row_length)

    def packed_length(self, num_tokens: int) -> int:
        """The padded length of the packed encoder states of a question."""
        return round_up(num_tokens, _PACKED_TOKENS_PER_ROW * self.n_context)

    def questions_per_pass(self, packed_length: int) -> int:
        fitting = _CROSS_ATTENTION_BYTES // (packed_length * self.cross_attention_bytes)
        return max(1, min(self.decoder_batch, fitting))


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexShapes:
    """The passes of a search through an index of `num_rows` in all, in however many shards."""

    num_rows: int

    @property
    def queries_per_pass(self) -> int:
        # A search reads the whole index from memory, so that many queries should share it.
        return 64 if self.num_rows > _MANY_ROWS else 16

    @property
    def chunk_rows(self) -> int:
        eighth = max(1, math.ceil(self.num_rows / 8))
        return min(32768, max(64, 1 << (eighth - 1).bit_length()))

    def shard_ranges(self, num_shards: int) -> list[tuple[int, int]]:
        """At most `num_shards` ranges of rows that together are all rows, in order.

        They begin where chunks begin: each score then comes from the same pass in any of them.
        """
        num_chunks = math.ceil(self.num_rows / self.chunk_rows)
        num_shards = min(num_shards, num_chunks)
        edges = [
            min(number * num_chunks // num_shards * self.chunk_rows, self.num_rows)
            for number in range(num_shards + 1)
        ]
        return list(itertools.pairwise(edges))


def round_up(number: int, step: int) -> int:
    return -(-number // step) * step
