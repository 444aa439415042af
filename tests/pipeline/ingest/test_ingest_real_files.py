"""All of shared/data/webtext and shared/data/warc_wet."""

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from warcio.archiveiterator import ArchiveIterator

from pipeline.ingest.ledger import Ledger

Run = Callable[..., Ledger]
SHARED = Path(__file__).parents[4] / "shared" / "data"

pytestmark = [
    pytest.mark.shared_data,
    pytest.mark.skipif(
        not (SHARED / "webtext").is_dir(), reason="no shared/data/webtext beside the checkout"
    ),
]


def test_all_of_webtext_is_kept_byte_for_byte(run: Run, out: Path) -> None:
    ledger = run(SHARED / "webtext")
    assert {entry.output: (entry.read, entry.kept) for entry in ledger.files} == {
        "article_extraction_benchmark.jsonl.parquet": (40, 40),
        "c4_wimbd_1000.jsonl.parquet": (300, 300),
        "cc2019_dataprepkit_100.jsonl.parquet": (100, 100),
        "ccnet_dolma_tests.jsonl.parquet": (29, 29),
        "htmldate_trafilatura_eval.jsonl.parquet": (200, 200),
    }
    doc_ids = set()
    for entry in ledger.files:
        rows = pq.read_table(out / entry.output).to_pylist()
        lines = Path(entry.source).read_bytes().splitlines()
        for row, line in zip(rows, lines, strict=True):
            source = json.loads(line)
            assert row["text"].encode() == source["raw_content"].encode()
            assert (row["doc_id"], row["url"]) == (source["digest"], source["url"])
            doc_ids.add(row["doc_id"])
    assert len(doc_ids) == 669


def test_wet_files_give_documents_and_warc_files_reasons(run: Run, out: Path) -> None:
    ledger = run(SHARED / "warc_wet")
    assert {entry.output: (entry.read, entry.kept) for entry in ledger.files} == {
        "ccnet_sample.warc.txt.parquet": (3, 3),
        "dolma-sample-0000.warc.gz.parquet": (47, 0),
        "dolma-sample-0001.warc.gz.parquet": (33, 0),
        "jwarc-cc.warc.gz.parquet": (1, 0),
        "whirlwind.warc.gz.parquet": (3, 0),
        "whirlwind.warc.wat.gz.parquet": (1, 0),
        "whirlwind.warc.wet.parquet": (1, 1),
    }
    responses = {e.output: e.rejected.get("warc_response_not_text") for e in ledger.files}
    assert responses["dolma-sample-0000.warc.gz.parquet"] == 22
    assert responses["dolma-sample-0001.warc.gz.parquet"] == 15


def test_ccnets_own_sample_is_read_as_ccnet_reads_it(run: Run, out: Path) -> None:
    """Its Content-Length counts characters, so a reader that trusts it stops at the second."""
    run(SHARED / "warc_wet" / "ccnet_sample.warc.txt")
    english, chinese, russian = pq.read_table(out / "ccnet_sample.warc.txt.parquet").to_pylist()
    assert english["doc_id"] == "sha1:XQZHW7QWIG54HVAV3KPRW6MK5ILDNCER"
    assert english["title"] == "Famous Mark Twain Quotes"
    assert english["text"].startswith("Don't part with your illusions.")
    assert english["text"].endswith("Truth isn't.")
    assert chinese["url"] == "http://sample_chinese.zh"
    assert len(chinese["text"].split("\n")) == len(russian["text"].split("\n")) == 4


def test_common_crawl_record_is_what_warcio_reads(run: Run, out: Path) -> None:
    path = SHARED / "warc_wet" / "whirlwind.warc.wet"
    run(path)
    [row] = pq.read_table(out / "whirlwind.warc.wet.parquet").to_pylist()
    with path.open("rb") as file:
        [body] = [
            r.content_stream().read() for r in ArchiveIterator(file) if r.rec_type != "warcinfo"
        ]
    assert row["title"] + "\n" + row["text"] == body.decode().rstrip("\n")
    assert row["url"] == "https://an.wikipedia.org/wiki/Escopete"
