"""The lottery that limits the documents of a tool."""

import itertools

from pipeline.build.cap import ExampleCap, rank


def admitted(seed: int, cap: int, doc_ids: list[str]) -> set[str]:
    lottery = ExampleCap(seed, {"QA": cap})
    for doc_id in doc_ids:
        lottery.offer("QA", doc_id)
    return {doc_id for doc_id in doc_ids if lottery.admits("QA", doc_id)}


def test_below_the_cap_all_are_admitted() -> None:
    assert admitted(0, 3, ["a", "b", "c"]) == {"a", "b", "c"}


def test_the_lowest_ranks_are_admitted_whatever_the_order() -> None:
    documents = ["a", "b", "c", "d"]
    lowest = set(sorted(documents, key=lambda doc_id: rank(7, "QA", doc_id))[:2])
    for order in itertools.permutations(documents):
        assert admitted(7, 2, list(order)) == lowest


def test_rank_depends_on_seed_tool_and_document() -> None:
    # printf '7|QA|a' | b2sum --length 128
    assert f"{rank(7, 'QA', 'a'):032x}" == "c38fdda719d295ac905830e2850cb1a7"
    assert (
        len({rank(7, "QA", "a"), rank(8, "QA", "a"), rank(7, "MT", "a"), rank(7, "QA", "b")}) == 4
    )
