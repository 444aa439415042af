"""P and L as passes: one sequence, the places whose next token is asked about, and which tokens.

Shape suffixes: R rows, A token ids of interest, n tokens of x, W window width.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.engines.protocol import LossRequest, PositionRequest, SampleRequest

Tokens = NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """`tokens` go on after `beginning`; `rows` are places in `tokens`."""

    beginning: Tokens
    tokens: Tokens
    rows: NDArray[np.int64]  # [R]
    ids_RA: NDArray[np.int64]


def position_pass(
    request: PositionRequest, token_ids: Sequence[int], *, bos_id: int, shared: int
) -> Pass:
    """All n rows of [P(x), x], the first `shared` tokens of it as the beginning.

    Row i predicts what comes after x[:i].
    """
    n = len(request.x_ids)
    whole = whole_text(request, bos_id)[: 1 + len(request.prompt_ids) + max(n - 1, 0)]
    return Pass(
        beginning=whole[:shared],
        tokens=whole[shared:],
        rows=len(request.prompt_ids) - shared + np.arange(n),
        ids_RA=np.broadcast_to(np.array(token_ids, dtype=np.int64), (n, len(token_ids))),
    )


def whole_text(request: PositionRequest | SampleRequest, bos_id: int) -> Tokens:
    """The begin-of-text token, P(x) and x."""
    return joined([bos_id], request.prompt_ids, request.x_ids)


def text_key(request: PositionRequest | SampleRequest) -> tuple[bytes, bytes, int]:
    """What identifies what P leaves of a text: its prompt, how much of that is shared, and x."""
    return request.prompt_ids.tobytes(), request.x_ids.tobytes(), shared_tokens(request)


def shared_tokens(request: PositionRequest | SampleRequest) -> int:
    """How many tokens of the whole text are the same for every document; 0 or more than one.

    At least the last token of the prompt is left: its row predicts the first of x.
    """
    header = min(request.header_len, len(request.prompt_ids) - 1)
    return 1 + header if header > 0 else 0


class LossPasses:
    """The passes of L: requests of the same z and x share one, windows that overlap share rows."""

    def __init__(self, requests: Sequence[LossRequest], width: int, bos_id: int) -> None:
        self._requests, self._width = requests, width
        self._keys = [(r.z_ids.tobytes(), r.x_ids.tobytes()) for r in requests]
        documents = dict(zip(self._keys, requests, strict=True))
        wanted: dict[tuple[bytes, bytes], set[int]] = {key: set() for key in self._keys}
        for key, request in zip(self._keys, requests, strict=True):
            for i in request.positions.tolist():
                wanted[key].update(range(i, min(i + width, len(request.x_ids))))
        self._wanted = {
            key: np.array(sorted(tokens), dtype=np.int64)
            for key, tokens in wanted.items()
            if tokens
        }
        self.passes = [
            self._pass(documents[key], tokens_R, bos_id) for key, tokens_R in self._wanted.items()
        ]

    def answers(
        self, logprobs: Sequence[NDArray[np.float32] | None]
    ) -> list[NDArray[np.float32] | None]:
        """For each request [Q, W] out of what the passes gave, each [R, 1]; NaN past the end."""
        by_key = dict(zip(self._wanted, logprobs, strict=True))
        answers: list[NDArray[np.float32] | None] = []
        for key, request in zip(self._keys, self._requests, strict=True):
            logprobs_R1 = by_key.get(key)
            if not request.positions.size:
                answers.append(np.zeros((0, self._width), dtype=np.float32))
            elif logprobs_R1 is None:
                answers.append(None)
            else:
                of_token = np.full(len(request.x_ids) + self._width, np.nan, dtype=np.float32)
                of_token[self._wanted[key]] = logprobs_R1[:, 0]
                answers.append(of_token[request.positions[:, None] + np.arange(self._width)])
        return answers

    @staticmethod
    def _pass(request: LossRequest, tokens_wanted_R: NDArray[np.int64], bos_id: int) -> Pass:
        """The shortest sequence that predicts every wanted token of x."""
        tokens = joined([bos_id], request.z_ids, request.x_ids[: int(tokens_wanted_R[-1])])
        return Pass(
            beginning=tokens[:0],
            tokens=tokens,
            rows=len(request.z_ids) + tokens_wanted_R,
            ids_RA=request.x_ids[tokens_wanted_R].astype(np.int64)[:, None],
        )


def joined(*parts: Sequence[int] | Tokens) -> Tokens:
    """Tokens one after the other, int32."""
    return np.concatenate(parts).astype(np.int32)
