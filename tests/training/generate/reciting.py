"""An engine that knows texts by heart, and remembers what it was asked."""

import random
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pipeline.engines.generation import Choosing, GenerationUsage, Step
from pipeline.engines.protocol import EngineInfo
from pipeline.tokens import TokenCodec
from tools.base import ConfigError, ContractError

MODEL = "pipeline/demo/model"
CODEC = TokenCodec.load(MODEL)
VOCABULARY = 1536
OPEN_ID = CODEC.open_ids[0]


@dataclass
class Reciting:
    """A GenerationEngine. `texts` are the likeliest first; each is its pieces, and then the end.

    After some tokens the model goes on as the first of the texts that begins with them, and which
    goes on with no banned token; after what no text begins with, it ends.
    """

    texts: Sequence[Sequence[str | bytes]]
    max_len: int = 500
    asked: list[tuple[list[int], Choosing]] = field(default_factory=list)
    announced: list[int] = field(default_factory=list)
    open_texts: int = 0
    most_likely: int = 1000  # tokens it tells of

    def __post_init__(self) -> None:
        self.info = EngineInfo("reciting", "1", "cpu", "float32", self.max_len, VOCABULARY, "none")
        self._known = [tokens(pieces) for pieces in self.texts]

    @asynccontextmanager
    async def begin(self, max_tokens: int) -> AsyncIterator["_Recited"]:
        if max_tokens >= self.max_len:
            raise _too_long(max_tokens, self.max_len - 1)
        self.announced.append(max_tokens)
        self.open_texts += 1
        try:
            text = _Recited(self, max_tokens)
            yield text
            assert not text.busy, "a stretch is left open"
        finally:
            self.open_texts -= 1

    def check(self, choosing: Choosing) -> None:
        if choosing.trigger_k > self.most_likely:
            raise ConfigError(f"api_top_k: got {choosing.trigger_k}, expected {self.most_likely}")

    def usage(self) -> GenerationUsage:
        return GenerationUsage()

    async def close(self) -> None:
        assert not self.open_texts

    def next_step(self, ids: list[int], choosing: Choosing) -> Step:
        begun = [known for known in self._known if known[: len(ids)] == ids]
        likeliest = dict.fromkeys(
            known[len(ids)] if len(known) > len(ids) else 0 for known in begun
        )
        return _chosen(list(likeliest), choosing)


class Babbling(Reciting):
    """An engine that says any of its `pieces`, each one token, the same after the same tokens.

    After a piece that `often` names, that which it names with it mostly comes next.
    """

    def __init__(self, pieces: Sequence[str], often: Mapping[str, str], seed: int) -> None:
        super().__init__([])
        self._seed = seed
        self._tokens = [0, *tokens(pieces)]
        self._often = dict(zip(tokens(list(often)), tokens(list(often.values())), strict=True))

    def next_step(self, ids: list[int], choosing: Choosing) -> Step:
        numbers = random.Random(f"{self._seed} {ids}")
        likeliest = numbers.sample(self._tokens, len(self._tokens))
        if ids[-1] in self._often and numbers.random() < 0.9:
            likeliest.insert(0, self._often[ids[-1]])
        return _chosen(likeliest, choosing)


class _Recited:
    def __init__(self, engine: Reciting, max_tokens: int) -> None:
        self._engine, self._max_tokens = engine, max_tokens
        self.busy = False

    async def stretch(
        self, ids: NDArray[np.int32], choosing: Choosing
    ) -> AsyncGenerator[Step, None]:
        assert ids.dtype == np.int32
        assert choosing.max_new_tokens >= 1
        assert not self.busy, "one stretch of a text at a time"
        if len(ids) + choosing.max_new_tokens > self._max_tokens:
            raise _too_long(len(ids) + choosing.max_new_tokens, self._max_tokens)
        so_far = ids.tolist()
        self._engine.asked.append((list(so_far), choosing))
        self.busy = True
        try:
            for _ in range(choosing.max_new_tokens):
                step = self._engine.next_step(so_far, choosing)
                so_far.append(step.token_id)
                yield step
                if step.token_id in choosing.stop_ids:
                    return
        finally:
            self.busy = False


def _chosen(likeliest: list[int], choosing: Choosing) -> Step:
    chosen = next((token_id for token_id in likeliest if token_id not in choosing.banned_ids), 0)
    trigger = choosing.trigger_id
    if trigger is not None and trigger in likeliest[: choosing.trigger_k]:
        assert trigger not in choosing.banned_ids
        return Step(trigger, triggered=chosen != trigger)
    return Step(chosen)


def tokens(pieces: Sequence[str | bytes]) -> list[int]:
    """The tokens of a text: of each piece that is text as one writes it, of bytes one by one."""
    ids: list[int] = []
    for piece in pieces:
        if isinstance(piece, str):
            ids += CODEC.encode_pieces([piece]).tolist()
        else:
            ids += [_BYTES[bytes([byte])] for byte in piece]
    return ids


def _too_long(got: int, allowed: int) -> ContractError:
    return ContractError(stage="recite", doc_id="test", got=str(got), expected=str(allowed))


_BYTES = {CODEC.token_bytes([token_id])[0]: token_id for token_id in range(VOCABULARY)}
