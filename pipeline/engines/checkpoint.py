"""A checkpoint in Hugging Face layout: its tokenizer, its weights, and what identifies them.

torch and transformers are imported inside the functions: drivers that only read a tokenizer or
a fingerprint stay light.
"""

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from tokenizers import Tokenizer

from pipeline.engines.packed.known import why_not_packed
from tools.base import ConfigError, one_line

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

_WHOLE_FILE_BYTES = 16 << 20  # smaller files are hashed whole
_END_BYTES = 1 << 20  # of other weight files the two ends
_TENSOR_BYTES = 4 << 10  # of each tensor of a larger safetensors file its beginning
_TOKENIZER_FILES = ("tokenizer.json", "vocab.json", "tokenizer.model")
_WEIGHT_FILES = ("*.safetensors", "pytorch_model*.bin")
_PLAIN_TOKENIZER_CLASSES = ("PreTrainedTokenizerFast", "TokenizersBackend")
_HASHED_TOKENIZER_FILES = (*_TOKENIZER_FILES, "merges.txt", "tokenizer_config.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedTokenizer:
    """A fast tokenizer, and the ids of its begin-of-text and end-of-text tokens."""

    backend: Tokenizer
    bos_id: int | None
    eos_id: int | None


def load_tokenizer(path: str, revision: str | None) -> LoadedTokenizer:
    """The fast tokenizer of a checkpoint.

    Raises:
        ConfigError: the checkpoint is not there or has no fast tokenizer.
    """
    check_location(path)
    if os.path.isdir(path) and not any((Path(path) / name).is_file() for name in _TOKENIZER_FILES):
        # transformers would make up a tokenizer without a vocabulary.
        raise ConfigError(f"{path}: no tokenizer: there is none of {', '.join(_TOKENIZER_FILES)}")
    plain = _plain_tokenizer(Path(path))
    if plain is not None:
        return plain
    from transformers import AutoTokenizer

    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(path, revision=revision)
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(f"{path}: no tokenizer: {one_line(error)}") from None
    if not tokenizer.is_fast:
        raise ConfigError(
            f"{path}: {type(tokenizer).__name__} is not a fast tokenizer; convert it "
            "(tokenizer.json)"
        )
    return LoadedTokenizer(
        backend=tokenizer.backend_tokenizer,
        bos_id=tokenizer.bos_token_id,
        eos_id=tokenizer.eos_token_id,
    )


def _plain_tokenizer(directory: Path) -> LoadedTokenizer | None:
    """What AutoTokenizer loads where tokenizer.json is all there is to it; None elsewhere.

    Without transformers and torch, which cost every stage of the graph six seconds to import.
    """
    try:
        config = json.loads((directory / "tokenizer_config.json").read_bytes())
        if config.get("tokenizer_class") not in _PLAIN_TOKENIZER_CLASSES:
            return None
        backend = Tokenizer.from_buffer((directory / "tokenizer.json").read_bytes())
        ids = [backend.token_to_id(config[name]) for name in ("bos_token", "eos_token")]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None  # transformers reads more, or says what is wrong
    if None in ids:
        return None
    return LoadedTokenizer(backend=backend, bos_id=ids[0], eos_id=ids[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointConfig:
    """What a checkpoint says of its model."""

    context_length: int  # the most tokens of a sequence
    vocab_size: int
    why_not_packed: str | None  # see pipeline.engines.packed.known


def load_config(path: str, revision: str | None) -> CheckpointConfig:
    """The configuration of a checkpoint; its weights are not read.

    Raises:
        ConfigError: it is not there, is damaged, or does not say its context length.
    """
    config = _hf_config(path, revision).get_text_config()
    return CheckpointConfig(
        context_length=context_length(config, path),
        vocab_size=int(config.vocab_size),
        why_not_packed=why_not_packed(config),
    )


def context_length(config: "PreTrainedConfig", name: str) -> int:
    """The most tokens of a sequence: no more than a sliding window, within which each sees all.

    Raises:
        ConfigError: the configuration does not say.
    """
    max_len = getattr(config, "max_position_embeddings", None)
    if not isinstance(max_len, int):
        raise ConfigError(f"{name}: not supported: its config.json states no context length")
    if not getattr(config, "use_sliding_window", True):
        return max_len
    windows = (getattr(config, key, None) for key in ("sliding_window", "window_size"))
    return min([max_len, *(window for window in windows if isinstance(window, int))])


def load_model(path: str, revision: str | None, dtype: str) -> "PreTrainedModel":
    """The causal language model of a checkpoint in `dtype`, in evaluation mode, on the CPU.

    Raises:
        ConfigError: it is not there, cannot be read, or lacks weights.
    """
    import torch
    import transformers
    from safetensors import SafetensorError

    _hf_config(path, revision)  # a damaged config.json is named as what it is
    transformers.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        # Typed as a model; with output_loading_info it is a pair.
        loaded: Any = transformers.AutoModelForCausalLM.from_pretrained(
            path, revision=revision, dtype=getattr(torch, dtype), output_loading_info=True
        )
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise ConfigError(f"{path}: the model cannot be loaded: {one_line(error)}") from None
    model, report = loaded
    missing = sorted(report["missing_keys"])
    if missing:
        raise ConfigError(f"{path}: {len(missing)} weights are missing, {missing[0]} among them")
    return cast("PreTrainedModel", model.eval())


def weights_id(path: str, revision: str | None) -> str:
    """What identifies a model: the commit of a Hub name, a hash of a local directory.

    The hash is cheap for any size: config.json, the tokenizer, names, shapes and sizes, and of
    every tensor a few kilobytes.

    Raises:
        ConfigError: there is no such checkpoint.
    """
    check_location(path)
    if os.path.isdir(path):
        return _directory_hash(Path(path))
    return str(_hf_config(path, revision)._commit_hash)


def check_location(path: str) -> None:
    """Nothing, if `path` is a checkpoint directory or may be a name on the Hub.

    Raises:
        ConfigError: it is neither.
    """
    if os.path.isdir(path):
        if not os.path.isfile(os.path.join(path, "config.json")):
            raise ConfigError(f"{path}: not a model directory: it has no config.json")
    elif path.count("/") > 1 or path.startswith(("/", ".", "~")) or os.path.exists(path):
        raise ConfigError(f"{path}: no such model directory")


def _hf_config(path: str, revision: str | None) -> "PreTrainedConfig":
    from transformers import AutoConfig

    check_location(path)
    try:
        return cast("PreTrainedConfig", AutoConfig.from_pretrained(path, revision=revision))
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(f"{path}: no usable config.json: {one_line(error)}") from None


def _directory_hash(directory: Path) -> str:
    digest = hashlib.blake2b(digest_size=16)
    digest.update((directory / "config.json").read_bytes())
    for name in _HASHED_TOKENIZER_FILES:  # other tokens make other documents
        file = directory / name
        digest.update(file.read_bytes() if file.is_file() else b"")
    files = sorted(file for pattern in _WEIGHT_FILES for file in directory.glob(pattern))
    if not files:
        raise ConfigError(f"{directory}: no weights: neither *.safetensors nor pytorch_model*.bin")
    for file in files:
        size = file.stat().st_size
        digest.update(f"{file.name}\0{size}\0".encode())
        with file.open("rb") as stream:
            for offset, length in _sampled_ranges(stream, size, file):
                stream.seek(offset)
                digest.update(stream.read(length))
    return f"blake2b:{digest.hexdigest()}"


def _sampled_ranges(stream: BinaryIO, size: int, file: Path) -> list[tuple[int, int]]:
    """(offset, length) of the parts of a weight file that enter its hash."""
    if size <= _WHOLE_FILE_BYTES:
        return [(0, size)]
    # The end of a .bin file is the directory of a zip archive: it has every tensor's checksum.
    ends = [(0, _END_BYTES), (size - _END_BYTES, _END_BYTES)]
    if file.suffix != ".safetensors":
        return ends
    header_bytes = int.from_bytes(stream.read(8), "little")
    if header_bytes > size:
        raise ConfigError(f"{file}: not a safetensors file")
    try:
        header = json.loads(stream.read(header_bytes))
        tensors = [tensor for name, tensor in header.items() if name != "__metadata__"]
        starts = sorted(tensor["data_offsets"][0] for tensor in tensors)
    except (ValueError, AttributeError, KeyError, TypeError) as error:
        raise ConfigError(f"{file}: its header is damaged: {one_line(error)}") from None
    data = 8 + header_bytes
    return [(0, data), *((data + start, _TENSOR_BYTES) for start in starts), *ends]
