"""What M reads of a unit: one text for one tool at a time, in groups of whole documents."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.engines.protocol import Sample
from pipeline.method import Method, ToolMethod
from pipeline.tokens import TokenCodec
from pipeline.windows import Window, windows_of
from tools.prompt import header, render

NO_IDS = np.zeros(0, dtype=np.int32)

# The last tokens of a prompt's examples may merge with the first of a text.
_SEAM_TOKENS = 2


@dataclass(slots=True, kw_only=True)
class Job:
    """One text that M reads for one tool. Positions are the window's."""

    row: int
    tool: ToolMethod
    window: Window
    prompt_ids: NDArray[np.int32]
    header_len: int  # of prompt_ids, the same for every text
    fits: bool = True  # the engine has answered everything so far
    p_api_n: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    positions: NDArray[np.int32] = field(default_factory=lambda: NO_IDS)
    loss_empty: dict[int, float] = field(default_factory=dict)  # by position, nats
    live: list[int] = field(default_factory=list)  # positions where a call can still be kept
    samples: list[list[Sample]] = field(default_factory=list)  # for each live position


def jobs_of(rows: Sequence[Mapping[str, Any]], method: Method, codec: TokenCodec) -> list[Job]:
    """Every text of IN_FLIGHT rows for every tool it is offered to, in order."""
    headers = {name: codec.prompt_ids(header(t.template)) for name, t in method.tools.items()}
    return [
        _job(index, window, method[offer["tool"]], headers[offer["tool"]], codec)
        for index, row in enumerate(rows)
        if row["dropped"] is None
        for offer in row["offers"]
        for window in windows_of(row, offer["tool"], codec)
    ]


def groups_that_fit(jobs: Sequence[Job], kept_tokens: int) -> Iterator[list[Job]]:
    """The jobs of whole documents, as many as the engine keeps P's keys and values of."""
    group: list[Job] = []
    tokens = 0
    for _, jobs_of_row in groupby(jobs, key=lambda job: job.row):
        document = list(jobs_of_row)
        more = sum(len(j.prompt_ids) - j.header_len + len(j.window.x_ids) for j in document)
        if group and kept_tokens and tokens + more > kept_tokens:
            yield group
            group, tokens = [], 0
        group += document
        tokens += more
    if group:
        yield group


def _job(
    index: int,
    window: Window,
    tool: ToolMethod,
    header_ids: NDArray[np.int32],
    codec: TokenCodec,
) -> Job:
    prompt_ids = codec.prompt_ids(render(tool.template, window.text))
    shared = max(len(header_ids) - _SEAM_TOKENS, 0)
    same = np.array_equal(prompt_ids[:shared], header_ids[:shared])
    return Job(
        row=index,
        tool=tool,
        window=window,
        prompt_ids=prompt_ids,
        header_len=shared if same else 0,
    )
