"""The losses of each model on each corpus, measured once and then read again."""

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from pipeline.config import ModelConfig
from pipeline.engines.checkpoint import weights_id
from pipeline.settings import describe
from tools.atomic import write_text_atomically
from tools.base import InputError
from tools.places import why
from training.evaluate.config import EvaluateConfig
from training.evaluate.corpus import corpus_texts
from training.evaluate.directories import Directories, name_of, slug
from training.evaluate.perplexity import DocumentLosses
from training.evaluate.progress import EvaluationProgress
from training.generate.identity import digest_of

_FILE = TypeAdapter(DocumentLosses)
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """The losses of a model on a corpus; their file is there once they are measured."""

    model: str
    checkpoint: ModelConfig
    corpus: str
    path: Path


def load_corpora(config: EvaluateConfig) -> dict[str, list[str]]:
    """The texts of each corpus, by its name.

    Raises:
        InputError: a file is missing or broken, or has no text.
    """
    return {corpus.name: corpus_texts(corpus, seed=config.seed) for corpus in config.perplexity}


def measurements(config: EvaluateConfig, corpora: Mapping[str, list[str]]) -> list[Measurement]:
    """What is to be measured, model by model: those behind an endpoint tell no likelihoods.

    A file depends on the weights, their dtype and the texts alone.

    Raises:
        ConfigError: a checkpoint is not there.
    """
    if not corpora:
        return []
    files = {
        name: f"{slug(name)}.{digest_of(_hashes(texts))}.json" for name, texts in corpora.items()
    }
    directories, found = Directories(config.out / "perplexity"), list[Measurement]()
    for name, model in config.models.items():
        checkpoint = model.checkpoint
        if checkpoint is None:
            _log.info("%s has no perplexity: it is behind an endpoint", name)
            continue
        weights = weights_id(checkpoint.path, checkpoint.revision)
        directory = directories.of(name_of(checkpoint), [weights, checkpoint.dtype])
        found += [
            Measurement(model=name, checkpoint=checkpoint, corpus=corpus, path=directory / file)
            for corpus, file in files.items()
        ]
    return found


def measured(measurement: Measurement) -> DocumentLosses:
    """What the file says.

    Raises:
        InputError: it cannot be read, or is no such file.
    """
    path = measurement.path
    try:
        return _FILE.validate_json(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path}: cannot read: {why(error)}") from None
    except ValidationError as error:
        raise InputError(f"{path}: no losses: {describe(error)}; remove it") from None


def measure(
    config: EvaluateConfig,
    measurement: Measurement,
    texts: Sequence[str],
    progress: EvaluationProgress,
) -> None:
    """Measures the losses and writes their file, if there is none yet.

    Raises:
        ToolformerError: they cannot be measured, or the file cannot be written.
    """
    if measurement.path.exists():
        return
    from training.evaluate.document_losses import document_losses  # loads torch

    with progress.measuring(measurement.model, measurement.corpus) as on_progress:
        found = document_losses(
            measurement.checkpoint, texts, engine=config.engine, on_progress=on_progress
        )
    write_text_atomically(measurement.path, _FILE.dump_json(found).decode() + "\n")


def _hashes(texts: Sequence[str]) -> list[str]:
    return [
        hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
        for text in texts
    ]
