"""NLLB by way of Hugging Face transformers.

Shape suffixes: R rows of a pass, W its width in tokens.

The last bits of a floating-point result depend on the shapes it was computed in. So the shape of
the pass that translates a source is made to depend on that source alone: its length gives the
width, the width the number of rows and the most new tokens, and rows that are not needed repeat
others. Within a pass every step of the decoder has one shape, whichever rows have ended.
"""

import json
import pickle
from collections import defaultdict
from collections.abc import Iterator, Sequence
from importlib.metadata import version as package_version
from pathlib import Path
from typing import Any

from tools.base import ConfigError, InputError, one_line
from tools.file_stamp import files_stamp
from tools.translation.translator import (
    Source,
    Vocabulary,
    max_new_tokens,
    padded_width,
    required_tokenizer,
)

_DTYPES = ("float32", "bfloat16", "float16")
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")  # in the order transformers looks for them
# Sources in a pass: few on a CPU, where more rows save little and repeated ones cost.
_TOKENS_PER_PASS = {"cpu": 256, "cuda": 4096}
_MAX_ROWS = {"cpu": 8, "cuda": 128}


class TransformersTranslator:
    """An M2M100 checkpoint in Hugging Face layout; `translator.Translator` says what it keeps.

    Raises:
        ConfigError: the directory lacks a file, or an option has an unknown value.
        InputError: config.json is damaged or of another kind of model.
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
        self._dtype = dtype if dtype is not None else "float32"
        if self._dtype not in _DTYPES:
            raise ConfigError(f"MT: dtype is {dtype!r}, expected one of {', '.join(_DTYPES)}")
        if num_threads != 1:
            raise ConfigError(
                f"MT: num_threads is {num_threads}, and with transformers an answer is the same in "
                "any batch with one thread only; use more actors, or CTranslate2"
            )
        _check_config(directory)
        files = ["config.json", required_tokenizer(directory), *_weight_files(directory)]
        self._directory = directory
        self._beam_size, self._max_source_tokens = beam_size, max_source_tokens
        self._device = device
        self.version = (
            f"transformers={package_version('transformers')}:torch={package_version('torch')}"
            f":{files_stamp(directory, files)[:16]}:{device}:{self._dtype}"
        )
        self._vocabulary: Vocabulary | None = None
        self._model: Any = None

    def load(self) -> None:
        """Read the model, unless that is done.

        Raises:
            ConfigError: there is no such device.
            InputError: weights or tokenizer are damaged.
        """
        if self._model is not None:
            return
        vocabulary = Vocabulary(self._directory)
        import torch

        if self._device == "cuda" and not torch.cuda.is_available():
            raise ConfigError("MT: device is 'cuda', and torch sees no GPU; set device: cpu")
        model = _load_model(self._directory, getattr(torch, self._dtype))
        self._model = model.to(self._device).eval()
        self._vocabulary = vocabulary

    def languages(self) -> frozenset[str]:
        self.load()
        assert self._vocabulary is not None
        return self._vocabulary.languages

    def translate(self, sources: Sequence[Source]) -> list[str]:
        """The English of each source."""
        self.load()
        assert self._vocabulary is not None
        import torch

        # With more, bits depend on the place of a row. It holds for all of the process, and other
        # tools in it may have set another number.
        torch.set_num_threads(1)
        ids = [self._vocabulary.source_ids(source, self._max_source_tokens) for source in sources]
        translations = [""] * len(sources)
        for width, indices in _passes(list(map(len, ids)), self._device):
            outputs = self._generate([ids[index] for index in indices], width)
            for index, output in zip(indices, outputs, strict=False):  # the rest are repetitions
                translations[index] = self._vocabulary.text(output)
        return translations

    def _generate(self, rows: Sequence[Sequence[int]], width: int) -> list[list[int]]:
        import torch

        assert self._vocabulary is not None
        rows = _filled(rows, num_rows(width, self._device))
        config = self._model.config
        ids_RW = torch.full((len(rows), width), config.pad_token_id)
        mask_RW = torch.zeros((len(rows), width), dtype=torch.long)
        for row, ids in enumerate(rows):
            ids_RW[row, : len(ids)] = torch.tensor(ids)
            mask_RW[row, : len(ids)] = 1
        with torch.inference_mode():
            output = self._model.generate(
                input_ids=ids_RW.to(self._device),
                attention_mask=mask_RW.to(self._device),
                generation_config=_generation_config(
                    config, self._vocabulary, self._beam_size, max_new_tokens(width)
                ),
            )
        return output.tolist()  # type: ignore[no-any-return]


def num_rows(width: int, device: str) -> int:
    """How many sources of a width are translated in one pass on a device."""
    return max(1, min(_MAX_ROWS[device], _TOKENS_PER_PASS[device] // width))


def _passes(lengths: Sequence[int], device: str) -> Iterator[tuple[int, list[int]]]:
    """(width, indices of at most num_rows sources) until each of `lengths` had its turn."""
    by_width: dict[int, list[int]] = defaultdict(list)
    for index, length in enumerate(lengths):
        by_width[padded_width(length)].append(index)
    for width, indices in sorted(by_width.items()):
        step = num_rows(width, device)
        for start in range(0, len(indices), step):
            yield width, indices[start : start + step]


def _filled(rows: Sequence[Sequence[int]], count: int) -> list[Sequence[int]]:
    """`count` rows: `rows`, and then `rows` again, which end when the first ones do."""
    return [rows[index % len(rows)] for index in range(count)]


def _generation_config(config: Any, vocabulary: Vocabulary, beam_size: int, length: int) -> Any:
    """All that steers generation, said here and not in the checkpoint's generation_config.json."""
    from transformers import GenerationConfig

    return GenerationConfig(  # type: ignore[no-untyped-call]
        num_beams=beam_size,
        do_sample=False,
        length_penalty=1.0,
        early_stopping=False,
        max_new_tokens=length + 1,  # the first one is the language
        forced_bos_token_id=vocabulary.target_id,
        decoder_start_token_id=config.decoder_start_token_id,
        eos_token_id=vocabulary.end_id,
        pad_token_id=config.pad_token_id,
    )


def _check_config(directory: Path) -> None:
    path = directory / "config.json"
    try:
        config = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {one_line(error)}") from None
    model_type = config.get("model_type") if isinstance(config, dict) else None
    if model_type != "m2m_100":
        raise InputError(
            f"{path}: model_type is {model_type!r}, expected 'm2m_100' (NLLB is of this type)"
        )


def _weight_files(directory: Path) -> list[str]:
    for pattern in _WEIGHTS:
        if files := sorted(path.name for path in directory.glob(pattern)):
            return files
    raise ConfigError(f"{directory}: no weights: neither {' nor '.join(_WEIGHTS)}")


def _load_model(directory: Path, dtype: Any) -> Any:
    import transformers
    from safetensors import SafetensorError

    transformers.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        # Typed as a model; with output_loading_info it is a pair.
        loaded: Any = transformers.M2M100ForConditionalGeneration.from_pretrained(
            directory,
            dtype=dtype,
            local_files_only=True,
            weights_only=True,  # pytorch_model.bin is a pickle: tensors are read, code is not run
            output_loading_info=True,
        )
    except pickle.UnpicklingError:
        raise InputError(
            f"{directory}: a weight file is damaged or holds more than tensors, which is not read"
        ) from None
    except (OSError, ValueError, KeyError, RuntimeError, EOFError, SafetensorError) as error:
        raise InputError(f"{directory}: the model cannot be loaded: {one_line(error)}") from None
    model, report = loaded
    if missing := sorted(report["missing_keys"]):
        raise InputError(
            f"{directory}: {len(missing)} weights are missing, {missing[0]} among them"
        )
    # What is set there, as no_repeat_ngram_size, would hold beside what we say.
    model.generation_config = transformers.GenerationConfig()  # type: ignore[no-untyped-call]
    return model
