"""Plain text for perplexity: WikiText, and held-out documents of CCNet (paper section 4.3)."""

import heapq
import sys
from collections.abc import Iterator
from pathlib import Path

from pydantic import Field, model_validator

from pipeline.build.cap import rank
from pipeline.reading import SourceDocument, list_document_files, open_documents, read_rows
from pipeline.settings import Section
from tools.base import InputError
from tools.places import Place, PlaceField
from training.benchmarks.wikitext import wikitext


class CorpusConfig(Section):
    """Texts: a file of WikiText, or DOCUMENTS Parquet (a file, a directory, a run's
    `dataset_plain`), of which `max_documents` are drawn; all when absent.
    """

    name: str
    wikitext: Path | None = None
    documents: PlaceField | None = None
    max_documents: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _one_source(self) -> "CorpusConfig":
        if (self.wikitext is None) == (self.documents is None):
            raise ValueError("expected one of wikitext and documents")
        if self.max_documents is not None and self.documents is None:
            raise ValueError("max_documents is for documents; all articles of wikitext are read")
        return self


def corpus_texts(corpus: CorpusConfig, *, seed: int) -> list[str]:
    """The texts of a corpus, at least one and none of them blank.

    Documents come in the order in which they are drawn, which depends on the seed and the doc_ids
    and not on the order of the input. Of two with the same doc_id the first is drawn first.

    Raises:
        InputError: a file is missing, torn or of another kind, or there is no text.
    """
    if corpus.wikitext is not None:
        return wikitext(corpus.wikitext)
    assert corpus.documents is not None  # the model has one of them
    drawn = heapq.nsmallest(
        corpus.max_documents or sys.maxsize,
        (
            (rank(seed, corpus.name, document.doc_id), number, document.text)
            for number, document in enumerate(_documents(corpus.documents))
            if document.text.strip()
        ),
    )
    if not drawn:
        raise InputError(f"{corpus.documents}: no document with a text")
    return [text for _, _, text in drawn]


def _documents(place: Place) -> Iterator[SourceDocument]:
    """Every row, one row group in memory at a time; the text of an unusable one is empty."""
    for path in list_document_files([place]):
        with open_documents(path) as file:
            groups = [file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)]
        first = 0
        for num_rows in groups:
            yield from read_rows(path, first, num_rows)
            first += num_rows
