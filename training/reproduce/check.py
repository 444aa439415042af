"""Whether commands take the configurations written for them, before any is started."""

from collections.abc import Sequence

from pydantic import ValidationError

from pipeline.config import RunConfig
from pipeline.settings import Section, describe
from tools.base import ConfigError
from training.evaluate.config import EvaluateConfig
from training.finetune.config import FinetuneConfig
from training.reproduce.plan import Row

_KINDS: dict[str, type[Section]] = {
    "annotate": RunConfig,
    "finetune": FinetuneConfig,
    "evaluate": EvaluateConfig,
}


def check(rows: Sequence[Row]) -> None:
    """Nothing, if they are right; whether the files they name are there is not looked at.

    Raises:
        ConfigError: one is wrong; it names the section of the reproduction and the key.
    """
    for step in (step for row in rows for step in row):
        command = step.argv[1]
        for settings in step.files.values():
            try:
                _KINDS[command].model_validate(settings)
            except ValidationError as error:
                raise ConfigError(f"{command}: {describe(error)}") from None
