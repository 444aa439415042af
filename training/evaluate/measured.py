"""The perplexity of each model on each corpus, measured once and then read again."""

import hashlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from pipeline.settings import describe
from tools.atomic import write_text_atomically
from tools.base import InputError
from training.evaluate.answers import TextPerplexity
from training.evaluate.config import EvaluateConfig, slug
from training.evaluate.corpus import corpus_texts
from training.evaluate.plan import digest_of, model_identity
from training.evaluate.progress import EvaluationProgress

_FILE = TypeAdapter(TextPerplexity)
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """A perplexity; its file is there once it is measured."""

    model: str
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

    Raises:
        ConfigError: a checkpoint is not there.
    """
    texts = {name: digest_of({"texts": _digest(texts)}) for name, texts in corpora.items()}
    found = []
    for name, model in config.models.items():
        if model.endpoint is not None:
            if corpora:
                _log.info("%s has no perplexity: it is behind an endpoint", name)
            continue
        for corpus in corpora:
            identity = model_identity(model, config) | {"texts": texts[corpus], "seed": config.seed}
            file = f"{slug(corpus)}.{digest_of(identity)}.json"
            path = config.out / "perplexity" / slug(name) / file
            found.append(Measurement(model=name, corpus=corpus, path=path))
    return found


def measured(
    config: EvaluateConfig,
    measurement: Measurement,
    texts: list[str],
    progress: EvaluationProgress,
) -> TextPerplexity:
    """The perplexity: as its file says, or measured now and written there.

    Raises:
        ToolformerError: it cannot be measured, or its file is no such file or cannot be written.
    """
    path = measurement.path
    if path.exists():
        return _read(path)
    from training.evaluate.perplexity import text_perplexity  # loads torch

    checkpoint = config.models[measurement.model].checkpoint
    assert checkpoint is not None  # there is no other measurement
    with progress.measuring(measurement.model, measurement.corpus) as on_progress:
        found = text_perplexity(
            checkpoint,
            texts,
            name=measurement.model,
            corpus=measurement.corpus,
            seed=config.seed,
            engine=config.engine,
            on_progress=on_progress,
        )
    write_text_atomically(path, _FILE.dump_json(found, indent=1).decode() + "\n")
    return found


def _read(path: Path) -> TextPerplexity:
    try:
        return _FILE.validate_json(path.read_bytes())
    except ValidationError as error:
        raise InputError(f"{path}: not a perplexity: {describe(error)}; remove it") from None


def _digest(texts: list[str]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()
