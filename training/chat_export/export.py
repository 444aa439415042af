"""C* of a built run as data that chat models are trained on."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.build.mark import built_summary, read_build_mark
from pipeline.rundir import RunDir
from tools.base import ConfigError, InputError
from training.chat_export.card import chat_card
from training.chat_export.conversation import conversation
from training.chat_export.options import ShardFormat
from training.chat_export.shards import filling, write_shards
from training.chat_export.tool_schemas import tool_schemas, tools_that_unquote
from training.finetune.built import read_documents


@dataclass(slots=True, kw_only=True)
class Exported:
    """What was written. Every document of C* is one conversation: none is left out."""

    documents: int = 0
    messages: int = 0
    calls: Counter[str] = field(default_factory=Counter)  # by tool


def export_chats(
    run: RunDir,
    out: Path,
    *,
    instruction: str,
    shard_format: ShardFormat,
    described: Mapping[str, str],
    license_name: str | None,
) -> Exported:
    """Writes C* as conversations to out/data, one shard after the other, and out/README.md.

    `described` says what tools do, by name, where something else should be said than
    `tool_schemas` finds. The same build gives the same bytes.

    Raises:
        ConfigError: `out` is not empty, the instruction is, or a tool is not described.
        InputError: nothing is built, or what is built cannot be read.
        OutputError: `out` cannot be written.
    """
    if not instruction.strip():
        raise ConfigError(
            "--instruction: is empty; the user of a conversation has to say something"
        )
    record = run.record()
    build = built_summary(run, read_build_mark(run))
    schemas = tool_schemas(record.config.tools, described)
    unquote = tools_that_unquote(record.config.tools)
    if not build.documents:
        raise InputError(f"{run.path}: its C* has no documents; there is nothing to export")
    exported = Exported(calls=Counter({name: 0 for name in record.config.tools}))

    def rows() -> Iterator[dict[str, Any]]:
        dataset = run.path / "dataset"
        for document in read_documents(dataset, documents=build.documents):
            messages = conversation(document, instruction, unquote=unquote, where=dataset)
            exported.documents += 1
            exported.messages += len(messages)
            exported.calls.update(call["tool"] for call in document.calls)
            yield {"doc_id": document.doc_id, "messages": messages, "tools": schemas}

    with filling(out) as directory:
        data = directory / "data"
        data.mkdir()
        write_shards(data, rows(), shard_format)
        card = chat_card(
            documents=exported.documents,
            messages=exported.messages,
            calls=exported.calls,
            tools=schemas,
            instruction=instruction,
            license_name=license_name,
            fingerprint=record.fingerprint,
        )
        (directory / "README.md").write_text(card, encoding="utf-8")
    return exported
