"""Every table that crosses a process border, as a pyarrow schema, and the check that it does.

Rows are documents from read to commit; what is learned about a document grows sideways, in
list columns. No stage between read and commit removes a row: a document that goes no further
carries the reason in `dropped`.
"""

import pyarrow as pa

from tools.base import ContractError

DOCUMENTS = pa.schema(
    [
        pa.field("doc_id", pa.string(), nullable=False),
        pa.field("text", pa.large_string(), nullable=False),
        pa.field("url", pa.string()),
        pa.field("title", pa.string()),
        pa.field("date_download", pa.string()),  # ISO 8601, UTC: when it was crawled
        pa.field("language", pa.string()),
        pa.field("language_score", pa.float32()),
        pa.field("source_domain", pa.string()),
    ]
)

# A tool this document is offered to, and the heuristic that said so (Appendix A).
OFFER = pa.struct([("tool", pa.string()), ("reason", pa.string())])

# A paragraph of a text offered to MT, or not, and why not (documents.foreign_text.Verdict).
PARAGRAPH = pa.struct(
    [
        ("byte_start", pa.int64()),  # in `text`
        ("byte_end", pa.int64()),
        ("verdict", pa.string()),
    ]
)

# A selected position: the call would stand before token `position` of the canonical tokens.
POSITION = pa.struct(
    [
        ("tool", pa.string()),
        ("position", pa.int32()),
        ("byte_offset", pa.int64()),  # in `text`, where an inserted call begins
        ("p_api", pa.float64()),  # p_i, the probability of " ["
        ("loss_empty", pa.float64()),  # L_i(eps) in nats
        ("pruned", pa.bool_()),  # L_i(eps) below every tau_f of interest: nothing was sampled
        ("drawn", pa.int32()),  # samples taken
        ("not_ended", pa.int32()),  # of these, without a closing "]"
        ("not_parsed", pa.int32()),  # of these, not a call of this tool
    ]
)

# A distinct sampled call at a position, with how it was answered and what it is worth.
CANDIDATE = pa.struct(
    [
        ("tool", pa.string()),
        ("position", pa.int32()),
        ("byte_offset", pa.int64()),
        ("p_api", pa.float64()),
        ("input", pa.string()),
        ("samples", pa.int32()),  # how many of the m samples were this call
        ("dropped", pa.string()),  # why it is not executed (pipeline.look_ahead); null if it is
        ("status", pa.string()),  # tools.base.ToolStatus; null until executed
        ("result", pa.string()),
        ("error", pa.string()),
        ("loss_empty", pa.float64()),  # L_i(eps), nats
        ("loss_call", pa.float64()),  # L_i(e(c, eps)), nats; null where it cannot matter
        ("loss_plus", pa.float64()),  # L_i(e(c, r)), nats; null without a result
        ("gain", pa.float64()),  # min(loss_empty, loss_call) - loss_plus; null if one is
    ]
)

# A document, or part n of a long one (doc_id "<doc>#<n>"), as it flows and as it is committed.
SCORED = pa.schema(
    [
        pa.field("doc_id", pa.string(), nullable=False),
        pa.field("part", pa.int32(), nullable=False),  # 0: a whole document; 1, 2, ...: its parts
        pa.field("text", pa.large_string(), nullable=False),
        pa.field("url", pa.string()),
        pa.field("date", pa.date32()),  # from the URL; what the Calendar tool answers with
        pa.field("language", pa.string()),
        pa.field("dropped", pa.string()),  # why this document goes no further; null if it does
        pa.field("input_ids", pa.list_(pa.int32()), nullable=False),  # canonical tokens
        pa.field("offers", pa.list_(OFFER), nullable=False),
        # Null where no tool reads single paragraphs.
        pa.field("paragraphs", pa.list_(PARAGRAPH)),
        pa.field("positions", pa.list_(POSITION), nullable=False),
        pa.field("calls", pa.list_(CANDIDATE), nullable=False),
    ]
)

# A SCORED row on its way through the graph. `trace` is what the stages measured (seconds,
# tokens) as JSON: it goes to the done-mark, never into the unit file, whose bytes depend on the
# input alone.
IN_FLIGHT = pa.schema(
    [
        pa.field("unit_id", pa.string(), nullable=False),
        pa.field("trace", pa.string(), nullable=False),
        *SCORED,
    ]
)

# A call that stands in a C* text, by the bytes it occupies there.
INSERTED_CALL = pa.struct(
    [
        ("tool", pa.string()),
        ("input", pa.string()),
        ("result", pa.string()),
        ("byte_start", pa.int64()),
        ("byte_end", pa.int64()),
        ("gain", pa.float64()),
    ]
)

# C* (dataset/) and, with no calls, C (dataset_plain/).
DATASET = pa.schema(
    [
        pa.field("doc_id", pa.string(), nullable=False),
        pa.field("text", pa.large_string(), nullable=False),
        pa.field("input_ids", pa.list_(pa.int32()), nullable=False),
        pa.field("calls", pa.list_(INSERTED_CALL), nullable=False),
        pa.field("source_text_hash", pa.string(), nullable=False),  # blake2b-128 of the source
    ]
)

# Units of work: rows [row_start, row_start + num_documents) of one input file.
MANIFEST = pa.schema(
    [
        pa.field("unit_id", pa.string(), nullable=False),
        pa.field("file", pa.string(), nullable=False),
        pa.field("row_start", pa.int64(), nullable=False),
        pa.field("num_documents", pa.int64(), nullable=False),
    ]
)

# What the graph says of a unit it has committed: its done-mark, as JSON.
COMMITTED = pa.schema([pa.field("mark", pa.string(), nullable=False)])


def conform(table: pa.Table, schema: pa.Schema, *, stage: str) -> pa.Table:
    """`table` with exactly the columns, order and types of `schema`.

    Text may be string or large_string; no other type is converted: a cast would fill a field
    that was misspelt with nulls.

    Raises:
        ContractError: a column is missing, is of another type, or holds a null it must not hold.
    """
    missing = [name for name in schema.names if name not in table.column_names]
    if missing:
        raise ContractError(
            stage=stage, doc_id="(all)", got=f"columns {table.column_names}", expected=missing
        )
    for field in schema:
        found = table.schema.field(field.name).type
        if found != field.type and not (_is_text(found) and _is_text(field.type)):
            raise ContractError(
                stage=stage,
                doc_id="(all)",
                got=f"{field.name} of type {found}",
                expected=field.type,
            )
    try:
        conformed = table.select(schema.names).cast(schema)
        conformed.validate(full=True)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
        raise ContractError(
            stage=stage, doc_id="(all)", got=str(error), expected="its schema"
        ) from error
    for field in schema:
        if not field.nullable and conformed.column(field.name).null_count:
            raise ContractError(
                stage=stage,
                doc_id="(all)",
                got=f"nulls in {field.name}",
                expected="a value in every row",
            )
    return conformed


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
