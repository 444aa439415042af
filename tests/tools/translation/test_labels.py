"""Labels of the classifiers and codes of the model."""

import pytest
from transformers.models.nllb.tokenization_nllb import FAIRSEQ_LANGUAGE_CODES

from tools.translation.labels import _ISO_TO_FLORES, flores_code

ALL = frozenset(FAIRSEQ_LANGUAGE_CODES)


def code(label: str, text: str = "") -> str | None:
    return flores_code([label], text, ALL)


def test_every_target_is_a_language_of_nllb() -> None:
    assert len(ALL) == 202
    assert len(_ISO_TO_FLORES) == 117
    assert set(_ISO_TO_FLORES.values()) <= ALL


def test_albanian_and_alemannic_are_not_mixed_up() -> None:
    assert code("sq") == "als_Latn"
    assert code("als") is None


@pytest.mark.parametrize(
    ("label", "text", "expected"),
    [
        ("no", "Hei", "nob_Latn"),
        ("nn", "Hei", "nno_Latn"),
        ("fa", "", "pes_Arab"),
        ("en", "Hello", "eng_Latn"),
        ("zh", "中国大学", "zho_Hans"),
        ("zh", "中國大學", "zho_Hant"),
        ("zh", "大小山水", "zho_Hans"),  # written alike in both
        ("zh", "國際会", "zho_Hant"),
        ("yue", "中国", "yue_Hant"),
        ("sr", "Србија", "srp_Cyrl"),
        ("sr", "Srbija", "hrv_Latn"),
        ("sh", "Југославија", "srp_Cyrl"),
        ("sh", "Jugoslavija", "hrv_Latn"),
    ],
)
def test_a_label_and_its_text_give_the_code(label: str, text: str, expected: str) -> None:
    assert code(label, text) == expected


def test_flores_labels_are_codes_already() -> None:
    assert code("als_Latn") == "als_Latn"
    assert code("ace_Arab") == "ace_Arab"
    assert code("xxx_Latn") is None


def test_the_first_label_the_model_knows_counts() -> None:
    assert flores_code(["als", "bar", "de", "fr"], "Grueezi", ALL) == "deu_Latn"
    assert flores_code(["de", "fr"], "", {"fra_Latn"}) == "fra_Latn"
    assert flores_code(["ia", "vo"], "", ALL) is None
    assert flores_code([], "", ALL) is None
