"""A document of C* as a conversation in which the assistant calls tools and writes on."""

import hashlib
from collections.abc import Collection
from typing import Any

from tools.base import InputError
from tools.calls import unquoted
from tools.places import Place
from tools.wikisearch.sentences import split_sentences
from training.finetune.built import BuiltDocument

_BLANK_LINE = "\n\n"


def conversation(
    document: BuiltDocument, instruction: str, *, unquote: Collection[str], where: Place
) -> list[dict[str, Any]]:
    """The messages of a document of the dataset `where`: user, assistant, tool, ..., assistant.

    The user gives the instruction and, below a blank line, what stands before the sentence with
    the first call. The assistant writes up to a call, makes it, is told the result, and so on; its
    last message has no call. The user's part of the text and the contents of the assistant's
    messages, one after the other, are the document without its calls byte for byte: what is
    empty is "".

    Calls at one position are consecutive messages with one call each, not one message with
    several: each was kept for what it adds where it stands, and templates as those of Llama 3.1 and
    3.2 refuse more than one call in a message.

    Around inputs of the tools `unquote` there are no quotation marks: QA("...") and
    WikiSearch("...") of the paper's prompts are its way to write an argument, and JSON has its own.

    Raises:
        InputError: the calls do not stand where the dataset says.
    """
    opening, *written = _texts(document, instruction, where)
    messages: list[dict[str, Any]] = [{"role": "user", "content": opening}]
    for number, (content, call) in enumerate(zip(written, document.calls, strict=False)):
        # Mistral's templates want nine letters or digits.
        call_id = f"call{number:05}"
        asked = unquoted(call["input"]) if call["tool"] in unquote else call["input"]
        function = {"name": call["tool"], "arguments": {"input": asked}}
        made = {"id": call_id, "type": "function", "function": function}
        messages += [
            {"role": "assistant", "content": content, "tool_calls": [made]},
            {
                "role": "tool",
                "name": call["tool"],
                "tool_call_id": call_id,
                "content": call["result"],
            },
        ]
    return [*messages, {"role": "assistant", "content": written[-1]}]


def opening_length(text: str, position: int) -> int:
    """How many characters of `text` stand before the sentence that holds `position`.

    A sentence also ends with its line. What lies between two sentences is of the later one, but
    white space after `position` stays behind it. 0 where nothing but white space would be before.
    """
    opening = end = 0
    for line in text.splitlines():
        for sentence in split_sentences(line):
            if end > position:
                return opening
            start = text.index(sentence, end)
            opening = min(start, position) if end else 0
            end = start + len(sentence)
    return opening


def _texts(document: BuiltDocument, instruction: str, where: Place) -> list[str]:
    """What the user says, and what the assistant writes before each call and after the last."""
    data, end = document.text.encode(), 0
    pieces = []
    for call in document.calls:
        pieces.append(data[end : call["byte_start"]])
        end = call["byte_end"]
    pieces.append(data[end:])
    source = b"".join(pieces)
    if hashlib.blake2b(source, digest_size=16).hexdigest() != document.text_hash:
        raise InputError(
            f"{where}: document {document.doc_id}: without its calls it is not the text they were "
            "put into; build the run again"
        )
    before, *others = (piece.decode() for piece in pieces)
    length = opening_length(source.decode(), len(before))
    user = instruction + _BLANK_LINE + before[:length] if length else instruction
    return [user, before[length:], *others]
