"""The stages of the graph, as actors that die with what they ask: what becomes of the unit.

Documents say at what their process is to die, as in tests/pipeline/survival/moments.py. What is
expected is annotated in this process, from the documents that kill nothing.
"""

import os
import signal
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import ray
from ray.exceptions import RayActorError

from pipeline.config import RunConfig
from pipeline.engine_config import EngineConfig
from pipeline.execution import distinct_requests, record_results
from pipeline.method import Method
from pipeline.pools import Pools, start_pools
from pipeline.prepare import prepare
from pipeline.reading import SourceDocument, read_rows
from pipeline.sampling import sample_calls
from pipeline.schemas import DOCUMENTS, MANIFEST
from pipeline.scoring import score_calls
from pipeline.stages.careful import CarefulCalls
from pipeline.stages.language_model import LMStage
from pipeline.stages.read import ReadStage
from pipeline.stages.tool_access import ToolAccess, ToolClient
from pipeline.tokens import TokenCodec
from pipeline.trace import read_trace
from pipeline.units import Unit
from tests.pipeline.demo_runs import DEMO
from tests.pipeline.engines.demo_units import configured, demo_codec, demo_method
from tests.pipeline.stages.quick_engine import QuickEngine
from tests.pipeline.survival.killing_tool import KillingCalculator
from tools.base import ToolRequest, ToolResult

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("local_ray")]

KILLS = "kills_process"


class Stage:
    """A stage as Ray Data runs it: an actor that is started again when it dies."""

    def __init__(self, stage: Any, *arguments: Any) -> None:
        self._stage = stage(*arguments)

    async def annotate(self, unit: pa.Table) -> pa.Table:
        async for annotated in self._stage(unit):
            return annotated

    def read(self, unit: pa.Table) -> pa.Table:
        return self._stage(unit)


class DyingRead(ReadStage):
    """Its process dies of a document, as it may in a tokenizer."""

    def _prepared(self, documents: Sequence[SourceDocument], unit_id: str) -> pa.Table:
        if any("dies-read" in d.text and d.dropped is None for d in documents):
            os.kill(os.getpid(), signal.SIGKILL)
        return super()._prepared(documents, unit_id)


def started(stage: Any, *arguments: Any) -> Any:
    return ray.remote(num_cpus=0, max_restarts=-1)(Stage).remote(stage, *arguments)


def repeated(actor: Any, method: str, argument: Any, *, at_most: int) -> Any:
    """What an actor answers; it is asked again when it dies, as Ray Data does."""
    for _ in range(at_most + 1):
        try:
            return ray.get(getattr(actor, method).remote(argument))
        except RayActorError:
            ray.get(actor.__ray_ready__.options(max_task_retries=-1).remote())
    raise AssertionError(f"more than {at_most} deaths")


class World:
    """Eight documents, a model that dies where they say, and the same annotated here."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.engine = {
            "name": "tests.pipeline.stages.quick_engine:QuickEngine",
            "options": {"directory": str(directory)},
        }
        self.codec: TokenCodec = demo_codec()
        self.method: Method = demo_method(self.codec)

    def documents(self, dies: dict[int, str]) -> list[SourceDocument]:
        rows = [
            {"doc_id": f"d{n}", "text": self._text(n, dies.get(n)), "language": "en"}
            for n in range(8)
        ]
        path = self.directory / "documents.parquet"
        pq.write_table(pa.Table.from_pylist(rows, schema=DOCUMENTS), path)
        return read_rows(path, 0, 8)

    def _text(self, number: int, dies: str | None) -> str:
        poison = "" if dies is None else f" It dies-{dies}."
        return f"Note {number}. He paid {number + 3} and 4 cents, {number + 7} in all.{poison}"

    def prepared(self, documents: Sequence[SourceDocument]) -> pa.Table:
        return prepare(documents, "u", self.method, self.codec)

    def config(self, **engines: Any) -> RunConfig:
        return configured(engine=self.engine | {"replicas": 2}, engines=engines)

    def here(self) -> QuickEngine:
        """The engine in this process, for documents that kill nothing."""
        engine = EngineConfig.model_validate(self.engine)
        return QuickEngine.load(configured().model, engine)

    def sampled(self, unit: pa.Table) -> pa.Table:
        return sample_calls(unit, self.method, self.codec, self.here())

    def executed(self, unit: pa.Table) -> pa.Table:
        tool = KillingCalculator(directory=str(self.directory))
        asked = distinct_requests(unit)["Calculator"]
        results = {"Calculator": dict(zip(asked, tool.run(asked), strict=True))}
        return record_results(unit, results, self.codec, max_result_tokens=100)

    def scored(self, unit: pa.Table) -> pa.Table:
        return score_calls(unit, self.method, self.codec, self.here())


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def pools(local_ray: None, world: World) -> Pools:
    """Two replicas that sample and score; another answers P for them."""
    return start_pools(world.config(position=world.engine | {"max_num_seqs": 2}))


def rest(unit: pa.Table, culprits: Sequence[int]) -> pa.Table:
    return unit.take([n for n in range(unit.num_rows) if n not in culprits])


def assert_isolated(answered: pa.Table, expected: pa.Table, culprits: Sequence[int]) -> None:
    """`expected` is what becomes of the others, when the culprits are not there."""
    rows = answered.to_pylist()
    assert [row["dropped"] for row in rows] == [
        KILLS if n in culprits else None for n in range(len(rows))
    ]
    others = rest(answered, culprits).drop_columns("trace")
    assert others.equals(expected.drop_columns("trace"))
    assert any(row["calls"] for row in others.to_pylist())


def test_what_kills_the_pool_that_answers_p_is_dropped(world: World, pools: Pools) -> None:
    unit = world.prepared(world.documents({2: "position"}))
    stage = started(LMStage, "sample", pools.access_to("sample"), world.method)
    sampled = ray.get(stage.annotate.remote(unit))
    assert_isolated(sampled, world.sampled(rest(unit, [2])), [2])
    kept = sampled.slice(2, 1).to_pylist()[0]
    assert kept["text"].endswith("It dies-position.") and not kept["calls"]
    assert "isolate_sample" in read_trace(sampled)["seconds"]


def test_what_kills_the_scorer_keeps_its_calls_without_losses(world: World, pools: Pools) -> None:
    unit = world.prepared(world.documents({3: "loss"}))
    (world.directory / "healed").touch()  # L(eps) of its sampling does not kill
    unit = world.executed(world.sampled(unit))
    (world.directory / "healed").unlink()
    stage = started(LMStage, "score", pools.access_to("loss"), world.method)
    scored = ray.get(stage.annotate.remote(unit))
    assert_isolated(scored, world.scored(rest(unit, [3])), [3])
    calls = scored.slice(3, 1).to_pylist()[0]["calls"]
    assert calls and all(call["loss_plus"] is None for call in calls)


def test_a_document_that_kills_the_read_stage_is_dropped_and_the_rest_is_the_same(
    world: World, pools: Pools
) -> None:
    documents = world.documents({6: "read"})
    unit = Unit(
        unit_id="u", file=str(world.directory / "documents.parquet"), row_start=0, num_documents=8
    )
    row = pa.Table.from_pylist([asdict(unit)], schema=MANIFEST)
    model = str(DEMO / "model")
    stage = started(DyingRead, model, None, world.method, pools.dispatcher)
    rows = repeated(stage, "read", row, at_most=4)
    expected = world.prepared([*documents[:6], replace(documents[6], dropped=KILLS), documents[7]])
    assert rows.drop_columns("trace").equals(expected.drop_columns("trace"))
    assert rows.column("dropped").to_pylist() == [None] * 6 + [KILLS, None]


class Tools:
    """A tool inside the process that asks it."""

    def __init__(self, access: ToolAccess, dispatcher: Any) -> None:
        self._client = ToolClient(access, CarefulCalls(dispatcher))

    async def ask(self, inputs: Sequence[str]) -> list[ToolResult]:
        return await self._client.ask([ToolRequest(input=text) for text in inputs])


def test_a_call_that_kills_the_execute_stage_fails_and_its_batch_is_answered(pools: Pools) -> None:
    access = ToolAccess(
        name="Breakable", factory="tests.pipeline.breakable_tool:BreakableTool", options={},
        timeout_s=60.0,
    )  # fmt: skip
    actor: Any = ray.remote(num_cpus=0, max_restarts=-1)(Tools).remote(access, pools.dispatcher)
    answers = repeated(actor, "ask", ["a", "die", "b"], at_most=2)
    assert [answer.result for answer in answers] == ["a", None, "b"]
    assert answers[1] == ToolResult.failed("the tool's process died of this call")
