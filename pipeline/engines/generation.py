"""What generating text asks of a language model: stretches of tokens that go on from a text.

A text is begun once and then grows by stretches: until the next token that may begin a call, until
a call is whole, until its result has been inserted. What changes between two stretches is whatever
the caller says: tokens added at the end, or taken back. Keys and values of the tokens that stay
the same are reused, so that nothing is run twice.
"""

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from pipeline.engines.protocol import EngineInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class Choosing:
    """How the tokens of a stretch are chosen, and when it ends.

    A stretch ends after a token of `stop_ids`, of which `trigger_id` is one, or after
    `max_new_tokens`. Temperature 0 is greedy; else the token at place i of a text is drawn with
    the random number that belongs to `seed` and i, so that it does not matter how a text is cut
    into stretches, nor what else is in the batch. Not so in vLLM, which draws by a generator for
    each stretch: the same stretches give the same tokens, a text cut otherwise perhaps others.
    A token of `banned_ids` has probability 0. Where `trigger_id` is among the `trigger_k` most
    likely tokens of the model, it is chosen whatever regular decoding would choose (section 4.2);
    0 never does.
    """

    max_new_tokens: int
    stop_ids: frozenset[int] = frozenset()
    banned_ids: frozenset[int] = frozenset()
    trigger_id: int | None = None
    trigger_k: int = 0
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0


class Step(NamedTuple):
    """A token that was chosen. `triggered`: regular decoding would have chosen another."""

    token_id: int
    triggered: bool = False


class GenerationUsage(NamedTuple):
    """What the model did so far for all texts.

    `run_tokens` went through its body, `reused_tokens` did not because their keys and values were
    kept from an earlier stretch of their text, `decoded_tokens` were chosen.
    """

    run_tokens: int = 0
    reused_tokens: int = 0
    decoded_tokens: int = 0


class Text(Protocol):
    """A text that grows."""

    def stretch(self, ids: NDArray[np.int32], choosing: Choosing) -> AsyncGenerator[Step, None]:
        """What the model goes on with after `ids`: all tokens of the text so far, in int32.

        The begin-of-text token is not among them; `ids` may be empty. One stretch of a text at a
        time. It ends early, at no cost for others, when the iterator is closed or its task is
        cancelled.

        Raises:
            ContractError: the text would get longer than it was announced.
        """
        ...


class GenerationEngine(Protocol):
    """A causal language model with its weights loaded, for one event loop.

    Stretches of different texts run side by side, whenever they begin and end: a text that waits
    for a tool holds up none of the others.
    """

    info: EngineInfo

    def begin(self, max_tokens: int) -> AbstractAsyncContextManager[Text]:
        """A text of at most so many tokens, the begin-of-text token not counted.

        Waits until there is room for it beside those that are open, first come, first served;
        what was kept of it is forgotten at the end.

        Raises:
            ContractError: it is longer than the context of the model.
        """
        ...

    def check(self, choosing: Choosing) -> None:
        """Nothing, if stretches can be chosen like that, whatever `trigger_id` is.

        Raises:
            ConfigError: this engine cannot choose like that.
        """
        ...

    def usage(self) -> GenerationUsage: ...

    async def close(self) -> None:
        """End what runs; nothing can be asked after that."""
        ...
