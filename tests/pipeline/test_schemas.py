import pyarrow as pa
import pytest

from pipeline.schemas import DATASET, DOCUMENTS, IN_FLIGHT, MANIFEST, SCORED, conform
from tools.base import ContractError

SCHEMA = pa.schema(
    [
        pa.field("doc_id", pa.string(), nullable=False),
        pa.field("length", pa.int32()),
    ]
)


def test_a_conforming_table_is_returned_as_it_is() -> None:
    table = pa.table({"doc_id": ["a", "b"], "length": [1, None]}, schema=SCHEMA)
    assert conform(table, SCHEMA, stage="sample").equals(table)


def test_columns_are_put_in_order_and_others_left_out() -> None:
    lengths = pa.array([1], pa.int32())
    ids = pa.array(["a"], pa.large_string())  # text of either width is text
    table = pa.table({"length": lengths, "more": [True], "doc_id": ids})
    conformed = conform(table, SCHEMA, stage="sample")
    assert conformed.schema.equals(SCHEMA)
    assert conformed.to_pylist() == [{"doc_id": "a", "length": 1}]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"doc_id": ["a"]},
            "sample: document (all): got columns ['doc_id'], expected ['length']",
        ),
        (
            {"doc_id": ["a", None], "length": pa.array([1, 2], pa.int32())},
            "'doc_id' with null values",
        ),
        ({"doc_id": ["a"], "length": ["long"]}, "got length of type string, expected int32"),
        ({"doc_id": ["a"], "length": [7]}, "got length of type int64, expected int32"),
        ({"doc_id": ["a"], "length": [[1]]}, "got length of type list"),
    ],
)
def test_a_table_that_does_not_conform_names_the_stage_and_the_problem(
    columns: dict[str, object], message: str
) -> None:
    with pytest.raises(ContractError) as error:
        conform(pa.table(columns), SCHEMA, stage="sample")
    assert str(error.value).startswith("sample: document (all): got ")
    assert message in str(error.value)


def test_a_misspelt_field_of_a_struct_is_refused_and_not_filled_with_nulls() -> None:
    wrong = pa.array([[{"tool": "Calculator", "why": "cue"}]])
    table = SCORED.empty_table().set_column(8, "offers", wrong.slice(0, 0))
    with pytest.raises(ContractError, match=r"got offers of type list<item: struct<tool.*why"):
        conform(table, SCORED, stage="read")


def test_bytes_that_are_no_utf8_do_not_conform() -> None:
    broken = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")]
    )
    table = pa.table({"doc_id": broken, "length": pa.array([1], pa.int32())})
    with pytest.raises(ContractError, match="Invalid UTF8"):
        conform(table, SCHEMA, stage="read")


@pytest.mark.parametrize("schema", [DOCUMENTS, SCORED, IN_FLIGHT, DATASET, MANIFEST])
def test_an_empty_table_of_a_schema_conforms_to_it(schema: pa.Schema) -> None:
    assert conform(schema.empty_table(), schema, stage="read").schema.equals(schema)


def test_the_columns_between_stages_are_frozen() -> None:
    """Unit files of earlier runs are read again: another column is another format."""
    assert SCORED.names == [
        "doc_id", "part", "text", "url", "date", "language", "dropped", "input_ids", "offers",
        "paragraphs", "positions", "calls",
    ]  # fmt: skip
    assert [field.name for field in SCORED.field("paragraphs").type.value_type] == [
        "byte_start", "byte_end", "verdict",
    ]  # fmt: skip
    assert [field.name for field in SCORED.field("calls").type.value_type] == [
        "tool", "position", "byte_offset", "p_api", "input", "samples", "dropped", "status",
        "result", "error", "loss_empty", "loss_call", "loss_plus", "gain",
    ]  # fmt: skip
    assert [field.name for field in SCORED.field("positions").type.value_type] == [
        "tool", "position", "byte_offset", "p_api", "loss_empty", "pruned", "drawn", "not_ended",
        "not_parsed",
    ]  # fmt: skip
    assert DATASET.names == ["doc_id", "text", "input_ids", "calls", "source_text_hash"]
    assert IN_FLIGHT.names == ["unit_id", "trace", *SCORED.names]
