"""-log p of each document of a corpus, kept in a file."""

from collections.abc import Sequence
from pathlib import Path

from pydantic import TypeAdapter

from pipeline.config import ModelConfig
from tools.atomic import write_text_atomically
from training.evaluate import document_losses as measuring
from training.evaluate.perplexity import DocumentLosses as DocumentLosses

_FILE = TypeAdapter(DocumentLosses)


def document_losses(model: Path, texts: Sequence[str], cached: Path) -> DocumentLosses:
    """The losses of a checkpoint on `texts`, kept in the file `cached` for another time.

    Raises:
        ConfigError: the checkpoint is missing, torn or not supported.
        OutputError: the file cannot be written.
    """
    if cached.exists():
        return _FILE.validate_json(cached.read_bytes())
    found = measuring.document_losses(ModelConfig(path=str(model)), texts)
    write_text_atomically(cached, _FILE.dump_json(found).decode() + "\n")
    return found
