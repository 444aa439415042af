"""What the torch engines ask of a model in memory, and which of the two ways a model is run.

Shape suffixes: R rows, N samples or texts being decoded, D hidden size, V vocabulary.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel

from pipeline.engines.head import LMHead
from pipeline.engines.packed.architectures import NotPacked, packed_weights
from pipeline.engines.packed.model import KeptTokens, Tokens
from tools.base import ConfigError

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefix:
    """A text to go on from, where it was left: `tokens` come after those of `beginning`."""

    tokens: Tokens
    beginning: KeptTokens | None = None
    kept: KeptTokens | None = None  # of `tokens`; None where a model keeps nothing


class Decoder(Protocol):
    """Branches that grow by a token a step, from places in prefixes."""

    def step(self, tokens_N: NDArray[np.int64], parents_N: NDArray[np.int64]) -> Tensor:
        """The hidden states [N, D] of N branches of one more token.

        Branch n goes on from branch `parents_N[n]` of the step before, in the first step from
        that root. Branches nobody goes on from are forgotten.
        """
        ...


class GrowingTexts(Protocol):
    """Texts whose keys and values are kept while tokens are added to them."""

    def begin(self) -> int:
        """The number of a new, empty text."""
        ...

    def extend(self, numbers: Sequence[int], tokens: Sequence[Tokens]) -> Tensor:
        """The hidden states [N, D] after the last token of N different texts.

        Each text is given one token or more, which come after what it has. Where this raises,
        all texts are as they were.
        """
        ...

    def cut(self, number: int, length: int) -> None:
        """Keep the first `length` tokens of a text."""
        ...

    def forget(self, number: int) -> None:
        """Give up a text."""
        ...


class CausalLM(Protocol):
    """Forward passes of a model, and counts of what ran.

    Attributes:
        keeps: whether keys and values of a pass can be kept for later ones.
        tokens_run, padding_run: tokens through the body, and of these those of padding.
    """

    head: LMHead
    device: torch.device
    dtype: torch.dtype
    keeps: bool
    tokens_run: int
    padding_run: int

    def hidden_rows(
        self,
        sequences: Sequence[Tokens],
        rows: Sequence[NDArray[np.int64]],
        beginning: KeptTokens | None = None,
        *,
        keep: bool = False,
    ) -> tuple[Tensor, list[KeptTokens] | None]:
        """Hidden states at the given places of each sequence, joined: [R, D].

        Every sequence goes on after `beginning`. With `keep` also what it left of each.
        """
        ...

    def decoder(self, prefixes: Sequence[Prefix], roots: Sequence[tuple[int, int]]) -> Decoder:
        """Branches from roots: a prefix and how many of its tokens, at least one.

        All prefixes have the same `beginning`.
        """
        ...

    def texts(self) -> GrowingTexts:
        """A store of texts that grow, with none in it."""
        ...


def causal_lm(model: PreTrainedModel, device: torch.device, max_len: int) -> CausalLM:
    """The model in the packed form where its architecture has one, else through transformers.

    Either way it has been compared with a plain forward of the whole model.

    Raises:
        ConfigError: neither gives what the whole model gives.
    """
    from pipeline.engines.packed.lm import PackedLM
    from pipeline.engines.plain_lm import PlainLM

    name = type(model).__name__
    model = model.to(device)  # type: ignore[arg-type]
    expected_TV = _plain_logits(model, name)
    try:
        packed = PackedLM(packed_weights(model, max_len))
        reason = _difference(packed, expected_TV)
    except NotPacked as error:
        reason = str(error)
    if reason is None:
        _log.info("%s runs packed on %s", name, device)
        return packed
    _log.warning("%s runs through transformers, which is slower: it is %s", name, reason)
    try:
        plain = PlainLM(model)
        reason = _difference(plain, expected_TV)
    except (TypeError, ValueError, RuntimeError, AttributeError) as error:
        reason = " ".join(str(error).split())
    if reason is not None:
        raise ConfigError(f"{name} is not supported: {reason}")
    return plain


_CHECKED_TOKENS = 7


def _ids(vocab_size: int) -> Tokens:
    return ((7 * np.arange(_CHECKED_TOKENS) + 3) % vocab_size).astype(np.int32)


@torch.inference_mode()
def _plain_logits(model: Any, name: str) -> Tensor:
    tokens = torch.from_numpy(_ids(model.config.get_text_config().vocab_size).astype(np.int64))
    try:
        logits_TV: Tensor = model(input_ids=tokens[None].to(model.device)).logits[0].float()
    except (TypeError, ValueError, RuntimeError) as error:
        raise ConfigError(f"{name} is not supported: {' '.join(str(error).split())}") from None
    if not bool(torch.isfinite(logits_TV).all()):
        dtype = str(model.dtype).removeprefix("torch.")
        raise ConfigError(f"{name}: its logits are not finite in {dtype}: are its weights damaged?")
    return logits_TV


@torch.inference_mode()
def _difference(lm: CausalLM, expected_TV: Tensor) -> str | None:
    """How body and head, apart and branching, differ from the whole model; None if they do not.

    A model that caps or scales its logits, or places tokens by anything but their given position,
    would otherwise give wrong numbers in silence.
    """
    ids = _ids(expected_TV.shape[1])
    places = np.arange(_CHECKED_TOKENS)
    h_RD, _ = lm.hidden_rows([ids, ids[:3]], [places, places[:3]])
    body_RV = lm.head.logits(h_RD)
    # Branches of ids[:3]: one goes on with ids[3:], the other leaves it a token earlier.
    kept = None
    if lm.keeps:
        _, kept = lm.hidden_rows([ids[:3]], [places[:0]], keep=True)
    prefix = Prefix(tokens=ids[:3], kept=None if kept is None else kept[0])
    branches = lm.decoder([prefix], [(0, 3), (0, 2)])
    first_RV = lm.head.logits(branches.step(ids[[3, 2]].astype(np.int64), np.array([0, 1])))
    second_RV = lm.head.logits(branches.step(ids[[3, 4]].astype(np.int64), np.array([1, 0])))
    texts_RV = lm.head.logits(_grown(lm.texts(), ids))
    lm.tokens_run = lm.padding_run = lm.head.rows_run = 0
    got_RV = torch.cat([body_RV, first_RV, second_RV, texts_RV])
    rows = [*range(_CHECKED_TOKENS), 0, 1, 2, 3, 2, 3, 4, 2, 0, 3, 2, 2, 3]
    difference = float((got_RV - expected_TV[rows]).abs().max())
    # Half precision: other roundings and other attention kernels, through all layers.
    tolerance = 1e-3 if lm.dtype == torch.float32 else 5e-2
    if difference <= tolerance * float(expected_TV.abs().max()):
        return None
    return "not one whose logits are a linear map of its hidden states, token by token"


def _grown(texts: GrowingTexts, ids: Tokens) -> Tensor:
    """The hidden states [6, D] of two texts after 3 and 1, 4 and 3, then 3 and 4 of the tokens."""
    numbers = [texts.begin(), texts.begin()]
    first_ND = texts.extend(numbers, [ids[:3], ids[:1]])
    second_ND = texts.extend(numbers, [ids[3:4], ids[1:3]])
    texts.cut(numbers[0], 2)
    return torch.cat([first_ND, second_ND, texts.extend(numbers, [ids[2:3], ids[3:4]])])
