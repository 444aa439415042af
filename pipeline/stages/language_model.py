"""The two stages that ask the language model: sample and score."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from pipeline.engines.asking import PoolClient
from pipeline.engines.gate import Turn
from pipeline.method import Method
from pipeline.schemas import IN_FLIGHT, conform
from pipeline.stages.failure import carried
from pipeline.stages.isolation import Isolation
from tools.base import ContractError


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolAccess:
    """How the replicas of a pool are reached: through the dispatcher that knows them."""

    pool: str
    replicas: tuple[Any, ...]
    dispatcher: Any


class LMStage:
    """IN_FLIGHT rows in and out, each unit answered by the first replica that is free.

    Where P, S and L have pools of their own, `access` is to that of S to sample and that of L to
    score. A replica that dies fails nothing, see isolation.py.
    """

    def __init__(
        self, kind: Literal["sample", "score"], access: PoolAccess, method: Method
    ) -> None:
        self._kind = kind
        self._client = PoolClient(access.pool, access.replicas, access.dispatcher)
        self._isolation = Isolation(kind, self._ask, self._client.died)
        self._method = method

    async def __call__(self, unit: pa.Table) -> AsyncIterator[pa.Table]:
        with carried():
            conform(unit, IN_FLIGHT, stage=self._kind)
            answered = await self._isolation.annotated(unit)
            yield check_same_rows(unit, answered, stage=self._kind)

    async def _ask(self, unit: pa.Table, alone: bool) -> pa.Table:
        turn = Turn.SAMPLE_UNIT if self._kind == "sample" else Turn.SCORE_UNIT
        ask = f"{self._kind}_unit"
        answered = await self._client.ask(turn, ask, unit, self._method, alone, alone=alone)
        return check_same_rows(unit, answered, stage=self._kind)


def check_same_rows(before: pa.Table, after: pa.Table, *, stage: str) -> pa.Table:
    """`after`, conformed, with the same documents in the same order as `before`.

    Raises:
        ContractError: a stage lost, added or reordered documents.
    """
    after = conform(after, IN_FLIGHT, stage=stage)
    sent, returned = before.column("doc_id").to_pylist(), after.column("doc_id").to_pylist()
    if sent != returned:
        differing = next((s for s, r in zip(sent, returned, strict=False) if s != r), "(the last)")
        raise ContractError(
            stage=stage,
            doc_id=differing,
            got=f"{len(returned)} documents, in another order or number",
            expected=f"the same {len(sent)} documents",
        )
    return after
