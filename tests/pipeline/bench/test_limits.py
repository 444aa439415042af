"""Bytes of decoding against numbers computed by hand."""

from dataclasses import replace

import numpy as np

from pipeline.bench.limits import decode_bytes
from pipeline.bench.work import ModelCost
from pipeline.bench.workload import Document, Sizes, make_documents

COST = ModelCost(
    linear_per_token=0, attention_per_pair=0, head_per_row=0, parameters=0,
    body_bytes=1000, head_bytes=100, kv_bytes_per_token=10,
)  # fmt: skip
SIZES = Sizes(document_tokens=8, header_tokens=4, k=2, m=3, new_tokens=3)
# Of each document: a header of 4, then x and a separator of 4; sampled before x[2] and x[5].
PLACES = np.array([2, 5], dtype=np.int32)


def documents(count: int) -> list[Document]:
    made = make_documents(SIZES, vocabulary=64, count=count, seed=3)
    return [replace(document, positions=PLACES) for document in made]


def test_a_step_reads_the_weights_once_and_every_prefix_once() -> None:
    [document] = documents(1)
    # Begin and header, 12 tokens of the prompt, 5 of x, in each of three steps; then the opening
    # token of two positions, and of six samples two and three tokens of their own.
    tokens = 3 * (5 + 12 + 5) + 2 + 6 * (2 + 3)
    assert decode_bytes(COST, [document], new_tokens=3) == 3 * 1100 + 10 * tokens


def test_a_shared_header_is_read_once_for_all_documents() -> None:
    first, second = documents(2)
    tokens = 3 * (5 + 2 * 17) + 2 * (2 + 6 * 5)
    assert decode_bytes(COST, [first, second], new_tokens=3) == 3 * 1100 + 10 * tokens
    prompt_ids = second.prompt_ids.copy()
    prompt_ids[3] += 1
    other = replace(second, prompt_ids=prompt_ids)
    assert decode_bytes(COST, [first, other], new_tokens=3) == 3 * 1100 + 10 * (tokens + 3 * 5)
