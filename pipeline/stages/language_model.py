"""The two stages that ask the language model: sample and score."""

from collections.abc import AsyncIterator, Sequence
from typing import Any, Literal

import pyarrow as pa

from pipeline.method import Method
from pipeline.schemas import IN_FLIGHT, conform
from pipeline.stages.failure import carried
from tools.base import ContractError


class LMStage:
    """IN_FLIGHT rows in and out, answered by the replica with the fewest units waiting.

    Calls are asynchronous, so a replica finds its next unit waiting when it ends one. Where P, S
    and L have pools of their own, `replicas` are those of S to sample and those of L to score.
    """

    def __init__(
        self, kind: Literal["sample", "score"], replicas: Sequence[Any], method: Method
    ) -> None:
        self._kind = kind
        self._replicas = list(replicas)
        self._waiting = [0] * len(self._replicas)
        self._method = method

    async def __call__(self, unit: pa.Table) -> AsyncIterator[pa.Table]:
        with carried():
            yield await self._asked(unit)

    async def _asked(self, unit: pa.Table) -> pa.Table:
        conform(unit, IN_FLIGHT, stage=self._kind)
        chosen = min(range(len(self._replicas)), key=lambda index: self._waiting[index])
        replica = self._replicas[chosen]
        ask = replica.sample_unit if self._kind == "sample" else replica.score_unit
        self._waiting[chosen] += 1
        try:
            answered = await ask.remote(unit, self._method)
        finally:
            self._waiting[chosen] -= 1
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
