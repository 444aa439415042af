"""NLLB by way of CTranslate2: two to three times as fast on a CPU as transformers, in int8.

The package is optional. A model is converted once, with the tokenizer beside it:

    ct2-transformers-converter --model DIR --output_dir OUT --quantization int8 \\
        --copy_files tokenizer.json tokenizer_config.json
"""

from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as package_version
from pathlib import Path
from typing import Any

from tools.base import ConfigError, InputError, one_line
from tools.file_stamp import files_stamp
from tools.translation.translator import (
    TARGET,
    Source,
    Vocabulary,
    max_new_tokens,
    padded_width,
    required_tokenizer,
)

MODEL = "model.bin"
_VOCABULARY = "shared_vocabulary.json"
_COMPUTE_TYPES = (
    "default", "auto", "int8", "int8_float32", "int8_float16", "int8_bfloat16", "int16", "float16",
    "bfloat16", "float32",
)  # fmt: skip


class CTranslate2Translator:
    """A model converted for CTranslate2; `translator.Translator` says what it keeps.

    Raises:
        ConfigError: a file or the package is missing, or an option has an unknown value.
    """

    def __init__(
        self,
        directory: Path,
        *,
        beam_size: int,
        max_source_tokens: int,
        device: str,
        dtype: str | None,
        num_threads: int,
    ) -> None:
        self._compute_type = dtype if dtype is not None else "default"
        if self._compute_type not in _COMPUTE_TYPES:
            raise ConfigError(
                f"MT: dtype is {dtype!r}, expected one of {', '.join(_COMPUTE_TYPES)}"
            )
        files = ["config.json", MODEL, _VOCABULARY, required_tokenizer(directory)]
        if not (directory / _VOCABULARY).is_file():
            raise ConfigError(f"{directory}: no {_VOCABULARY} beside {MODEL}; convert it again")
        self._directory = directory
        self._beam_size, self._max_source_tokens = beam_size, max_source_tokens
        self._device, self._num_threads = device, num_threads
        # Threads share no sums here, so that their number changes nothing.
        self.version = (
            f"ctranslate2={_package_version(directory)}:{files_stamp(directory, files)[:16]}"
            f":{device}:{self._compute_type}"
        )
        self._vocabulary: Vocabulary | None = None
        self._model: Any = None

    def load(self) -> None:
        """Read the model, unless that is done.

        Raises:
            InputError: the model or the tokenizer is damaged, or the device lacks the type.
        """
        if self._model is not None:
            return
        vocabulary = Vocabulary(self._directory)
        import ctranslate2

        try:
            self._model = ctranslate2.Translator(
                str(self._directory),
                device=self._device,
                compute_type=self._compute_type,
                inter_threads=self._num_threads,
                intra_threads=1,
                max_queued_batches=-1,
            )
        except (ValueError, RuntimeError) as error:
            raise InputError(
                f"{self._directory}: CTranslate2 cannot load it on {self._device} as "
                f"{self._compute_type}: {one_line(error)}"
            ) from None
        self._vocabulary = vocabulary

    def languages(self) -> frozenset[str]:
        self.load()
        assert self._vocabulary is not None
        return self._vocabulary.languages

    def translate(self, sources: Sequence[Source]) -> list[str]:
        """The English of each source."""
        self.load()
        return [self._text(result) for result in [self._submit(source) for source in sources]]

    def _submit(self, source: Source) -> Any:
        """The translation of `source`, to be waited for.

        Each is a batch of its own: within a batch the shapes, and with them the last bits of the
        scores, would depend on the other sources. The threads work at different sources instead.
        """
        assert self._vocabulary is not None
        ids = self._vocabulary.source_ids(source, self._max_source_tokens)
        (result,) = self._model.translate_batch(
            [self._vocabulary.tokens(ids)],
            target_prefix=[[TARGET]],
            beam_size=self._beam_size,
            max_input_length=0,
            max_decoding_length=max_new_tokens(padded_width(len(ids))) + 1,  # the target prefix
            asynchronous=True,
        )
        return result

    def _text(self, submitted: Any) -> str:
        assert self._vocabulary is not None
        return self._vocabulary.text(self._vocabulary.ids(submitted.result().hypotheses[0]))


def _package_version(directory: Path) -> str:
    try:
        return package_version("ctranslate2")
    except PackageNotFoundError:
        raise ConfigError(
            f"{directory}: holds a model for CTranslate2, which is not installed: "
            "pip install ctranslate2, or name the directory the model was converted from"
        ) from None
