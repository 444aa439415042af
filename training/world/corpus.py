"""Documents of a world, the demo's or another, and the encyclopedia that knows their facts."""

import json
import random
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.schemas import DOCUMENTS
from training.world.document import Document, draw_document
from training.world.encyclopedia import World, kilt_record
from training.world.grammar import Forms
from training.world.names import Names

DOCUMENTS_FILE = "documents.parquet"
ENCYCLOPEDIA_FILE = "encyclopedia.jsonl"
NUM_DOCUMENTS = 240
_NUM_PAGES = 320
_NUM_KNOWN_PAGES = 3000  # as in pretraining: few facts are told twice, so none is learned by heart


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """Documents and the world whose encyclopedia they draw their facts from."""

    world: World
    documents: tuple[Document, ...]


def held_out_corpus(*, seed: int = 0, num_documents: int = NUM_DOCUMENTS) -> Corpus:
    """Documents with names, numbers, days and surface forms that training never sees.

    Seed 0 is the demo; other seeds give other documents to measure on.
    """
    return corpus_of("held-out", seed=seed, num_documents=num_documents)


def known_corpus(*, seed: int, num_documents: int) -> Corpus:
    """Documents to finetune on: names, numbers and days such as pretraining shows a model.

    The surface forms are those of pretraining and some more; all that is held out stays unseen.
    """
    return corpus_of("known", seed=seed, num_documents=num_documents)


def corpus_of(forms: Forms, *, seed: int, num_documents: int) -> Corpus:
    """Documents of these forms, and their world; other seeds give others."""
    held_out = forms == "held-out"
    rng = random.Random(f"{'held out' if held_out else forms} {seed}")
    names = Names(held_out=held_out)
    world = World(names, _NUM_PAGES if held_out else _NUM_KNOWN_PAGES, rng)
    documents = tuple(
        draw_document(world, names, rng, finetuning=forms == "known") for _ in range(num_documents)
    )
    return Corpus(world=world, documents=documents)


def documents_table(documents: tuple[Document, ...], series: str = "demo") -> pa.Table:
    """The documents in the schema of the pipeline's input, with `series` before their numbers."""
    rows = [
        {
            "doc_id": f"{series}-{number:04d}",
            "text": document.text,
            "url": document.url,
            "title": document.title,
            "date_download": document.date_download.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "language": "en",
            "language_score": None,
            "source_domain": document.url.split("/")[2],
        }
        for number, document in enumerate(documents)
    ]
    return pa.Table.from_pylist(rows, schema=DOCUMENTS)


def write_corpus(out: Path, corpus: Corpus, series: str = "demo") -> None:
    """Writes the documents as Parquet and the encyclopedia as KILT JSON lines."""
    out.mkdir(parents=True, exist_ok=True)
    table = documents_table(corpus.documents, series)
    pq.write_table(table, out / DOCUMENTS_FILE, compression="zstd")
    lines = [
        json.dumps(kilt_record(entity, number), ensure_ascii=False)
        for number, entity in enumerate(corpus.world.entities)
    ]
    (out / ENCYCLOPEDIA_FILE).write_text("\n".join(lines) + "\n", encoding="utf-8")
