"""Marks and readings with numbers chosen by hand."""

from collections.abc import Mapping

from pipeline.rundir import DoneMark
from pipeline.soak.processes import Reading

MIB = 2**20


def mark(
    begun_at: float,
    finished_at: float,
    documents: int = 10,
    *,
    unit_id: str = "0",
    seconds: Mapping[str, float] | None = None,
    tokens: Mapping[str, int] | None = None,
) -> DoneMark:
    return DoneMark(
        unit_id=unit_id, documents=documents, rows=documents, dropped={}, bytes=1, blake2b="",
        seconds=dict(seconds or {}), tokens=dict(tokens or {}),
        begun_at=begun_at, finished_at=finished_at,
    )  # fmt: skip


def reading(at: float, **memory_mib: float) -> Reading:
    memory = {group: int(mib * MIB) for group, mib in memory_mib.items()}
    return Reading(at=at, memory_bytes=memory, cpu_s={}, processes=1)


def cpu_reading(at: float, **cpu_s: float) -> Reading:
    return Reading(at=at, memory_bytes={}, cpu_s=cpu_s, processes=1)
