"""Text as tokens and back: canonical tokens, positions, splicing calls in (section 2).

The canonical tokens of a document are tok(" " + text.strip()): what follows "Output:" in the
prompt, what is sampled from, scored, and trained on. A call at position i stands before token i.
Calls are spliced in at token level, since re-tokenising the annotated text changes tokens next
to a call; byte offsets are cumulative token lengths, exact for tokens that split a character.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from pipeline.engines.checkpoint import load_tokenizer
from pipeline.token_bytes import (
    UnknownTokenizer,
    exact_tokenizer,
    plain_tokenizer,
    vocabulary_bytes,
)
from tools.base import ConfigError, ToolformerError
from tools.calls import CLOSE, OPEN

Ids = NDArray[np.int32]

_WORD = "a"  # one token in any vocabulary
_KEPT_PIECES = 4096  # of calls, with their tokens

# Stands for an id the vocabulary does not have: models may have more rows than their tokenizer.
_UNKNOWN = "\ufffd".encode()


class NotLossless(ToolformerError):
    """A text is not what its tokens decode to."""


class TokenCodec:
    """A fast tokenizer with the few operations the pipeline needs.

    Attributes:
        open_ids: the tokens of " [", always one.
        close_ids: every token with "]" in it (53 in GPT-2's vocabulary).
        bos_id: what every sequence begins with: the begin-of-text token, else end-of-text.
        eos_id: the end-of-text token, if there is one.
    """

    def __init__(
        self, tokenizer: Tokenizer, *, bos_id: int | None, eos_id: int | None, name: str = "model"
    ) -> None:
        """Raises ConfigError, naming `name`, for a vocabulary this system cannot work with."""
        try:
            self._table = vocabulary_bytes(tokenizer)
        except UnknownTokenizer as error:
            raise ConfigError(f"{name}: its tokenizer is not supported: {error}") from None
        self._exact = exact_tokenizer(tokenizer)
        self._natural = plain_tokenizer(tokenizer)
        self._num_bytes = np.zeros(max(self._table) + 1, dtype=np.int64)
        self._first_byte = np.zeros(max(self._table) + 1, dtype=np.uint8)
        for token_id, token in self._table.items():
            self._num_bytes[token_id] = len(token)
            self._first_byte[token_id] = token[0] if token else 0
        self._last: tuple[str, Ids] = ("", _ids([]))
        self._pieces: dict[str, list[int]] = {}
        self.bos_id = eos_id if bos_id is None else bos_id
        self.eos_id = eos_id
        self.open_ids = tuple(self._encode(OPEN).tolist())
        self.close_ids = frozenset(i for i, token in self._table.items() if CLOSE.encode() in token)
        if len(self.open_ids) != 1:
            raise ConfigError(
                f'{name}: its tokenizer splits "{OPEN}" into {len(self.open_ids)} tokens; only '
                "tokenizers where it is one token are supported"
            )

    @classmethod
    def load(cls, path: str, revision: str | None = None) -> "TokenCodec":
        """The codec of the checkpoint in directory `path`, or of that name on the Hub.

        Raises:
            ConfigError: it is not there, has no fast tokenizer, or one that is not supported.
        """
        tokenizer = load_tokenizer(path, revision)
        return cls(tokenizer.backend, bos_id=tokenizer.bos_id, eos_id=tokenizer.eos_id, name=path)

    def canonical(self, text: str) -> Ids:
        """tok(" " + text.strip()), int32 [n].

        Raises:
            NotLossless: the tokens do not spell the text byte for byte.
        """
        return self._lossless(" " + text.strip())

    def beginning(self, text: str) -> Ids:
        """The canonical tokens of a document that begins with `text` and goes on, int32 [n].

        Without the spaces and tabs at its end, as each token that may follow brings its own, but
        with its line breaks; none for white space alone.

        Raises:
            NotLossless: the tokens do not spell the text byte for byte.
        """
        begun = " " + text.lstrip().rstrip(" \t")
        if begun == " ":
            return _ids([])
        if begun[-1].isspace():
            # Two line breaks are one token at the end of a text, but not before a word.
            ids = self._lossless(begun + _WORD)
            if self.token_bytes(ids[-1:]) == [_WORD.encode()]:
                return ids[:-1]
        return self._lossless(begun)

    def _lossless(self, spaced: str) -> Ids:
        try:
            expected = spaced.encode()
        except UnicodeEncodeError:
            raise NotLossless("the text is not valid Unicode") from None
        ids = self._of_text(spaced).copy()
        if b"".join(self.token_bytes(ids)) != expected:
            raise NotLossless("the tokenizer changes the text")
        return ids

    def count(self, text: str) -> int:
        """Number of tokens of " " + text.strip()."""
        return len(self._of_text(" " + text.strip()))

    def prompt_ids(self, text: str) -> Ids:
        """P(x) up to "Output:" as tokens, int32 [Lp], as the model has seen such text."""
        return _ids(self._natural.encode(text, add_special_tokens=False).ids)

    def encode_pieces(self, pieces: Sequence[str]) -> Ids:
        """Each piece tokenised on its own, joined, int32: the markers stay tokens of their own."""
        return _ids([token_id for piece in pieces for token_id in self._of_piece(piece)])

    def token_bytes(self, ids: Sequence[int] | Ids) -> list[bytes]:
        """The bytes of each token; of an id outside the vocabulary those of U+FFFD."""
        return [self._table.get(int(token_id), _UNKNOWN) for token_id in ids]

    def decode_sample(self, token_ids: Sequence[int]) -> str | None:
        """The text of a sample before its first "]"; None when that is not UTF-8."""
        before = b"".join(self.token_bytes(token_ids)).partition(CLOSE.encode())[0]
        try:
            return before.decode("utf-8")
        except UnicodeDecodeError:
            return None

    def byte_offsets(self, ids: Ids) -> NDArray[np.int64]:
        """Where each token begins in the bytes of all, and where the last ends: int64 [n + 1]."""
        return np.concatenate(([0], np.cumsum(self._num_bytes[ids], dtype=np.int64)))

    def legal_positions(self, ids: Ids) -> NDArray[np.bool_]:
        """Whether a call can stand before each token [n]: not inside a UTF-8 character."""
        return np.asarray((self._first_byte[ids] & 0xC0) != 0x80)

    def insertion_offsets(self, text: str, ids: Ids) -> NDArray[np.int64]:
        """Byte offset in `text` of a call at each position of its canonical tokens: int64 [n]."""
        start, _ = stripped_span(text)
        lead = len(text[:start].encode())
        # The space before the first token is not in the text.
        return np.asarray(lead + np.maximum(self.byte_offsets(ids)[:-1] - 1, 0))

    def spliced_text(
        self, text: str, ids: Ids, inserts: Sequence[tuple[int, str]]
    ) -> tuple[str, list[tuple[int, int]]]:
        """`text` with linearised calls in it, and where each stands, as byte spans of the result.

        `ids` are the canonical tokens of `text`; an insert is a legal position and a text that
        begins with a space. Removing the spans gives `text` back byte for byte. A call before
        the first token takes the space after it: "[Calendar() -> ...] Today".
        """
        start, end = stripped_span(text)
        lead, tail = text[:start].encode(), text[end:].encode()
        body = (" " + text[start:end]).encode()
        offsets = self.byte_offsets(ids)
        pieces, done, length = [], 0, len(lead) - 1  # -1: the first space is dropped
        spans: list[tuple[int, int]] = [(0, 0)] * len(inserts)
        for which in sorted(range(len(inserts)), key=lambda k: inserts[k][0]):
            position, call_text = inserts[which]
            call, offset = call_text.encode(), int(offsets[position])
            assert call.startswith(b" "), f"a linearised call begins with a space: {call_text!r}"
            pieces += [body[done:offset], call]
            length += offset - done
            begin = length if offset else length + 1
            spans[which] = (begin, begin + len(call))
            length, done = length + len(call), offset
        annotated = b"".join([*pieces, body[done:]])
        return (lead + annotated[1:] + tail).decode(), spans

    @staticmethod
    def splice(ids: Ids, inserts: Sequence[tuple[int, Ids]]) -> Ids:
        """`ids` with each insert before its position, int32; equal positions keep their order."""
        pieces, done = [], 0
        for position, insert in sorted(inserts, key=lambda item: item[0]):
            pieces += [ids[done:position], insert]
            done = position
        spliced: Ids = np.concatenate([*pieces, ids[done:]]).astype(np.int32)
        return spliced

    def _of_text(self, text: str) -> Ids:
        """The tokens of a text; a document is counted, and if it is short enough then encoded."""
        last = self._last
        if last[0] != text:
            last = self._last = (text, self._encode(text))
        return last[1]

    def _of_piece(self, piece: str) -> list[int]:
        """The tokens of a piece of a call; the markers, and calls of one unit, come again."""
        known = self._pieces.get(piece)
        if known is None:
            if len(self._pieces) >= _KEPT_PIECES:
                self._pieces.clear()
            known = self._pieces[piece] = self._encode(piece).tolist()
        return known

    def _encode(self, text: str) -> Ids:
        return _ids(self._exact.encode(text, add_special_tokens=False).ids)


def stripped_span(text: str) -> tuple[int, int]:
    """Where text.strip() begins and ends in `text`, in characters."""
    start = len(text) - len(text.lstrip())
    return start, start + len(text.strip())


def _ids(token_ids: Sequence[int]) -> Ids:
    return np.array(token_ids, dtype=np.int32)
