"""The classifier that tells English from other text in the filter for MT."""

from pipeline.config import MtFilterConfig
from pipeline.documents.foreign_text import Identify
from tools.translation.language_id import LanguageIdentifier


def english_or_not(settings: MtFilterConfig | None) -> Identify | None:
    """What the filter asks about every chunk; None without a filter.

    Raises:
        ConfigError: the classifier is not there, or the package that reads it.
        InputError: it is no fastText model.
    """
    if settings is None:
        return None
    identifier = LanguageIdentifier(settings.language_id)
    identifier.load()

    def identify(text: str) -> tuple[bool, float]:
        for label, probability in identifier.detect(text, k=1):
            return identifier.is_english(label), probability
        return False, 0.0

    return identify
