"""Which texts a corpus has."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from pipeline.schemas import DOCUMENTS
from tools.base import InputError
from training.evaluate.corpus import CorpusConfig, corpus_texts


def write(path: Path, texts: dict[str, str], *, row_group: int = 3) -> Path:
    rows = [{"doc_id": doc_id, "text": text} for doc_id, text in texts.items()]
    table = pa.Table.from_pylist(rows, schema=DOCUMENTS)
    pq.write_table(table, path, row_group_size=row_group)
    return path


def texts_of(seed: int = 0, **corpus: Any) -> list[str]:
    return corpus_texts(CorpusConfig.model_validate({"name": "CCNet", **corpus}), seed=seed)


NUMBERED = {f"d{number}": f"text {number}" for number in range(20)}


def test_documents_are_drawn_by_seed_and_doc_id_alone(tmp_path: Path) -> None:
    one = write(tmp_path / "one.parquet", NUMBERED)
    (tmp_path / "two").mkdir()
    shuffled = list(reversed(NUMBERED.items()))
    write(tmp_path / "two" / "a.parquet", dict(shuffled[:7]))
    write(tmp_path / "two" / "b.parquet", dict(shuffled[7:]))
    drawn = texts_of(documents=one, max_documents=5)
    assert len(set(drawn)) == 5 and set(drawn) < set(NUMBERED.values())
    assert drawn == texts_of(documents=tmp_path / "two", max_documents=5)
    assert drawn == texts_of(documents=one)[:5]
    assert set(drawn) != set(texts_of(seed=1, documents=one, max_documents=5))
    assert sorted(texts_of(documents=one)) == sorted(NUMBERED.values())


def test_texts_without_anything_in_them_are_none(tmp_path: Path) -> None:
    path = write(tmp_path / "documents.parquet", {"a": " \n", "b": "", "c": "text"})
    assert texts_of(documents=path) == ["text"]
    path = write(tmp_path / "blank.parquet", {"a": " \n"})
    with pytest.raises(InputError, match=r"blank\.parquet: no document with a text$"):
        texts_of(documents=path)


def test_wikitext_is_read_as_articles(tmp_path: Path) -> None:
    path = tmp_path / "wiki.test.tokens"
    path.write_text(" \n = A = \n \n One . \n \n = B = \n \n Two . \n", encoding="utf-8")
    assert texts_of(wikitext=path) == ["= A = \n \n One .", "= B = \n \n Two ."]


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "torn.parquet", NUMBERED)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match=r"torn\.parquet: not a readable Parquet file"):
        texts_of(documents=path)
    with pytest.raises(InputError, match="gone: no such file or directory"):
        texts_of(documents=tmp_path / "gone")
    with pytest.raises(InputError, match=r"gone\.tokens: no such file"):
        texts_of(wikitext=tmp_path / "gone.tokens")


@pytest.mark.parametrize(
    ("corpus", "what"),
    [
        ({}, "expected one of wikitext and documents"),
        ({"wikitext": "a", "documents": "b"}, "expected one of wikitext and documents"),
        ({"wikitext": "a", "max_documents": 3}, "max_documents is for documents"),
        ({"documents": "b", "max_documents": 0}, "greater than or equal to 1"),
    ],
)
def test_a_corpus_has_one_source(corpus: dict[str, Any], what: str) -> None:
    with pytest.raises(ValidationError, match=what):
        CorpusConfig.model_validate({"name": "x", **corpus})
