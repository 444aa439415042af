"""A unit of the manifest becomes its documents, ready for the model."""

import time
from pathlib import Path

import pyarrow as pa

from pipeline.documents.language import english_or_not
from pipeline.method import Method
from pipeline.prepare import prepare
from pipeline.reading import read_rows
from pipeline.schemas import IN_FLIGHT, MANIFEST, conform
from pipeline.stages.failure import carried
from pipeline.tokens import TokenCodec
from pipeline.trace import add_trace
from tools.base import ContractError


class ReadStage:
    """MANIFEST row in, IN_FLIGHT rows out: one block of documents for one unit."""

    def __init__(self, model_path: str, revision: str | None, method: Method) -> None:
        self._codec = TokenCodec.load(model_path, revision=revision)
        self._method = method
        self._identify = english_or_not(method.mt_filter)

    @carried()
    def __call__(self, units: pa.Table) -> pa.Table:
        (unit,) = conform(units, MANIFEST, stage="read").to_pylist()
        started = time.perf_counter()
        documents = read_rows(Path(unit["file"]), unit["row_start"], unit["num_documents"])
        if len(documents) != unit["num_documents"]:
            raise ContractError(
                stage="read",
                doc_id=f"unit {unit['unit_id']}",
                got=f"{len(documents)} documents",
                expected=unit["num_documents"],
            )
        rows = prepare(documents, unit["unit_id"], self._method, self._codec, self._identify)
        return conform(
            add_trace(rows, "read", time.perf_counter() - started), IN_FLIGHT, stage="read"
        )
