import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pipeline.build.mark import built_summary, read_build_mark
from pipeline.build.merge import KeptCall, PlainDocument, merge
from pipeline.rundir import RunDir
from pipeline.tokens import NotLossless, TokenCodec
from tests.pipeline.build.scored_units import TODAY, byte_codec
from tests.pipeline.made_runs import built_run
from tests.pipeline.tiny_checkpoints import byte_level_tokenizer, llama2_tokenizer
from tests.training.finetune.made_dataset import demo_codec, made_run
from tools.base import InputError
from tools.calls import ApiCall, pieces_with_result
from training.finetune.built import (
    BuiltDocument,
    PlacedCall,
    place_calls,
    read_documents,
    read_tools,
)

BYTE_LEVEL = TokenCodec(byte_level_tokenizer(), bos_id=0, eos_id=0)
LLAMA2 = TokenCodec(llama2_tokenizer(), bos_id=1, eos_id=2)
HERE = Path("dataset")

texts = st.text(st.sampled_from('ab []("é東🙂\u0301\n\t\u00a0'), min_size=1) | st.text(min_size=1)
made_calls = st.sampled_from(
    [(ApiCall("QA", "é?"), "東"), (ApiCall("QA", ""), "[]"), (ApiCall("Calendar", ""), TODAY)]
)


@st.composite
def documents(draw: st.DrawFn) -> tuple[TokenCodec, BuiltDocument, list[tuple[int, list[int]]]]:
    """A row of C*, and the position in its source and the tokens of each call."""
    codec, text = draw(st.sampled_from([BYTE_LEVEL, LLAMA2])), draw(texts)
    assume(text.strip())
    try:
        source = PlainDocument(doc_id="d", text=text, input_ids=codec.canonical(text))
    except NotLossless:
        assume(False)
    places = np.flatnonzero(codec.legal_positions(source.input_ids)).tolist()
    kept = [
        KeptCall(call=call, position=draw(st.sampled_from(places)), result=result, gain=1.0)
        for call, result in draw(st.lists(made_calls, max_size=4))
    ]
    merged = merge(source, kept, codec)
    row = BuiltDocument(
        doc_id="d",
        text=merged.text,
        input_ids=merged.input_ids,
        calls=[
            {"tool": kept.call.tool, "byte_start": start, "byte_end": end}
            for kept, (start, end) in zip(merged.calls, merged.spans, strict=True)
        ],
        text_hash=source.text_hash,
    )
    expected = [
        (
            kept.position,
            codec.encode_pieces(pieces_with_result(kept.call, kept.result)).tolist(),
        )
        for kept in merged.calls
    ]
    return codec, row, expected


@given(documents())
def test_calls_are_found_where_the_build_spliced_them_in(
    document: tuple[TokenCodec, BuiltDocument, list[tuple[int, list[int]]]],
) -> None:
    codec, row, expected = document
    placed = place_calls(row, codec, where=HERE)
    found, of_calls = [], 0
    for call in placed:
        found.append((call.start - of_calls, row.input_ids[call.start : call.end].tolist()))
        of_calls += call.end - call.start
    assert found == expected


def test_calls_at_the_beginning_and_at_one_place_have_these_tokens(tmp_path: Path) -> None:
    """TEXT_A is 21 one-byte tokens with the space before it, calls stand at 0, 18 and 18.

    " [Calendar() -> Today is ...]" is 1 + 10 + 1 + 35 + 1 = 48 tokens, and
    " [Calculator(3 + 4) -> 7]" 1 + 17 + 1 + 2 + 1 = 22.
    """
    run = built_run(tmp_path / "run")
    a, _ = read_documents(run.path / "dataset", documents=2)
    assert place_calls(a, byte_codec(), where=HERE) == [
        PlacedCall(tool="Calendar", start=0, end=48),
        PlacedCall(tool="Calculator", start=66, end=88),
        PlacedCall(tool="Calendar", start=88, end=136),
    ]
    assert len(a.input_ids) == 21 + 48 + 22 + 48


def test_the_calls_of_a_built_run_are_all_found(run: Path) -> None:
    codec, summary = demo_codec(), built_summary(RunDir(run), read_build_mark(RunDir(run)))
    tools: list[str] = []
    for row in read_documents(run / "dataset", documents=summary.documents):
        for call, told in zip(place_calls(row, codec, where=HERE), row.calls, strict=True):
            spelt = b"".join(codec.token_bytes(row.input_ids[call.start : call.end])).decode()
            made = ApiCall(told["tool"], told["input"])
            assert spelt == "".join(pieces_with_result(made, told["result"]))
            tools.append(call.tool)
    assert {tool: tools.count(tool) for tool in set(tools)} == {
        tool: counts.kept for tool, counts in summary.tools.items()
    }


def test_tools_are_read_as_the_rows_have_them(run: Path) -> None:
    rows = read_documents(run / "dataset", documents=28)
    assert list(read_tools(run / "dataset")) == [
        (row.doc_id, {call["tool"] for call in row.calls}) for row in rows
    ]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """28 documents with calls."""
    return made_run(tmp_path_factory.mktemp("built") / "run", 30, long=1)


@pytest.fixture
def broken(run: Path, tmp_path: Path) -> Path:
    """A copy of the run, to be damaged."""
    return shutil.copytree(run, tmp_path / "run")


def one_line(run: Path) -> str:
    """What is said of a run that cannot be used."""
    with pytest.raises(InputError) as error:
        summary = built_summary(RunDir(run), read_build_mark(RunDir(run)))
        rows = read_documents(run / "dataset", documents=summary.documents)
        for row in rows:
            place_calls(row, demo_codec(), where=run / "dataset")
    assert "\n" not in str(error.value)
    return str(error.value)


def rewrite(run: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    shard = run / "dataset" / "part-00000.parquet"
    pq.write_table(change(pq.read_table(shard)), shard)


def with_call(table: pa.Table, **changes: Any) -> pa.Table:
    """The table with changes to the first call of its first row."""
    rows = table.to_pylist()
    rows[0]["calls"][0] |= changes
    return pa.Table.from_pylist(rows, schema=table.schema)


def test_a_directory_without_a_run_is_said_to_have_none(tmp_path: Path) -> None:
    assert "no run here" in one_line(tmp_path)


def test_a_run_that_is_not_built_says_how_to_build_it(broken: Path) -> None:
    (broken / "build.json").unlink()
    assert f"not built yet (no build.json); run `python -m pipeline build {broken}`" in one_line(
        broken
    )


def test_a_mark_of_another_version_is_refused(broken: Path) -> None:
    (broken / "build.json").write_text("{}")
    assert "not written by this version" in one_line(broken)


def test_a_torn_shard_is_named(broken: Path) -> None:
    shard = broken / "dataset" / "part-00000.parquet"
    shard.write_bytes(shard.read_bytes()[:2000])
    assert f"{broken / 'dataset'}: cannot be read" in one_line(broken)


def test_a_missing_dataset_is_named(broken: Path) -> None:
    shutil.rmtree(broken / "dataset")
    assert f"{broken / 'dataset'}: cannot be read: No such file" in one_line(broken)


def test_a_missing_shard_is_noticed(broken: Path) -> None:
    (broken / "dataset" / "part-00000.parquet").unlink()
    assert "has 0 documents, 28 were built" in one_line(broken)


def test_a_missing_column_is_named(broken: Path) -> None:
    rewrite(broken, lambda table: table.drop_columns(["input_ids"]))
    assert "not written by a build" in one_line(broken)
    assert "['input_ids']" in one_line(broken)


def test_tokens_of_another_tokenizer_name_the_document(broken: Path) -> None:
    def other(table: pa.Table) -> pa.Table:
        rows = table.to_pylist()
        rows[3]["input_ids"] = byte_codec().canonical(rows[3]["text"])
        return pa.Table.from_pylist(rows, schema=table.schema)

    rewrite(broken, other)
    assert "document made-0003: its input_ids do not spell its text" in one_line(broken)


@pytest.mark.parametrize("changes", [{"byte_start": 3}, {"byte_end": 10**6}, {"byte_end": 12}])
def test_a_call_that_is_no_whole_tokens_is_refused(broken: Path, changes: dict[str, int]) -> None:
    rewrite(broken, lambda table: with_call(table, **changes))
    assert "document made-0000" in one_line(broken)
