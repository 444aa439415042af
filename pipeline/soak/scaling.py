"""From one node to eight: simulated nodes, a replica on each, an engine that sleeps."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ray.cluster_utils import Cluster

from pipeline.rundir import DoneMark
from pipeline.soak.configuration import write_configuration
from pipeline.soak.curves import working_time
from pipeline.soak.documents import write_texts
from pipeline.soak.emptied import emptied
from pipeline.soak.results import Check, Part
from pipeline.soak.watching import ray_files, watched_annotate

NODES = (1, 2, 4, 8)
LEAST_EFFICIENCY = 0.95
_UNIT_DOCUMENTS = 16
_ENDS = 2  # units of each node, at both ends, that the steady rate leaves out
_TEXT = "The old miller of Larby keeps seeds in the house by the river and sells them on Fridays."


def measure_scaling(
    directory: Path,
    nodes: Sequence[int],
    units_per_node: int,
    unit_s: float,
    tell: Callable[[str], None],
) -> Part:
    """The same number of units for each node, on clusters of these sizes.

    Raises:
        ToolformerError: a run ends with an error.
        OutputError: a directory holds what no soak wrote, or the disk is full.
    """
    rows: list[dict[str, Any]] = []
    for num_nodes in nodes:
        place = emptied(directory / f"{num_nodes}-nodes")
        documents = place / "documents.parquet"
        write_texts(documents, [_TEXT] * (num_nodes * units_per_node * _UNIT_DOCUMENTS))
        configuration = write_configuration(
            place,
            documents=documents,
            unit_documents=_UNIT_DOCUMENTS,
            replicas=num_nodes,
            num_gpus=1,
            seconds={"seconds_per_document": unit_s / _UNIT_DOCUMENTS},
        )
        tell(f"scaling: {num_nodes * units_per_node} units on {num_nodes} nodes")
        with _cluster(num_nodes) as address:
            watched = watched_annotate(configuration, address=address)
        rows.append(measured(watched.marks, num_nodes))
    table = with_efficiencies(rows)
    return Part(name="scaling", figures={"unit_s": unit_s, "table": table}, checks=_checks(table))


def _checks(rows: Sequence[dict[str, Any]]) -> list[Check]:
    return [
        Check(
            name=f"{row['nodes']} nodes, {what}",
            got=f"{row[key]:.1%} of {row['nodes']} times one node's",
            expected=f"at least {LEAST_EFFICIENCY:.0%}",
            holds=row[key] >= LEAST_EFFICIENCY,
        )
        for row in rows[1:]
        for what, key in (("whole run", "efficiency"), ("without its ends", "steady_efficiency"))
    ]


def with_efficiencies(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with their rates as shares of as many times the rate of a node of the first row."""
    rates = {"efficiency": "units_per_s", "steady_efficiency": "steady_units_per_s"}
    first = rows[0]
    return [
        row
        | {
            share: row[rate] / row["nodes"] / (first[rate] / first["nodes"])
            for share, rate in rates.items()
        }
        for row in rows
    ]


def measured(marks: Sequence[DoneMark], num_nodes: int) -> dict[str, Any]:
    """Units a second from the first one read to the last commit, and between commits in the midst.

    `engine_share` is the part of the time in which the replicas worked: 1 is all there is.
    """
    begin, end = working_time(marks)
    commits = [mark.finished_at for mark in marks]
    out = _ENDS * num_nodes
    steady_s = commits[-1 - out] - commits[out]
    worked = sum(mark.seconds["sample"] + mark.seconds["score"] for mark in marks)
    return {
        "nodes": num_nodes,
        "units": len(marks),
        "whole_s": end - begin,
        "units_per_s": len(marks) / (end - begin),
        "steady_units_per_s": (len(marks) - 1 - 2 * out) / steady_s,
        "engine_share": worked / (end - begin) / num_nodes,
    }


@contextmanager
def _cluster(num_nodes: int) -> Iterator[str]:
    """The address of a cluster on this machine: a head without GPUs and nodes with one each."""
    with ray_files() as place:
        before = os.environ.get("RAY_TMPDIR")
        cluster = Cluster()  # starts nothing before its first node, which is the head
        try:
            os.environ["RAY_TMPDIR"] = place  # its note of a running cluster, too
            cluster.add_node(num_cpus=4, num_gpus=0, include_dashboard=False)
            for number in range(num_nodes):
                # A directory for each: Ray unpacks the code it ships to a node in a place below,
                # and throws away what is there, even what workers of another node import just now.
                cluster.add_node(num_cpus=1, num_gpus=1, temp_dir=f"{place}/{number}")
            cluster.wait_for_nodes()
            yield cluster.address
        finally:
            cluster.shutdown()  # type: ignore[no-untyped-call]
            if before is None:
                os.environ.pop("RAY_TMPDIR", None)
            else:
                os.environ["RAY_TMPDIR"] = before
