"""What a user of `chat-export` may choose, without anything that takes long to import."""

from enum import StrEnum

# Meant for documents with and without a beginning below it.
DEFAULT_INSTRUCTION = (
    "Write a text; if its beginning is given, continue it. Where the result of a tool helps with "
    "what comes next, call the tool first."
)


class ShardFormat(StrEnum):
    """How conversations are written."""

    PARQUET = "parquet"
    JSONL = "jsonl"
