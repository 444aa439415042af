"""A converted Atlas in a directory: `python -m tools convert-atlas` writes it once.

meta.json           format, counts, sizes and hashes of all files; written last
reader/             config.json, model.safetensors, spiece.model
retriever/          config.json, model.safetensors, vocab.txt: what embeds questions
index/              embeddings.npy [N, d] float16, passages.arrow (row = row of the embeddings),
                    meta.json

Checking a directory reads its meta.json and asks for the sizes of its files; it imports no torch.
"""

import hashlib
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, ValidationError

from tools.base import ConfigError, InputError, one_line

META = "meta.json"
READER = "reader"
RETRIEVER = "retriever"
INDEX = "index"
CONFIG = "config.json"
WEIGHTS = "model.safetensors"
SPIECE = "spiece.model"
VOCAB = "vocab.txt"
EMBEDDINGS = "embeddings.npy"
PASSAGES = "passages.arrow"
FILES = (
    *(f"{READER}/{name}" for name in (CONFIG, WEIGHTS, SPIECE)),
    *(f"{RETRIEVER}/{name}" for name in (CONFIG, WEIGHTS, VOCAB)),
    *(f"{INDEX}/{name}" for name in (EMBEDDINGS, PASSAGES, META)),
)
PASSAGE_SCHEMA = pa.schema(
    [
        # With the heading of the section, as in "Title: Section"; so it is saved in Atlas' indexes.
        pa.field("title", pa.string(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
    ]
)


class SavedFile(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    num_bytes: int
    sha256: str


class IndexMeta(BaseModel):
    """index/meta.json. Every batch of passages.arrow but the last has `rows_per_batch` rows."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal[1] = 1
    num_passages: int
    embedding_size: int
    rows_per_batch: int


class AtlasMeta(BaseModel):
    """meta.json. `content_hash` is of all files: their names and their hashes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal[1] = 1
    step: int
    reader_parameters: int
    retriever_parameters: int
    num_passages: int
    embedding_size: int
    files: dict[str, SavedFile]
    content_hash: str


def open_meta(directory: Path) -> AtlasMeta:
    """The meta.json of a converted Atlas whose files are all there in the sizes it states.

    Raises:
        ConfigError: there is no such directory.
        InputError: it holds no whole converted Atlas.
    """
    if not directory.is_dir():
        raise ConfigError(f"{directory}: no such directory; make one with convert-atlas")
    meta: AtlasMeta = read_json(directory / META, AtlasMeta)
    for name in FILES:
        if name not in meta.files:
            raise InputError(f"{directory}: {META} does not name {name}; convert it again")
    for name, file in meta.files.items():
        path = directory / name
        if not path.is_file():
            raise InputError(f"{path}: is missing; copy or convert the directory again")
        num_bytes = path.stat().st_size
        if num_bytes != file.num_bytes:
            raise InputError(
                f"{path}: {num_bytes} bytes, expected {file.num_bytes}; copy or convert the "
                "directory again"
            )
    return meta


def read_json(path: Path, model: type[BaseModel]) -> Any:
    """The file `path` as `model`.

    Raises:
        InputError: it is missing, or something else.
    """
    try:
        return model.model_validate_json(path.read_bytes())
    except OSError as error:
        raise InputError(
            f"{path}: cannot read: {error.strerror or error}; a directory that convert-atlas "
            "wrote has it"
        ) from None
    except ValidationError as error:
        problem = one_line(ValueError(error.errors()[0]["msg"]))
        raise InputError(
            f"{path}: not written by convert-atlas of this version: {problem}"
        ) from None


def hash_file(path: Path) -> SavedFile:
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return SavedFile(num_bytes=path.stat().st_size, sha256=digest)


def hash_all(files: dict[str, SavedFile]) -> str:
    text = "".join(f"{name}\0{file.sha256}\n" for name, file in sorted(files.items()))
    return hashlib.sha256(text.encode()).hexdigest()
