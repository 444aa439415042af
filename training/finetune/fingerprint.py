"""What a training depends on, so that it is only ever continued as what it was begun as."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.build.mark import read_build_mark
from pipeline.config import ModelConfig
from pipeline.engines.checkpoint import weights_id
from pipeline.fingerprint import changes
from pipeline.rundir import RunDir
from tools.base import ConfigError
from training.finetune.batches import Tokens
from training.finetune.config import FinetuneConfig

# Settings that change speed, place, or how often is looked, but not what is learned.
_FREE = {
    "run", "out", "model", "development", "eval_steps", "micro_batch_size", "gradient_checkpointing"
}  # fmt: skip


def fingerprint_of(
    config: FinetuneConfig, model: ModelConfig, development: Sequence[Tokens]
) -> dict[str, Any]:
    """Every setting and file, by key, that decides what is learned and how it is measured.

    Raises:
        InputError: the run was not built.
        ConfigError: there is no such model.
    """
    values = config.model_dump(mode="json", exclude=_FREE)
    zero = values.pop("zero")
    values |= {f"zero.{name}": value for name, value in zero.items()}
    built = read_build_mark(RunDir(config.run))
    digest = hashlib.blake2b(digest_size=16)
    for index in range(len(development)):
        digest.update(development[index].input_ids.tobytes())
    return values | {
        "build": hashlib.blake2b(built, digest_size=16).hexdigest(),
        "model": weights_id(model.path, model.revision),
        "development": digest.hexdigest(),
    }


def check_unchanged(before: Mapping[str, Any], now: Mapping[str, Any], place: object) -> None:
    """Nothing, if a training begun with `before` can go on with `now`.

    Raises:
        ConfigError: it would be another training.
    """
    if changed := changes(before, now):
        raise ConfigError(
            f"{place}: begun with other settings: {'; '.join(changed)}; set them back, or choose "
            "another --out"
        )
