"""Documents of the soak: any number of them, the same for the same seed, written in a stream."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.schemas import DOCUMENTS

FILE_DOCUMENTS = 20_000
# A unit reads the row groups it touches whole: no larger than a few units.
_ROW_GROUP_DOCUMENTS = 1_000
_MANY_FILE_DOCUMENTS, _MANY_ROW_GROUP_DOCUMENTS = 100_000, 10_000

_PLACES = ("Larby", "Mordale", "Zordale", "Harby", "Selmora", "Olley", "Warfield", "Lorhaven")
_THINGS = ("tickets", "apples", "plates", "coins", "seeds", "pencils", "cards", "cups")
_PEOPLE = ("The baker", "The doctor", "The farmer", "Our teacher", "A visitor", "The old miller")
_PLAIN = (
    "{person} of {place} wrote about the {things} again.",
    "The museum of {place} is open on {a} days of the year.",
    "A dog barked and the talk went on in {place}.",
    "{person} keeps {things} in the house by the river.",
    "Comments are open below, and {a} people read this page.",
    "Notes from {place}, where the {things} are sold on Fridays.",
)
_SUMS = (
    "{person} had {a} {things} and got {b} more, a total of {total}.",
    "They counted {a} {things} on one day and {b} on the next, so {total} in all.",
    "{person} sold {b} of {total} {things}; {a} are left.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Of documents: with a sum, offered to the Calculator; with a date in the URL, the Calendar."""

    with_sum: float
    with_date: float


OFTEN = Shares(with_sum=0.25, with_date=0.5)
RARE = Shares(with_sum=0.04, with_date=0.08)


def write_documents(
    directory: Path,
    num_documents: int,
    *,
    most_sentences: int = 3,
    shares: Shares = OFTEN,
    seed: int = 0,
) -> None:
    """DOCUMENTS Parquet files of FILE_DOCUMENTS each; memory holds one row group.

    The texts are sentences as on web pages, 16 tokens of the demo's tokenizer each, one to
    `most_sentences` and at times one more. What is written depends on the numbers alone.
    """
    directory.mkdir(parents=True, exist_ok=True)
    for first in range(0, num_documents, FILE_DOCUMENTS):
        last = min(first + FILE_DOCUMENTS, num_documents)
        path = directory / f"documents-{first // FILE_DOCUMENTS:05d}.parquet"
        with pq.ParquetWriter(path, DOCUMENTS, compression="zstd") as writer:
            for start in range(first, last, _ROW_GROUP_DOCUMENTS):
                numbers = range(start, min(start + _ROW_GROUP_DOCUMENTS, last))
                rows = [
                    _document(number, most_sentences, shares, random.Random(seed << 40 | number))
                    for number in numbers
                ]
                writer.write_table(pa.Table.from_pylist(rows, schema=DOCUMENTS))


def write_texts(path: Path, texts: Sequence[str]) -> None:
    """One DOCUMENTS file of these texts, all with a date in the URL: for the Calendar."""
    rows = [
        {
            "doc_id": _doc_id(number),
            "text": text,
            "url": f"https://www.larby.example/2009/05/07/{number}",
        }
        for number, text in enumerate(texts)
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(
        pa.Table.from_pylist(rows, schema=DOCUMENTS), path, row_group_size=_ROW_GROUP_DOCUMENTS
    )


def write_many(directory: Path, num_documents: int) -> None:
    """DOCUMENTS Parquet files of documents that differ by their doc_id alone, written fast."""
    directory.mkdir(parents=True, exist_ok=True)
    for first in range(0, num_documents, _MANY_FILE_DOCUMENTS):
        ids = [_doc_id(n) for n in range(first, min(first + _MANY_FILE_DOCUMENTS, num_documents))]
        columns = {"doc_id": ids, "text": ["The mill is open."] * len(ids)}
        nothing = {name: [None] * len(ids) for name in DOCUMENTS.names if name not in columns}
        table = pa.table(columns | nothing, schema=DOCUMENTS)
        path = directory / f"documents-{first // _MANY_FILE_DOCUMENTS:05d}.parquet"
        pq.write_table(table, path, row_group_size=_MANY_ROW_GROUP_DOCUMENTS)


def document_ids(num_documents: int) -> Iterator[str]:
    """The doc_ids, in the order of the files and their rows."""
    return map(_doc_id, range(num_documents))


def _doc_id(number: int) -> str:
    return f"soak-{number:09d}"


def _document(
    number: int, most_sentences: int, shares: Shares, chance: random.Random
) -> dict[str, str]:
    length = chance.randint(1, most_sentences)
    sentences = [_sentence(chance.choice(_PLAIN), chance) for _ in range(length)]
    if chance.random() < shares.with_sum:
        sentences.append(_sentence(chance.choice(_SUMS), chance))
    date = ""
    if chance.random() < shares.with_date:
        date = (
            f"{chance.randint(2001, 2018)}/{chance.randint(1, 12):02d}/{chance.randint(1, 28):02d}/"
        )
    place, thing = chance.choice(_PLACES).lower(), chance.choice(_THINGS)
    return {
        "doc_id": _doc_id(number),
        "text": " ".join(sentences),
        "url": f"https://www.{place}.example/{date}{thing}-{number}",
        "date_download": "2019-05-20T10:00:00Z",
        "language": "en",
        "source_domain": f"www.{place}.example",
    }


def _sentence(template: str, chance: random.Random) -> str:
    a, b = chance.randint(3, 900), chance.randint(3, 900)
    return template.format(
        person=chance.choice(_PEOPLE),
        place=chance.choice(_PLACES),
        things=chance.choice(_THINGS),
        a=a,
        b=b,
        total=a + b,
    )
