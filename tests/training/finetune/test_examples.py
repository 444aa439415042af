import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.build.cap import rank
from tests.training.finetune.made_dataset import TOOLS, demo_codec, made_run
from tools.base import InputError
from training.finetune.config import FinetuneConfig
from training.finetune.examples import Example, TrainingSet, load_training_set

CODEC = demo_codec()
CALL = re.compile(rf" \[(?:{'|'.join(TOOLS)})\([^\]]*\) -> [^\]]*\]")
END = "<|endoftext|>"  # begins every sequence, too


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 documents, of which the first four have some 500 tokens with their calls."""
    return made_run(tmp_path_factory.mktemp("examples") / "run", 60, long=4)


def load(run: Path, **settings: Any) -> TrainingSet:
    config = {"run": run, "out": run / "out", "development": {"input": run}}
    return load_training_set(FinetuneConfig.model_validate(config | settings), CODEC)


def rows_of(run: Path, name: str = "dataset") -> dict[str, dict[str, Any]]:
    return {row["doc_id"]: row for row in pq.read_table(run / name).to_pylist()}


def spelt(example: Example, *, learned: bool = False) -> str:
    """The text of an example, or of what is learned of it, a character for a byte: a window can
    begin within a character.
    """
    ids = example.input_ids[example.trained] if learned else example.input_ids
    return b"".join(CODEC.token_bytes(ids.tolist())).decode("latin-1")


def test_a_document_that_fits_is_one_example_and_all_of_it_is_learned(run: Path) -> None:
    training = load(run)
    rows = rows_of(run)
    assert sorted(example.doc_id for example in training.examples) == sorted(rows)
    for example in training.examples:
        row = rows[example.doc_id]
        assert example.input_ids.dtype == np.int32
        assert example.input_ids.tolist() == [CODEC.bos_id, *row["input_ids"], CODEC.eos_id]
        assert example.trained.tolist() == [False] + [True] * (len(row["input_ids"]) + 1)
        assert example.num_calls == len(row["calls"])
    assert training.doc_ids == rows.keys()
    assert training.text_hashes == {row["source_text_hash"] for row in rows.values()}
    assert training.documents == len(rows)
    assert training.examples.num_trained == sum(int(e.trained.sum()) for e in training.examples)


def test_a_long_document_is_cut_around_its_calls(run: Path) -> None:
    training, rows = load(run, sequence_tokens=128), rows_of(run)
    examples = list(training.examples)
    assert len(examples) > training.documents == len(rows)
    assert max(len(example.input_ids) for example in examples) == 128
    for doc_id, row in rows.items():
        mine = [example for example in examples if example.doc_id == doc_id]
        annotated = f" {row['text'].strip()}{END}".encode().decode("latin-1")
        assert all(spelt(example).removeprefix(END) in annotated for example in mine)
        learned = [call for e in mine for call in CALL.findall(spelt(e, learned=True))]
        assert sorted(learned) == sorted(CALL.findall(annotated))
        assert sum(example.num_calls for example in mine) == len(row["calls"])
        # No half call anywhere, and none at the end.
        assert not any(set("[]") & set(CALL.sub("", spelt(example))) for example in mine)
        assert not any(spelt(example).endswith("]") for example in mine)
    assert training.calls == Counter(call["tool"] for r in rows.values() for call in r["calls"])
    assert set(training.dropped.values()) == {0}


def test_no_token_of_the_text_is_learned_in_two_windows(run: Path) -> None:
    examples = list(load(run, sequence_tokens=128).examples)
    assert any(not example.trained[1] for example in examples)  # some windows overlap
    for doc_id, row in rows_of(run).items():
        ids = [*row["input_ids"], CODEC.eos_id]
        learned: Counter[int] = Counter()
        for example in (e for e in examples if e.doc_id == doc_id):
            window = example.input_ids[1:].tolist()
            places = [n for n in range(len(ids)) if ids[n : n + len(window)] == window]
            assert len(places) == 1
            learned.update(int(places[0] + n) for n in np.flatnonzero(example.trained[1:]))
        assert set(learned.values()) == {1}


@pytest.mark.parametrize("sequence_tokens", [1024, 128, 40])
def test_the_plain_dataset_gives_the_same_examples_without_calls(
    run: Path, sequence_tokens: int
) -> None:
    settings: dict[str, Any] = {"sequence_tokens": sequence_tokens, "max_examples": 12, "seed": 5}
    augmented, plain = load(run, **settings), load(run, dataset="dataset_plain", **settings)
    assert len(plain.examples) == len(augmented.examples)
    for with_calls, without in zip(augmented.examples, plain.examples, strict=True):
        assert without.doc_id == with_calls.doc_id
        assert without.num_calls == 0 <= with_calls.num_calls
        assert spelt(without) == CALL.sub("", spelt(with_calls))
        assert spelt(without, learned=True) == CALL.sub("", spelt(with_calls, learned=True))
        assert without.trained.any()
    assert (plain.documents, plain.calls, plain.dropped) == (
        augmented.documents, augmented.calls, augmented.dropped,
    )  # fmt: skip
    assert (plain.doc_ids, plain.text_hashes) == (augmented.doc_ids, augmented.text_hashes)


def test_a_share_of_the_documents_is_learned_as_in_the_plain_dataset(run: Path) -> None:
    all_calls, some, none = (
        load(run),
        load(run, plain_share=0.5),
        load(run, dataset="dataset_plain"),
    )
    assert [example.doc_id for example in some.examples] == [
        example.doc_id for example in all_calls.examples
    ]
    plain: set[str] = set()
    for mixed, whole, without in zip(some.examples, all_calls.examples, none.examples, strict=True):
        is_plain = rank(0, "", mixed.doc_id) / 2**128 < 0.5
        as_in = without if is_plain else whole
        assert mixed.input_ids.tolist() == as_in.input_ids.tolist()
        assert mixed.num_calls == as_in.num_calls
        plain.update({mixed.doc_id} if is_plain else ())
    assert 0.3 * len(rows_of(run)) < len(plain) < 0.7 * len(rows_of(run))
    left_out = sum(all_calls.calls.values()) - sum(some.calls.values())
    assert some.dropped["calls_of_plain_share"] == left_out > 0
    assert some.documents == all_calls.documents


def test_plain_documents_that_fit_have_the_tokens_of_the_plain_dataset(run: Path) -> None:
    rows = rows_of(run, "dataset_plain")
    for example in load(run, dataset="dataset_plain").examples:
        expected = rows[example.doc_id]["input_ids"]
        assert example.input_ids.tolist() == [CODEC.bos_id, *expected, CODEC.eos_id]


def test_each_tool_has_the_documents_its_lottery_chose_and_no_more(run: Path) -> None:
    training, rows = load(run, max_examples=3, seed=7), rows_of(run)
    documents = {
        tool: [i for i, row in rows.items() if tool in {c["tool"] for c in row["calls"]}]
        for tool in TOOLS
    }
    chosen = {
        tool: sorted(ids, key=lambda i, tool=tool: rank(7, tool, i))[:3]  # type: ignore[misc]
        for tool, ids in documents.items()
    }
    by_id = {example.doc_id: spelt(example) for example in training.examples}
    for tool, ids in documents.items():
        assert len(ids) > 3
        for doc_id in ids:
            shown = [c for c in CALL.findall(by_id.get(doc_id, "")) if c.startswith(f" [{tool}(")]
            theirs = [c for c in rows[doc_id]["calls"] if c["tool"] == tool]
            assert len(shown) == (len(theirs) if doc_id in chosen[tool] else 0)
    assert by_id.keys() == {i for ids in chosen.values() for i in ids} == training.doc_ids
    built = sum(len(row["calls"]) for row in rows.values())
    assert sum(training.calls.values()) + training.dropped["calls_over_cap"] == built
    assert training.documents + training.dropped["documents_without_calls"] == len(rows)


def test_calls_with_no_place_in_a_window_are_taken_out_and_counted(run: Path) -> None:
    training, rows = load(run, sequence_tokens=25), rows_of(run)
    too_long: Counter[str] = Counter()
    for row in rows.values():
        for call in row["calls"]:
            text = row["text"].encode()[call["byte_start"] : call["byte_end"]].decode().strip()
            pieces = re.fullmatch(r"\[(.*\)) -> (.*)\]", text)
            assert pieces
            num_tokens = len(CODEC.encode_pieces((pieces[1], f" {pieces[2]}"))) + 3
            # A window has 24 tokens beside the first, one of which is the one after the call.
            too_long[call["tool"]] += num_tokens > 23
    assert training.dropped["calls_longer_than_a_window"] == too_long.total() > 0
    built = Counter(call["tool"] for row in rows.values() for call in row["calls"])
    assert training.calls == +(built - too_long)
    assert training.documents + training.dropped["documents_without_calls"] == len(rows)
    assert sum(e.num_calls for e in training.examples) == sum(training.calls.values())


def test_the_order_follows_from_the_seed_and_the_doc_ids_alone(run: Path, tmp_path: Path) -> None:
    other = shutil.copytree(run, tmp_path / "run")
    for name in ("dataset", "dataset_plain"):
        table = pq.read_table(run / name)
        backwards = table.take(np.arange(table.num_rows)[::-1])
        pq.write_table(backwards.slice(0, 10), other / name / "part-00000.parquet")
        pq.write_table(backwards.slice(10), other / name / "part-00001.parquet")
    orders = [
        [(e.doc_id, e.input_ids.tolist()) for e in load(r, sequence_tokens=128, seed=s).examples]
        for r, s in ((run, 0), (other, 0), (run, 1))
    ]
    assert orders[0] == orders[1]
    assert orders[0] != orders[2]
    assert sorted(orders[0]) == sorted(orders[2])
    assert [doc_id for doc_id, _ in orders[0]] != sorted(doc_id for doc_id, _ in orders[0])


def test_a_part_of_a_document_does_not_end_it(run: Path, tmp_path: Path) -> None:
    other = shutil.copytree(run, tmp_path / "run")
    shard = other / "dataset" / "part-00000.parquet"
    table = pq.read_table(shard)
    names = [f"{doc_id}#2" for doc_id in table.column("doc_id").to_pylist()]
    pq.write_table(table.set_column(0, table.schema.field("doc_id"), pa.array(names)), shard)
    for example in load(other).examples:
        assert example.input_ids[0] == CODEC.bos_id
        assert CODEC.eos_id not in example.input_ids[1:]


def test_examples_are_found_by_number_from_either_end_and_by_slices(run: Path) -> None:
    examples = load(run).examples
    every = [example.doc_id for example in examples]
    assert examples[-1].doc_id == every[-1]
    assert [example.doc_id for example in examples[1:6:2]] == every[1:6:2]
    with pytest.raises(IndexError):
        examples[len(every)]


def refusal(run: Path, **settings: Any) -> str:
    with pytest.raises(InputError) as error:
        load(run, **settings)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_run_without_any_call_has_nothing_to_train_on(tmp_path: Path) -> None:
    made = made_run(tmp_path / "run", 3, tools=())
    assert "no document with a call to train on" in refusal(made)


def test_windows_too_small_for_every_call_leave_nothing_to_train_on(run: Path) -> None:
    assert "no document with a call to train on" in refusal(run, sequence_tokens=8)


def test_a_plain_dataset_of_another_build_names_the_document(run: Path, tmp_path: Path) -> None:
    other = shutil.copytree(run, tmp_path / "run")
    shard = other / "dataset_plain" / "part-00000.parquet"
    table = pq.read_table(shard)
    pq.write_table(pa.concat_tables([table.slice(0, 2), table.slice(3), table.slice(2, 1)]), shard)
    assert load(other).documents == table.num_rows
    assert "document made-0003: is not document made-0002 of dataset" in refusal(
        other, dataset="dataset_plain"
    )


def test_a_tool_that_was_not_built_names_the_document(run: Path, tmp_path: Path) -> None:
    other = shutil.copytree(run, tmp_path / "run")
    mark = other / "build.json"
    mark.write_text(mark.read_text().replace('"MT"', '"NLLB"'))
    assert "a call of MT, which build.json does not name" in refusal(other)
