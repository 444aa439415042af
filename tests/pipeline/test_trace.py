import time

import pyarrow as pa

from pipeline.trace import add_trace, read_trace


def unit() -> pa.Table:
    schema = pa.schema([pa.field("trace", pa.string(), nullable=False)])
    return pa.Table.from_pylist([{"trace": "{}"}] * 2, schema=schema)


def test_what_stages_measure_adds_up_and_the_first_says_when_the_unit_was_begun() -> None:
    before = time.time()
    traced = add_trace(unit(), "read", 100.0, {"loss_tokens": 3})
    begun_at = read_trace(traced)["begun_at"]
    assert before - 101 <= begun_at <= time.time() - 99  # it was read for 100 s
    traced = add_trace(traced, "score", 2.0, {"loss_tokens": 4}, {"QA": {"requests": 1}})
    traced = add_trace(traced, "score", 0.5)
    assert read_trace(traced) == {
        "begun_at": begun_at,
        "seconds": {"read": 100.0, "score": 2.5},
        "tokens": {"loss_tokens": 7},
        "tools": {"QA": {"requests": 1}},
    }
    assert len(set(traced.column("trace").to_pylist())) == 1  # the same in every row


def test_nothing_is_known_of_a_unit_at_first() -> None:
    assert read_trace(unit()) == {"begun_at": 0.0, "seconds": {}, "tokens": {}, "tools": {}}
