"""The command line on web text that nobody here wrote: nothing breaks, everything adds up."""

import json
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.pipeline.demo_runs import ROOT, demo_config, pipeline_here
from tools.calls import ApiCall, pieces_with_result

SHARED = ROOT.parent / "shared" / "data"
NUM_DOCUMENTS = 673  # 669 of webtext/, 4 WET records of warc_wet/

pytestmark = [pytest.mark.ray, pytest.mark.shared_data]


def without_calls(row: dict[str, Any]) -> bytes:
    """A C* text without the bytes its calls occupy."""
    text: bytes = row["text"].encode()
    kept, place = b"", 0
    for call in sorted(row["calls"], key=lambda call: call["byte_start"]):
        kept += text[place : call["byte_start"]]
        place = call["byte_end"]
    return kept + text[place:]


# Files below shared/data, what annotates them and how many documents that are. The model reads some
# of them: it takes a second for each on one core. The null engine reads everything.
MODEL = {"replicas": 1, "token_budget": 1024}
NULL = {"name": "pipeline.engines.scripted:ScriptedEngine"}
TOOLS = ["Calculator", "Calendar", "WikiSearch"]
RUNS: dict[str, tuple[list[str], list[str], dict[str, Any], int]] = {
    "everything": (["webtext", "warc_wet"], TOOLS, NULL, NUM_DOCUMENTS),
    "searches": (["webtext/ccnet_dolma_tests.jsonl", "warc_wet"], ["WikiSearch"], MODEL, 12),
}
LINES = {"webtext/ccnet_dolma_tests.jsonl": 8}  # the first so many of a file that is named itself


@pytest.fixture(scope="module", params=RUNS)
def run(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, local_ray: None
) -> Path:
    """Real files ingested, annotated, built at a threshold of 0.5 nats, and reported."""
    if not (SHARED / "webtext").is_dir():
        pytest.skip(f"no real web text in {SHARED}")
    sources, names, engine, _ = RUNS[request.param]
    directory = tmp_path_factory.mktemp(request.param)
    documents, run = directory / "documents", directory / "run"
    pipeline_here(
        "ingest", *(beginning(source, directory) for source in sources), "--out", documents
    )
    config = demo_config(
        directory, 0, input=str(documents), unit_documents=16,
        tools={name: tool(name) for name in names}, sampling={"max_new_tokens": 16}, engine=engine,
    )  # fmt: skip
    pipeline_here("annotate", config, "--run", run)
    pipeline_here("build", run)
    pipeline_here("report", run)
    return run


def beginning(source: str, directory: Path) -> Path:
    """A file or directory below shared/data; of a file in LINES its first lines, in `directory`."""
    path = SHARED / source
    if source not in LINES:
        return path
    with path.open(encoding="utf-8") as lines:
        part = directory / path.name
        part.write_text("".join(islice(lines, LINES[source])), encoding="utf-8")
    return part


def tool(name: str) -> dict[str, Any]:
    """The demo's settings of a tool, asked for little, and searches over real articles."""
    prompt = ROOT / "pipeline" / "configs" / "demo_prompts" / f"{name}.txt"
    settings: dict[str, Any] = {"prompt": str(prompt), "tau_s": 0.05, "k": 1, "m": 1}
    settings["tau_f"] = 0.5
    if name == "WikiSearch":
        corpus = SHARED / "wiki_passages" / "wikitext2_valid.kilt.jsonl"
        settings |= {"actors": 1, "options": {"corpus": str(corpus)}}
    return settings


def expected_documents(run: Path) -> int:
    return next(count for name, (*_, count) in RUNS.items() if name in run.parent.name)


def rows(run: Path, pattern: str) -> list[dict[str, Any]]:
    return [row for path in sorted(run.glob(pattern)) for row in pq.read_table(path).to_pylist()]


def test_every_document_is_there_once_and_its_parts_give_its_text(run: Path) -> None:
    sources = {row["doc_id"]: row["text"] for row in rows(run.parent, "documents/*.parquet")}
    assert len(sources) == expected_documents(run)
    texts: dict[str, str] = {}
    for row in rows(run, "units/*.parquet"):
        doc_id = row["doc_id"] if row["part"] == 0 else row["doc_id"].rpartition("#")[0]
        texts[doc_id] = texts.get(doc_id, "") + row["text"]
    assert texts == sources


def test_counts_are_sane_and_add_up(run: Path) -> None:
    stats = json.loads((run / "report" / "stats.json").read_text())
    assert stats["documents"] == expected_documents(run)
    for name, counts in stats["tools"].items():
        assert counts["drawn"] == counts["positions"] - counts["positions_pruned"], name
        assert counts["executed"] == counts["candidates"] == sum(counts["status"].values()), name
        assert counts["kept"] <= counts["scored"] <= counts["status"].get("ok", 0), name
        at = [counts["kept_at"][tau_f] for tau_f in ("0.5", "1.0", "2.0")]
        assert at == sorted(at, reverse=True), name
        assert counts["documents"] > 0 and counts["positions"] > 0, name


def test_removing_the_calls_of_c_star_gives_the_source_bytes(run: Path) -> None:
    sources = {row["doc_id"]: row["text"] for row in rows(run, "units/*.parquet")}
    augmented = rows(run, "dataset/*.parquet")
    for row in augmented:
        assert without_calls(row) == sources[row["doc_id"]].encode()
        text = row["text"].encode()
        for call in row["calls"]:
            written = text[call["byte_start"] : call["byte_end"]].decode()
            e = "".join(pieces_with_result(ApiCall(call["tool"], call["input"]), call["result"]))
            assert written.strip() == e.strip()
    plain = rows(run, "dataset_plain/*.parquet")
    assert [row["doc_id"] for row in plain] == [row["doc_id"] for row in augmented]
    assert all(row["text"] == sources[row["doc_id"]] for row in plain)
