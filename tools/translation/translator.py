"""What both translation backends share: the source tokens of NLLB and the limits of an answer."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tokenizers import Tokenizer

from tools.base import ConfigError, InputError, one_line

TARGET = "eng_Latn"  # "the target language is always set to English" (section 3)
TOKENIZER = "tokenizer.json"
_END = "</s>"
_UNKNOWN = "<unk>"
_MAX_NEW_TOKENS = 128
_WIDTHS = (8, 16, 24, 32, 48, 64, 96, 128, 192, 264, 520, 1024)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A phrase to translate; `language` is a FLORES code that the translator knows."""

    language: str
    text: str


class Translator(Protocol):
    """A translation model in a directory. Constructing it checks the files and loads nothing.

    `version` changes whenever the same source may get another translation. A translation depends
    on its source and the version alone, not on the other sources of a call.
    """

    version: str

    def load(self) -> None: ...

    def languages(self) -> frozenset[str]: ...

    def translate(self, sources: Sequence[Source]) -> list[str]: ...


class Vocabulary:
    """The tokenizer of an NLLB model, without the state that transformers keeps in it.

    transformers' own has one source language at a time; here it is an argument, so that a batch
    may mix languages.

    Raises:
        InputError: tokenizer.json is damaged or has no token for English.
    """

    def __init__(self, directory: Path) -> None:
        path = directory / TOKENIZER
        try:
            self._tokenizer = Tokenizer.from_buffer(path.read_bytes())
        except Exception as error:  # tokenizers raises nothing narrower
            raise InputError(f"{path}: no usable tokenizer: {one_line(error)}") from None
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        # "</s>" or "deu_Latn" in a phrase is text, not a token that ends or redirects it.
        self._tokenizer.encode_special_tokens = True
        self.end_id = self._id(_END, path)
        self.target_id = self._id(TARGET, path)
        added = self._tokenizer.get_added_tokens_decoder()
        self.languages = frozenset(
            token.content for token in added.values() if _is_language(token.content)
        )
        self._control_ids = {*added, self.end_id, self.target_id}

    def _id(self, token: str, path: Path) -> int:
        found = self._tokenizer.token_to_id(token)
        if found is None or found == self._tokenizer.token_to_id(_UNKNOWN):
            raise InputError(
                f"{path}: no token {token}, so not the tokenizer of an NLLB model (one that was "
                "made from sentencepiece.bpe.model alone lacks the languages)"
            )
        return int(found)

    def source_ids(self, source: Source, max_tokens: int) -> list[int]:
        """[language] text </s>, at most `max_tokens`: of a longer text the beginning."""
        ids = self._tokenizer.encode(source.text, add_special_tokens=False).ids
        language = self._tokenizer.token_to_id(source.language)
        assert language is not None, f"{source.language} is none of this model's languages"
        return [language, *ids[: max_tokens - 2], self.end_id]

    def tokens(self, ids: Sequence[int]) -> list[str]:
        tokens = (self._tokenizer.id_to_token(token_id) for token_id in ids)
        return [token for token in tokens if token is not None]

    def ids(self, tokens: Sequence[str]) -> list[int]:
        known = (self._tokenizer.token_to_id(token) for token in tokens)
        return [token_id for token_id in known if token_id is not None]

    def text(self, ids: Sequence[int]) -> str:
        """The text of `ids`; control tokens and ids beyond the tokenizer are left out."""
        size = self._tokenizer.get_vocab_size()
        kept = [i for i in ids if i not in self._control_ids and i < size]
        return self._tokenizer.decode(kept, skip_special_tokens=False).strip()


def padded_width(num_source_tokens: int) -> int:
    """The width at which a source is translated: more than its tokens, at most 1024.

    So there always is padding. Transformers drops the mask of a pass without any, for which torch
    may take another kernel than for the same source beside a shorter one (flash attention).
    """
    return next(width for width in _WIDTHS if width > num_source_tokens)


def max_new_tokens(width: int) -> int:
    """The most tokens of a translation: phrases grow little, and what loops must end."""
    return min(_MAX_NEW_TOKENS, 2 * width + 20)


def required_tokenizer(directory: Path) -> str:
    """The name of the tokenizer file in `directory`.

    Raises:
        ConfigError: it is not there.
    """
    if not (directory / TOKENIZER).is_file():
        # transformers builds a tokenizer from sentencepiece.bpe.model too, but one that maps
        # every language code to <unk>: all sources would be of no language.
        raise ConfigError(
            f"{directory}: no {TOKENIZER}; the tokenizer of NLLB is needed in this form, "
            "sentencepiece.bpe.model alone has no language codes"
        )
    return TOKENIZER


def _is_language(token: str) -> bool:
    head, separator, script = token.partition("_")
    return bool(separator) and len(head) == 3 and len(script) == 4 and script[0].isupper()
