"""A unit of the manifest becomes its documents, ready for the model.

What kills the process here is found by what it leaves: the work that was begun and never ended.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import ray

from pipeline.attempts import Work
from pipeline.documents.language import english_or_not
from pipeline.engines.lives import LIFE
from pipeline.engines.metrics import count_isolated
from pipeline.failures import KILLS_PROCESS
from pipeline.method import Method
from pipeline.prepare import prepare
from pipeline.reading import SourceDocument, read_rows
from pipeline.schemas import IN_FLIGHT, MANIFEST, conform
from pipeline.stages.failure import carried
from pipeline.tokens import TokenCodec
from pipeline.trace import add_trace
from tools.base import ContractError, InputError
from tools.places import place

_DEATHS = 2  # of the process at work on the same; one may be chance


class ReadStage:
    """MANIFEST row in, IN_FLIGHT rows out: one block of documents for one unit.

    Ray Data starts a process that died again and repeats its units for ever. A unit that two
    processes died of is prepared document by document, and a document that two more die of is
    dropped: at most two deaths for a unit and two for each such document. One unit is at work
    at a time, so no document pays for another.
    """

    def __init__(
        self, model_path: str, revision: str | None, method: Method, dispatcher: Any
    ) -> None:
        """`dispatcher` keeps what was begun; see Attempts."""
        self._codec = TokenCodec.load(model_path, revision=revision)
        self._method = method
        self._identify = english_or_not(method.mt_filter)
        self._dispatcher = dispatcher

    @carried()
    def __call__(self, units: pa.Table) -> pa.Table:
        (unit,) = conform(units, MANIFEST, stage="read").to_pylist()
        started = time.perf_counter()
        work = ("read", unit["unit_id"])
        if self._died_of(work):
            rows = self._carefully(unit)
        else:
            rows = self._prepared(_documents(unit), unit["unit_id"])
        self._ended(work)
        rows = add_trace(rows, "read", time.perf_counter() - started)
        return conform(rows, IN_FLIGHT, stage="read")

    def _prepared(self, documents: Sequence[SourceDocument], unit_id: str) -> pa.Table:
        return prepare(documents, unit_id, self._method, self._codec, self._identify)

    def _carefully(self, unit: dict[str, Any]) -> pa.Table:
        """The same rows, prepared one document after the other."""
        reading = ("read", unit["unit_id"], "file")
        if self._died_of(reading):
            last = unit["row_start"] + unit["num_documents"] - 1
            raise InputError(
                f"{unit['file']}: whoever reads its rows {unit['row_start']} to {last} dies; is "
                "the file damaged, or are these rows larger than the memory?"
            )
        documents = _documents(unit)
        self._ended(reading)
        parts = []
        for number, document in enumerate(documents):
            work = ("read", unit["unit_id"], str(number))
            kills = self._died_of(work)
            if kills:
                count_isolated("read", 1)
                document = replace(document, dropped=KILLS_PROCESS)  # never looked at again
            parts.append(self._prepared([document], unit["unit_id"]))
            if not kills:
                self._ended(work)
        return pa.concat_tables(parts).combine_chunks()

    def _died_of(self, work: Work) -> bool:
        """Whether as many processes began this before as may, and did not end it."""
        (deaths,) = ray.get(self._dispatcher.begin.remote([work], LIFE))
        return bool(deaths >= _DEATHS)

    def _ended(self, work: Work) -> None:
        self._dispatcher.end.remote([work])


def _documents(unit: dict[str, Any]) -> list[SourceDocument]:
    documents = read_rows(place(unit["file"]), unit["row_start"], unit["num_documents"])
    if len(documents) != unit["num_documents"]:
        raise ContractError(
            stage="read",
            doc_id=f"unit {unit['unit_id']}",
            got=f"{len(documents)} documents",
            expected=unit["num_documents"],
        )
    return documents
