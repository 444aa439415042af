"""Units with documents that kill what annotates them: which are dropped, at how many deaths."""

import asyncio
from typing import Any, Literal

import pyarrow as pa
import pytest

from pipeline.engines.gone import ReplicaLost
from pipeline.schemas import IN_FLIGHT
from pipeline.stages.isolation import Isolation
from pipeline.trace import add_trace, read_trace


def row(
    doc_id: str, *, part: int = 0, dropped: str | None = None, calls: int = 0
) -> dict[str, Any]:
    call = {"tool": "Calculator", "position": 0, "input": "1", "result": "1"}
    return {
        "unit_id": "u", "trace": "{}", "doc_id": doc_id, "part": part, "text": doc_id,
        "dropped": dropped, "input_ids": [], "offers": [], "positions": [], "calls": [call] * calls,
    }  # fmt: skip


def unit_of(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=IN_FLIGHT)


class Replica:
    """Answers a unit by writing on each row how many others it came with; dies at some.

    `lethal` are documents that kill it, `together` such that do so when all are there.
    """

    def __init__(self, *lethal: str, together: tuple[str, ...] = (), unreachable: int = 0) -> None:
        self._lethal, self._together, self._unreachable = lethal, together, unreachable
        self.asked: list[tuple[str, bool]] = []
        self.deaths = 0

    async def ask(self, unit: pa.Table, alone: bool) -> pa.Table:
        ids = unit.column("doc_id").to_pylist()
        self.asked.append((" ".join(ids), alone))
        if self._unreachable:
            self._unreachable -= 1
            raise ReplicaLost("pool", 0, "reachable again")
        if set(self._lethal) & set(ids) or (self._together and set(self._together) <= set(ids)):
            self.deaths += 1
            raise ReplicaLost("pool", 0, "dead")
        rows = [r | {"url": f"with {len(ids) - 1}"} for r in unit.to_pylist()]
        return add_trace(pa.Table.from_pylist(rows, schema=IN_FLIGHT), "sample", 1.0)

    async def died(self, lost: ReplicaLost) -> bool:
        return lost.life == "dead"

    def annotated(
        self, unit: pa.Table, stage: Literal["sample", "score"] = "sample"
    ) -> dict[str, tuple[str | None, str | None]]:
        """By document: why it was dropped, and what was written on it."""
        table = asyncio.run(Isolation(stage, self.ask, self.died).annotated(unit))
        assert table.schema == IN_FLIGHT
        self.trace = read_trace(table)
        return {r["doc_id"]: (r["dropped"], r["url"]) for r in table.to_pylist()}


KILLS, TOGETHER = ("kills_process", None), ("kills_together", None)


def test_a_replica_that_dies_once_costs_one_more_question() -> None:
    replica = Replica(unreachable=1)
    assert replica.annotated(unit_of(row("a"), row("b"))) == dict.fromkeys("ab", (None, "with 1"))
    assert replica.asked == [("a b", False)] * 2
    assert replica.trace["seconds"] == {"sample": 1.0}


def test_the_document_that_kills_is_dropped_and_the_rest_annotated_as_a_whole() -> None:
    replica = Replica("b")
    found = replica.annotated(unit_of(*map(row, "abcd")))
    assert found == {
        "a": (None, "with 2"),
        "b": KILLS,
        "c": (None, "with 2"),
        "d": (None, "with 2"),
    }
    assert replica.asked == [
        ("a b c d", False), ("a b c d", False),
        ("a", True), ("b", True), ("b", True), ("c", True), ("d", True),
        ("a c d", True),
    ]  # fmt: skip
    assert set(replica.trace["seconds"]) == {"sample", "isolate_sample"}


def test_two_documents_of_a_unit_are_found_at_once_with_all_their_parts() -> None:
    parts = [row("b#1", part=1), row("b#2", part=2), row("b#3", part=3)]
    replica = Replica("a", "b#2")
    found = replica.annotated(unit_of(row("a"), *parts, row("c"), row("d")))
    assert found == dict.fromkeys(["a", "b#1", "b#2", "b#3"], KILLS) | dict.fromkeys(
        "cd", (None, "with 1")
    )
    assert replica.deaths == 2 + 2 * 2
    assert ("b#1 b#2 b#3", True) in replica.asked


def test_documents_that_kill_only_together_are_dropped_together() -> None:
    replica = Replica(together=("a", "c"))
    found = replica.annotated(unit_of(row("a"), row("b", dropped="not_offered"), row("c")))
    assert found == {"a": TOGETHER, "b": ("not_offered", None), "c": TOGETHER}
    assert replica.deaths == 4


def test_a_culprit_may_leave_others_that_kill_together() -> None:
    found = Replica("b", together=("a", "c")).annotated(unit_of(*map(row, "abc")))
    assert found == {"a": TOGETHER, "b": KILLS, "c": TOGETHER}


def test_a_unit_may_lose_all_its_documents() -> None:
    replica = Replica("a", "b")
    assert replica.annotated(unit_of(row("a"), row("b"))) == {"a": KILLS, "b": KILLS}
    assert replica.deaths == 2 + 2 * 2


def test_documents_nobody_asks_about_are_not_examined() -> None:
    replica = Replica("b")
    rows = [row("a"), row("b", calls=1), row("c", calls=1)]
    found = replica.annotated(unit_of(*rows), "score")
    assert found == {"a": (None, "with 1"), "b": KILLS, "c": (None, "with 1")}
    assert [asked for asked, alone in replica.asked if alone] == ["b", "b", "c", "a c"]


@pytest.mark.parametrize("lost", [3, 8])
def test_a_replica_out_of_reach_is_laid_to_no_document(lost: int) -> None:
    found = Replica(unreachable=lost).annotated(unit_of(row("a"), row("b")))
    assert found == dict.fromkeys("ab", (None, "with 1"))


def test_a_network_that_never_mends_does_not_hold_a_unit_for_ever() -> None:
    replica = Replica(unreachable=1000)
    assert replica.annotated(unit_of(row("a"))) == {"a": ("unreachable", None)}
    assert len(replica.asked) == 2 + 10


def test_a_unit_that_only_its_whole_cannot_reach_is_no_killer() -> None:
    # Twice as a whole, and each document alone; after that the network breaks for good.
    replica = Replica(unreachable=2)
    unit = unit_of(row("a"), row("b", dropped="not_offered"))

    async def died(lost: ReplicaLost) -> bool:
        return False

    async def ask(part: pa.Table, alone: bool) -> pa.Table:
        if part.num_rows == 2 and alone:
            raise ReplicaLost("pool", 0, "reachable again")
        return await replica.ask(part, alone)

    table = asyncio.run(Isolation("sample", ask, died).annotated(unit))
    assert table.column("dropped").to_pylist() == ["unreachable", "not_offered"]


def test_a_part_that_was_dropped_before_keeps_its_reason() -> None:
    parts = [row("b#1", part=1), row("b#2", part=2, dropped="no_offer"), row("b#3", part=3)]
    replica = Replica("b#1")
    found = replica.annotated(unit_of(row("a"), *parts))
    assert found == {
        "a": (None, "with 0"),
        "b#1": KILLS,
        "b#2": ("no_offer", None),
        "b#3": KILLS,
    }
