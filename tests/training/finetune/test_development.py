import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.documents.splitting import split_text
from pipeline.schemas import DOCUMENTS
from tests.training.finetune.made_dataset import demo_codec, held_out, made_run
from tools.base import InputError
from training.finetune.config import FinetuneConfig
from training.finetune.development import DevelopmentSet, load_development_set
from training.finetune.examples import Examples, TrainingSet, load_training_set

CODEC = demo_codec()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_run(tmp_path_factory.mktemp("development") / "run", 12)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 documents that are not in the run."""
    return held_out(tmp_path_factory.mktemp("held_out"), 40)


def config(run: Path, documents: Path, asked: int, **settings: Any) -> FinetuneConfig:
    development = {"input": documents, "documents": asked}
    return FinetuneConfig.model_validate(
        {"run": run, "out": run / "out", "development": development} | settings
    )


def load(run: Path, documents: Path, asked: int, **settings: Any) -> DevelopmentSet:
    of = config(run, documents, asked, **settings)
    return load_development_set(of, CODEC, load_training_set(of, CODEC))


def load_beside(
    run: Path, documents: Path, *, doc_ids: set[str], texts: set[str], asked: int = 1000
) -> DevelopmentSet:
    """The development set where documents of these ids and of these texts are trained on."""
    hashes = {hashlib.blake2b(text.encode(), digest_size=16).hexdigest() for text in texts}
    training = TrainingSet(
        examples=Examples(), documents=len(doc_ids), calls={}, dropped={},
        doc_ids=frozenset(doc_ids), text_hashes=frozenset(hashes),
    )  # fmt: skip
    return load_development_set(config(run, documents, asked), CODEC, training)


def ids_of(development: DevelopmentSet) -> list[str]:
    return [example.doc_id for example in development.examples]


def refused(development: DevelopmentSet) -> tuple[int, int, int]:
    return development.excluded_by_id, development.excluded_by_text, development.unusable


def write(path: Path, rows: list[dict[str, Any]], *, row_group: int = 1000) -> Path:
    pq.write_table(pa.Table.from_pylist(rows, schema=DOCUMENTS), path, row_group_size=row_group)
    return path


def test_as_many_as_asked_for_are_drawn_by_the_seed(run: Path, plain: Path) -> None:
    drawn, again, other = (load(run, plain, 15, seed=seed) for seed in (0, 0, 1))
    assert drawn.documents == len(set(ids_of(drawn))) == 15
    assert refused(drawn) == (0, 0, 0)
    assert ids_of(drawn) == ids_of(again)
    assert ids_of(drawn) != ids_of(other)
    assert ids_of(drawn) == ids_of(load(run, plain, 40))[:15]


def test_the_order_and_the_files_of_the_input_do_not_matter(
    run: Path, plain: Path, tmp_path: Path
) -> None:
    rows = pq.read_table(plain).to_pylist()
    write(tmp_path / "a.parquet", rows[25:][::-1], row_group=4)
    write(tmp_path / "b.parquet", rows[:25])
    assert ids_of(load(run, tmp_path, 15)) == ids_of(load(run, plain, 15))


def test_the_tokens_are_the_first_of_the_document_and_the_first_is_not_learned(
    run: Path, plain: Path
) -> None:
    texts = {row["doc_id"]: row["text"] for row in pq.read_table(plain).to_pylist()}
    for sequence_tokens in (1024, 20):
        for example in load(run, plain, 40, sequence_tokens=sequence_tokens).examples:
            tokens = CODEC.canonical(texts[example.doc_id])[: sequence_tokens - 1].tolist()
            assert example.input_ids.tolist() == [CODEC.bos_id, *tokens]
            assert example.trained.tolist() == [False] + [True] * len(tokens)
            assert example.num_calls == 0


def test_documents_that_are_trained_on_are_not_drawn(
    run: Path, plain: Path, tmp_path: Path
) -> None:
    """Ten documents of C under their own ids, the same ten under others, and ten held out."""
    trained = pq.read_table(run / "dataset_plain").to_pylist()[:10]
    rows = [{"doc_id": row["doc_id"], "text": row["text"]} for row in trained]
    rows += [{"doc_id": f"copy-{n}", "text": row["text"]} for n, row in enumerate(trained)]
    rows += pq.read_table(plain).slice(0, 10).to_pylist()
    development = load(run, write(tmp_path / "mixed.parquet", rows), 1000)
    assert sorted(ids_of(development)) == [f"held-{n:04}" for n in range(10)]
    assert refused(development) == (10, 10, 0)
    assert development.documents == 10


def test_those_refused_are_counted_as_far_as_was_drawn(
    run: Path, plain: Path, tmp_path: Path
) -> None:
    order = ids_of(load(run, plain, 40))
    trained_on = set(order[1:30:2])  # of the first 20 drawn every second
    expected = [doc_id for doc_id in order if doc_id not in trained_on][:10]
    rows = pq.read_table(plain).to_pylist()
    for each in (rows, rows[::-1]):
        path = write(tmp_path / "documents.parquet", each)
        beside = load_beside(run, path, doc_ids=trained_on, texts=set(), asked=10)
        assert ids_of(beside) == expected
        assert refused(beside) == (9, 0, 0)


def test_a_document_is_not_drawn_if_a_part_of_it_is_trained_on(run: Path, plain: Path) -> None:
    beside = load_beside(run, plain, doc_ids={"held-0003#2", "held-0004#x"}, texts=set())
    assert set(ids_of(beside)) == {f"held-{n:04}" for n in range(40) if n != 3}
    assert refused(beside) == (1, 0, 0)


def test_a_part_is_not_drawn_if_its_document_is_trained_on(run: Path, tmp_path: Path) -> None:
    rows = [{"doc_id": doc_id, "text": f"Text {doc_id}."} for doc_id in ("a#1", "b#1", "c")]
    path = write(tmp_path / "parts.parquet", rows)
    assert ids_of(load_beside(run, path, doc_ids={"a", "c#7"}, texts=set())) == ["b#1"]


def test_a_copy_of_a_long_document_is_known_by_its_parts(
    run: Path, plain: Path, tmp_path: Path
) -> None:
    """As when a long document was annotated in parts, and stands elsewhere by another id."""
    shorter = shutil.copytree(run, tmp_path / "run")
    record = json.loads((shorter / "run.json").read_text())
    record["config"]["max_document_tokens"] = 60
    (shorter / "run.json").write_text(json.dumps(record))
    text = " ".join(row["text"] for row in pq.read_table(plain).slice(0, 6).to_pylist())
    parts = split_text(text, CODEC.count, 60)
    assert len(parts) > 2
    path = write(tmp_path / "d.parquet", [{"doc_id": d, "text": t} for d, t in
                 (("copy", text), ("other", "Nothing of it."))])  # fmt: skip
    beside = load_beside(shorter, path, doc_ids={"d#2"}, texts={parts[1]})
    assert ids_of(beside) == ["other"]
    assert refused(beside) == (0, 1, 0)
    # Where documents were annotated whole, its text is another than that of the part.
    assert refused(load_beside(run, path, doc_ids={"d#2"}, texts={parts[1]})) == (0, 0, 0)


def test_documents_without_a_text_to_use_are_counted(run: Path, tmp_path: Path) -> None:
    table = pa.table(
        {
            "doc_id": ["a", "b", "c", "d"],
            "text": pa.array([b"Good text.", None, b" \n", b"\xff\xfe"], pa.large_binary()),
        }
    )
    pq.write_table(table, tmp_path / "documents.parquet")
    development = load(run, tmp_path / "documents.parquet", 10)
    assert ids_of(development) == ["a"]
    assert refused(development) == (0, 0, 3)


def refusal(run: Path, documents: Path) -> str:
    with pytest.raises(InputError) as error:
        load(run, documents, 10)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_an_input_that_is_all_trained_on_is_refused(run: Path, tmp_path: Path) -> None:
    trained = pq.read_table(run / "dataset_plain").to_pylist()
    rows = [{"doc_id": row["doc_id"], "text": row["text"]} for row in trained]
    rows.append({"doc_id": "copy", "text": rows[0]["text"]})
    said = refusal(run, write(tmp_path / "documents.parquet", rows))
    assert f"none of its {len(rows)} documents can be used" in said
    assert f"{len(rows) - 1} are trained on by their doc_id, 1 by their text, 0 have no" in said


def test_an_input_that_cannot_be_read_is_named(run: Path, plain: Path, tmp_path: Path) -> None:
    assert "no such file or directory" in refusal(run, tmp_path / "none.parquet")
    assert "none of its 0 documents" in refusal(run, write(tmp_path / "empty.parquet", []))
    torn = tmp_path / "torn.parquet"
    torn.write_bytes(plain.read_bytes()[:-100])
    assert f"{torn}: not a readable Parquet file" in refusal(run, torn)
    other = tmp_path / "other.parquet"
    pq.write_table(pa.table({"content": ["text"]}), other)
    assert f"{other}: no column doc_id, text" in refusal(run, other)
