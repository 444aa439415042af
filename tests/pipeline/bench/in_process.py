"""The demo annotated in this process, by whatever engine one brings."""

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.build.dataset import build
from pipeline.config import RunConfig, load_config
from pipeline.documents.language import english_or_not
from pipeline.engines.protocol import LMEngine
from pipeline.execution import distinct_requests, record_results
from pipeline.method import Method, resolve_method
from pipeline.pools import access_to
from pipeline.prepare import prepare
from pipeline.reading import read_rows
from pipeline.sampling import sample_calls
from pipeline.schemas import SCORED
from pipeline.scoring import score_calls
from pipeline.stages.tool_access import ToolClient
from pipeline.tokens import TokenCodec

Clients = Mapping[str, ToolClient]


def demo_config(*tools: str) -> RunConfig:
    """`make demo`'s own, with the tools named; its paths begin at the root of the repository."""
    config = load_config(Path("pipeline/configs/demo.yaml"))
    chosen = {name: config.tools[name] for name in tools}
    return config.model_copy(update={"tools": chosen})


def clients_of(config: RunConfig) -> Clients:
    """Every tool, loaded in this process."""
    return {
        name: ToolClient(access_to(name, tool, cache=config.tool_cache))
        for name, tool in config.tools.items()
    }


def annotated(
    config: RunConfig, engine: LMEngine, clients: Clients, num_documents: int
) -> pa.Table:
    """The first documents with their scored calls, in units of the size `config` asks for."""
    codec = TokenCodec.load(config.model.path)
    method = resolve_method(config, codec, context=engine.info.max_len)
    units = _units(config, method, codec, num_documents)
    return pa.concat_tables([_annotated(unit, method, codec, engine, clients) for unit in units])


def _units(
    config: RunConfig, method: Method, codec: TokenCodec, num_documents: int
) -> Iterator[pa.Table]:
    identify = english_or_not(method.mt_filter)
    for start in range(0, num_documents, config.unit_documents):
        count = min(config.unit_documents, num_documents - start)
        documents = read_rows(config.input[0], start, count)
        yield prepare(documents, f"from-{start}", method, codec, identify)


def _annotated(
    unit: pa.Table, method: Method, codec: TokenCodec, engine: LMEngine, clients: Clients
) -> pa.Table:
    unit = sample_calls(unit, method, codec, engine)
    results = {
        name: dict(zip(asked, asyncio.run(clients[name].ask(asked)), strict=True))
        for name, asked in distinct_requests(unit).items()
    }
    unit = record_results(unit, results, codec, max_result_tokens=method.max_result_tokens)
    return score_calls(unit, method, codec, engine)


def kept_calls(unit: pa.Table, config: RunConfig) -> list[dict[str, Any]]:
    """The calls whose gain reaches their tool's tau_f, each with its document."""
    return [
        {"doc_id": row["doc_id"], **call}
        for row in unit.to_pylist()
        for call in row["calls"]
        if call["gain"] is not None and call["gain"] >= config.tools[call["tool"]].tau_f
    ]


def built(unit: pa.Table, config: RunConfig, directory: Path) -> pa.Table:
    """C* of an annotated unit: documents, their text with calls, and its tokens."""
    directory.mkdir()
    path = directory / "unit.parquet"
    pq.write_table(unit.select(SCORED.names), path)
    build([path], config, TokenCodec.load(config.model.path), directory)
    shards = sorted((directory / "dataset").glob("*.parquet"))
    columns = ["doc_id", "text", "input_ids"]
    return pa.concat_tables([pq.read_table(shard, columns=columns) for shard in shards])
