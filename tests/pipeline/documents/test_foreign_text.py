"""The filter for MT with a classifier written by hand, and on real text with the real one."""

import itertools
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.config import MtFilterConfig
from pipeline.documents.foreign_text import Identify, Verdict, chunks, judge, paragraph_spans
from pipeline.documents.language import english_or_not
from tools.base import ConfigError
from tools.prompt import load_prompt

SHARED = Path(__file__).parents[4] / "shared" / "data"
PAPER = MtFilterConfig()
PAIRS = MtFilterConfig(chunk_tokens=2)


def by_first_letter(text: str) -> tuple[bool, float]:
    """E.. is English with 0.5, e.. with 0.4, F.. foreign with 0.9, f.. with just 0.8."""
    return {"E": (True, 0.5), "e": (True, 0.4), "F": (False, 0.9), "f": (False, 0.8)}[text[0]]


@pytest.fixture(scope="module")
def identify() -> Identify:
    """The small classifier that comes with the installation."""
    identify = english_or_not(PAPER)
    assert identify is not None
    return identify


def test_a_chunk_is_ten_tokens_and_the_last_may_be_shorter() -> None:
    text = " ".join(f"w{n}" for n in range(23))
    assert chunks(text, 10) == [
        "w0 w1 w2 w3 w4 w5 w6 w7 w8 w9",
        "w10 w11 w12 w13 w14 w15 w16 w17 w18 w19",
        "w20 w21 w22",
    ]
    assert chunks(" \t ", 10) == []


def test_a_character_of_a_script_without_spaces_is_a_token() -> None:
    assert chunks("by \u5357\u4eac\u9ad8\u6df3 in 3\u6708", 3) == [
        "by \u5357\u4eac",
        "\u9ad8\u6df3 in",
        "3\u6708",
    ]
    assert chunks("\u0e44\u0e17\u0e22ab", 2) == ["\u0e44\u0e17", "\u0e22ab"]
    assert chunks("\U00020000\U00020001", 1) == ["\U00020000", "\U00020001"]


@pytest.mark.parametrize(
    ("paragraph", "verdict"),
    [
        ("E1 x F1 x E1 x", Verdict.OFFERED),
        ("E1 x F1 x F2 x E1 x", Verdict.OFFERED),
        # What is neither may stand between, but is no English text itself.
        ("E1 x e1 x F1 x f1 x E1 x", Verdict.OFFERED),
        ("e1 x F1 x E1 x", Verdict.NOT_BETWEEN),
        ("E1 x F1 x e1", Verdict.NOT_BETWEEN),
        ("F1 x E1 x F1 x", Verdict.NOT_BETWEEN),
        ("F1 x F1 x F1 x", Verdict.NOT_BETWEEN),
        ("E1 x E1 x F1 x", Verdict.NOT_BETWEEN),
        # 0.8 is not more than 0.8.
        ("E1 x f1 x E1 x", Verdict.NO_FOREIGN),
        ("E1 x E1 x E1 x", Verdict.NO_FOREIGN),
        ("E1 x F1 x", Verdict.TOO_SHORT),
        # Chunks without a letter are not there: the classifier would not know them.
        ("E1 x 1 2 F1 x -- $5 E1 x", Verdict.OFFERED),
        ("E1 x 1 2 F1 x 3 4", Verdict.TOO_SHORT),
        ("1 2 3 4 5 6 7 8", Verdict.TOO_SHORT),
    ],
)
def test_foreign_text_counts_between_english_text(paragraph: str, verdict: Verdict) -> None:
    assert judge(paragraph, by_first_letter, PAIRS) is verdict


def test_the_thresholds_are_settings() -> None:
    loose = MtFilterConfig(chunk_tokens=2, min_confidence=0.7, english_confidence=0.4)
    assert judge("e1 x f1 x e1 x", by_first_letter, loose) is Verdict.OFFERED


@given(st.text(st.sampled_from("ab \t\n\r\u3000\u00e9\u6771")))
def test_paragraphs_are_the_lines_that_are_not_blank(text: str) -> None:
    spans = list(paragraph_spans(text))
    assert [text[b:e] for b, e in spans] == [line for line in text.split("\n") if line.strip()]
    assert all(b == 0 or text[b - 1] == "\n" for b, _ in spans)


ENGLISH = (
    "The committee met again on Thursday to talk about the new bridge over the river, which will "
    "be built next year if the council agrees to pay for it."
)


@pytest.mark.parametrize(
    "foreign",
    [
        "Der Ausschuss hat am Donnerstag noch einmal beraten, und am Ende waren sich alle einig, "
        "dass die Br\u00fccke gebaut werden soll.",
        "\u5357\u4eac\u9ad8\u6df3\u53bf\u4f4f\u623f\u548c\u57ce\u4e61\u5efa\u8bbe\u5c40"
        "\u57ce\u5e02\u65b0\u533a\u8bbe\u8ba1\u89c4\u5212\u7814\u7a76\u62a5\u544a\u4e66",
        "\u041a\u043e\u043c\u0438\u0442\u0435\u0442 \u0441\u043d\u043e\u0432\u0430 "
        "\u0441\u043e\u0431\u0440\u0430\u043b\u0441\u044f \u0432 "
        "\u0447\u0435\u0442\u0432\u0435\u0440\u0433 \u0438 \u0440\u0435\u0448\u0438\u043b "
        "\u043f\u043e\u0441\u0442\u0440\u043e\u0438\u0442\u044c "
        "\u043d\u043e\u0432\u044b\u0439 \u043c\u043e\u0441\u0442 "
        "\u0447\u0435\u0440\u0435\u0437 \u0440\u0435\u043a\u0443 \u0432 "
        "\u0441\u043b\u0435\u0434\u0443\u044e\u0449\u0435\u043c "
        "\u0433\u043e\u0434\u0443",
    ],
    ids=["German", "Chinese", "Russian"],
)
def test_the_real_classifier_finds_a_foreign_sentence(identify: Identify, foreign: str) -> None:
    assert judge(f"{ENGLISH} {foreign} {ENGLISH}", identify, PAPER) is Verdict.OFFERED
    assert judge(f"{ENGLISH} {foreign}", identify, PAPER) is Verdict.NOT_BETWEEN
    assert judge(f"{ENGLISH} {ENGLISH}", identify, PAPER) is Verdict.NO_FOREIGN


def test_the_papers_own_prompt_texts_are_too_short_for_its_filter(identify: Identify) -> None:
    """Phrases of four words, or text that begins or ends with them, are not what chunks find."""
    lines = load_prompt("MT").splitlines()
    texts = [line.removeprefix("Input: ") for line in lines if line.startswith("Input: ")][:-1]
    assert len(texts) == 3
    assert all(judge(text, identify, PAPER) is not Verdict.OFFERED for text in texts)


def test_a_classifier_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"lid\.bin: no such file"):
        english_or_not(MtFilterConfig(language_id=tmp_path / "lid.bin"))
    assert english_or_not(None) is None


def records(path: Path) -> Iterator[dict[str, Any]]:
    if not path.exists():
        pytest.skip(f"no real text at {path}")
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


@pytest.mark.shared_data
def test_of_real_web_text_almost_nothing_is_offered(identify: Identify) -> None:
    """Four of 300 documents of C4, and these paragraphs are about a foreign language or are spam.

    The share is CCNet's after its own filter for language: what is foreign as a whole is gone.
    """
    verdicts: Counter[Verdict] = Counter()
    offered = set()
    for row in records(SHARED / "webtext" / "c4_wimbd_1000.jsonl"):
        for begin, end in paragraph_spans(row["raw_content"]):
            verdict = judge(row["raw_content"][begin:end], identify, PAPER)
            verdicts[verdict] += 1
            if verdict is Verdict.OFFERED:
                offered.add(row["digest"])
    assert verdicts.total() == 2527
    assert 2 <= verdicts[Verdict.OFFERED] <= 8 and 2 <= len(offered) <= 6
    assert verdicts[Verdict.NO_FOREIGN] + verdicts[Verdict.TOO_SHORT] > 0.98 * 2527


@pytest.mark.shared_data
def test_a_real_paragraph_of_any_language_is_found_between_english_ones(
    identify: Identify,
) -> None:
    """Wikipedia in eleven languages: every one between two of English, none by itself."""
    rows = list(records(SHARED / "xquad" / "parallel_contexts.jsonl"))[:12]
    for language in ("ar", "de", "el", "es", "hi", "ro", "ru", "th", "tr", "vi", "zh"):
        for before, row in itertools.pairwise(rows):
            foreign = row[language].strip()
            mixed = f"{before['en'].strip()} {foreign} {row['en'].strip()}"
            assert judge(mixed, identify, PAPER) is Verdict.OFFERED, (language, row["id"])
            assert judge(foreign, identify, PAPER) is not Verdict.OFFERED, (language, row["id"])
    english = Counter(judge(row["en"].strip(), identify, PAPER) for row in rows)
    assert english == {Verdict.NO_FOREIGN: len(rows)}
