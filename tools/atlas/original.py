"""Atlas' own files as Meta publishes them, read without running anything that is in them.

model.pth.tar              torch.save of {"step", "model": state dict, "opt": Namespace, ...}
passages.{i}.pt            pickle of [{"title", "text", ...}, ...]
embeddings.{i}.pt          torch.save of [d, n] float16: one column for each of these passages
"""

import argparse
import pickle
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tools.base import ConfigError, InputError, one_line

# What opt of the checkpoint may say of the text formats; tools/atlas/formats.py writes these.
_FORMATS = {
    "qa_prompt_format": "question: {question} answer: <extra_id_0>",
    "encoder_format": "{query} title: {title} context: {text}",
    "retriever_format": "{title} {text}",
}
_READ_ERRORS = (OSError, EOFError, RuntimeError, ValueError, KeyError, TypeError, IndexError,
                AttributeError, ImportError, MemoryError, pickle.UnpicklingError)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """model.pth.tar. The tensors of `state` stay on disk until they are used."""

    step: int
    state: dict[str, torch.Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexShard:
    passages: Path
    embeddings: Path


def load_checkpoint(path: Path, *, trust: bool) -> Checkpoint:
    """The checkpoint, memory-mapped; with `trust` also one that holds objects of any class.

    Raises:
        ConfigError: there is no such file.
        InputError: it is torn, not an Atlas checkpoint, one that needs `trust`, or one that was
            trained on other text formats than tools/atlas/formats.py.
    """
    if not path.is_file():
        raise ConfigError(f"{path}: no such file; expected the model.pth.tar of an Atlas model")
    content = _load_tensors(path, trust=trust)
    state: Any = content.get("model") if isinstance(content, dict) else None
    if not _is_state_dict(state):
        raise InputError(f"{path}: not an Atlas checkpoint: it holds no state dict `model`")
    _check_formats(path, content.get("opt"))
    step = content.get("step", 0)
    return Checkpoint(step=step if isinstance(step, int) else 0, state=state)


def _load_tensors(path: Path, *, trust: bool = False) -> Any:
    # Without this check torch would try older formats, and call a torn file an unsafe one.
    if not zipfile.is_zipfile(path):
        raise InputError(f"{path}: not a whole file of torch.save (1.6 or later); copy it again")
    try:
        with torch.serialization.safe_globals([argparse.Namespace]):
            return torch.load(path, map_location="cpu", mmap=True, weights_only=not trust)
    except pickle.UnpicklingError as error:
        reason = re.search(r"Unsupported [^.]*", one_line(error))
        raise InputError(
            f"{path}: holds more than tensors and plain data"
            f"{f' ({reason.group()})' if reason else ''}; loading it could run code of its author. "
            "A checkpoint you trust loads with --trust-checkpoint"
        ) from None
    except _READ_ERRORS as error:
        raise InputError(f"{path}: cannot read: {_first_line(error)}") from None


def _is_state_dict(state: object) -> bool:
    return isinstance(state, dict) and all(
        isinstance(key, str) and isinstance(value, torch.Tensor) for key, value in state.items()
    )


def _check_formats(path: Path, opt: object) -> None:
    values: Mapping[str, object] = vars(opt) if isinstance(opt, argparse.Namespace) else {}
    for name, expected in _FORMATS.items():
        got = values.get(name, expected)
        if got is not None and got != expected:
            raise InputError(
                f"{path}: trained with {name} {got!r}; this tool writes {expected!r}, so the "
                "answers would be of another model"
            )


def find_shards(directory: Path) -> list[IndexShard]:
    """The index shards 0, 1, 2, ... in `directory`.

    Raises:
        ConfigError: there is no such directory, or no shard in it.
        InputError: one of the files between them is missing.
    """
    if not directory.is_dir():
        raise ConfigError(
            f"{directory}: no such directory; expected passages.*.pt, embeddings.*.pt"
        )
    pattern = re.compile(r"(?:passages|embeddings)\.(\d+)\.pt")
    numbers = [int(match[1]) for p in directory.iterdir() if (match := pattern.fullmatch(p.name))]
    if not numbers:
        raise ConfigError(f"{directory}: no passages.0.pt; expected passages.*.pt, embeddings.*.pt")
    shards = []
    for number in range(max(numbers) + 1):
        shard = IndexShard(
            passages=directory / f"passages.{number}.pt",
            embeddings=directory / f"embeddings.{number}.pt",
        )
        for path in (shard.passages, shard.embeddings):
            if not path.is_file():
                raise InputError(f"{path}: is missing; shards 0 to {max(numbers)} must be whole")
        shards.append(shard)
    return shards


def open_embeddings(path: Path) -> torch.Tensor:
    """The embeddings [d, n] of a shard, memory-mapped.

    Files of older Atlas carry the storage of many shards of which the tensor is a view; only what
    is used of it is read.

    Raises:
        InputError: it is torn or something else.
    """
    embeddings_dn = _load_tensors(path)
    if not isinstance(embeddings_dn, torch.Tensor) or embeddings_dn.dim() != 2:
        raise InputError(f"{path}: expected a matrix of embeddings")
    if not embeddings_dn.is_floating_point():
        raise InputError(f"{path}: embeddings of type {embeddings_dn.dtype}, expected float16")
    return embeddings_dn


def read_passages(path: Path) -> Iterator[tuple[str, str]]:
    """(title, text) of the passages of a shard, in order.

    Raises:
        InputError: it is torn, something else, or names a class or function: nothing of it is run.
    """
    try:
        with path.open("rb") as stream:
            passages = _PlainUnpickler(stream).load()
    except _READ_ERRORS as error:
        raise InputError(f"{path}: cannot read the passages: {_first_line(error)}") from None
    if not isinstance(passages, list):
        raise InputError(f"{path}: holds a {type(passages).__name__}, expected a list of passages")
    for number, passage in enumerate(passages):
        fields = [
            passage.get(key) if isinstance(passage, dict) else None for key in ("title", "text")
        ]
        if not all(isinstance(field, str) for field in fields):
            raise InputError(f"{path}: passage {number} has no title and text")
        title, text = (_encodable(str(field)) for field in fields)
        yield title, text


class _PlainUnpickler(pickle.Unpickler):
    """Reads lists, dicts, strings and numbers: what needs no class of any module."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it names {module}.{name}, and passages are plain data")


def _encodable(text: str) -> str:
    """`text` with half surrogate pairs, which Arrow cannot hold, as "?"."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).partition("\n")[0]
