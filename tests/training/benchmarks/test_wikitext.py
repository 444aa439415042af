from pathlib import Path

import pytest

from tools.base import InputError
from training.benchmarks.wikitext import wikitext

REAL = Path(__file__).resolve().parents[4] / "shared" / "data" / "wikitext2" / "wiki.valid.tokens"

# As in the raw files: a space begins and ends every line.
RAW = """ 
 = Robert Boulter = 
 
 Robert Boulter is an English actor , a well @-@ known one . 
 
 = = Career = = 
 
 
 = = = 2000 to 2005 = = = 
 
 In 2000 he had a role . 
 = not a title = 
 He had more . 
 
 = A = B = 
 
 Text . 
 
"""


def test_an_article_goes_from_its_title_to_the_next(tmp_path: Path) -> None:
    path = tmp_path / "wiki.test.raw"
    path.write_text(RAW, encoding="utf-8")
    first, second = wikitext(path)
    assert second == "= A = B = \n \n Text ."
    assert first.startswith(
        "= Robert Boulter = \n \n Robert Boulter is an English actor , a well @-"
    )
    assert first.endswith("\n = not a title = \n He had more .")
    assert f" {first} \n \n {second} \n \n" == RAW.removeprefix(" \n")


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("", ": no title of an article, as in ' = Robert Boulter = '"),
        (" = = Career = = \n \n Text . \n", ": no title of an article"),
        ("\n Text . \n \n = Title = \n \n Text . \n", ":2: text before the first title"),
    ],
)
def test_what_is_no_wikitext_is_an_error(tmp_path: Path, content: str, what: str) -> None:
    path = tmp_path / "wiki.test.raw"
    path.write_text(content)
    with pytest.raises(InputError) as caught:
        wikitext(path)
    assert str(caught.value).startswith(f"{path}{what}")


def test_a_missing_file_can_be_had_somewhere(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file; it can be had from wikitext-103-raw"):
        wikitext(tmp_path / "wiki.test.raw")


@pytest.mark.shared_data
def test_the_validation_split_has_its_60_articles() -> None:
    if not REAL.exists():
        pytest.skip(f"no real articles at {REAL}")
    texts = wikitext(REAL)
    assert len(texts) == 60
    assert texts[0].startswith("= Homarus gammarus =")
    # Of this split 217,646 tokens are known: these and the ends of its 3,760 lines.
    assert sum(len(text.split()) for text in texts) == 217_646 - 3_760
