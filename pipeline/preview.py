"""A few documents through the whole method in this process: a look before a long run."""

import asyncio
from collections.abc import Iterator
from typing import Any

from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table

from pipeline.config import RunConfig
from pipeline.documents.language import english_or_not
from pipeline.engines.load import load_engine
from pipeline.execution import distinct_requests, record_results
from pipeline.method import resolve_method
from pipeline.pools import access_to
from pipeline.prepare import prepare
from pipeline.reading import SourceDocument, list_document_files, read_footer, read_rows
from pipeline.sampling import sample_calls
from pipeline.scoring import score_calls
from pipeline.stages.tool_access import ToolClient
from pipeline.tokens import TokenCodec
from tools.base import InputError

_SHOWN_TEXT = 600


def preview(config: RunConfig, num_documents: int) -> Iterator[RenderableType]:
    """For each of the first documents offered to a tool: its text, then P, S, results, losses.

    All three losses are computed for every call, whatever `exact_reductions` says: here one
    wants to see them. One engine answers here, that of S.
    """
    config = config.model_copy(update={"exact_reductions": False})
    codec = TokenCodec.load(config.model.path, revision=config.model.revision)
    engine = load_engine(config.model, config.pool_of("sample").engine)
    method = resolve_method(config, codec, context=engine.info.max_len)
    clients = {
        name: ToolClient(access_to(name, tool, cache=config.tool_cache))
        for name, tool in config.tools.items()
    }
    identify = english_or_not(method.mt_filter)
    shown = 0
    for document in _documents(config):
        unit = prepare([document], "preview", method, codec, identify)
        if all(reason is not None for reason in unit.column("dropped").to_pylist()):
            continue
        unit = sample_calls(unit, method, codec, engine)
        requests = distinct_requests(unit)
        results = {
            name: dict(zip(asked, asyncio.run(clients[name].ask(asked)), strict=True))
            for name, asked in requests.items()
        }
        unit = record_results(unit, results, codec, max_result_tokens=method.max_result_tokens)
        for row in score_calls(unit, method, codec, engine).to_pylist():
            yield from _show(row)
        shown += 1
        if shown == num_documents:
            return
    if not shown:
        raise InputError("no document of the input is offered to any tool of this configuration")


def _documents(config: RunConfig) -> Iterator[SourceDocument]:
    for path in list_document_files(config.input):
        total = read_footer(path).metadata.num_rows
        for start in range(0, total, config.unit_documents):
            yield from read_rows(path, start, min(config.unit_documents, total - start))


def _show(row: dict[str, Any]) -> Iterator[RenderableType]:
    text = str(row["text"])
    offers = ", ".join(f"{o['tool']} ({o['reason']})" for o in row["offers"])
    yield f"\n[bold]{escape(str(row['doc_id']))}[/]  {escape(str(row['url'] or ''))}  {offers}"
    yield escape(text[:_SHOWN_TEXT] + ("..." if len(text) > _SHOWN_TEXT else ""))
    table = Table()
    for heading in ("tool", "before", "p_i", "call", "x", "result"):
        table.add_column(heading, overflow="fold")
    for heading in ("L(eps)", "L(e(c,eps))", "L+", "gain"):
        table.add_column(heading, justify="right")
    source = text.encode()
    for call in row["calls"]:
        before = source[: call["byte_offset"]].decode(errors="replace")[-24:]
        no_result = f"({call['status'] or call['dropped']})"
        answered = call["result"] if call["result"] is not None else no_result
        losses = ("loss_empty", "loss_call", "loss_plus", "gain")
        table.add_row(
            call["tool"],
            escape(" ".join(before.split())),
            f"{call['p_api']:.3f}",
            escape(call["input"]),
            str(call["samples"]),
            escape(answered),
            *("" if call[name] is None else f"{call[name]:.3f}" for name in losses),
        )
    unsampled = sum(not p["drawn"] for p in row["positions"])
    table.caption = f"{len(row['positions'])} positions, {unsampled} not sampled"
    yield table
