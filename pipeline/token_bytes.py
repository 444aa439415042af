"""What each token of a tokenizer is as bytes, and a tokenizer that adds no bytes of its own.

Two families are known: byte-level BPE (GPT-2, GPT-J, Llama 3), whose vocabulary spells bytes as
printable characters, and SentencePiece-style vocabularies (Llama 2), which write a space as "▁"
and spell unknown characters as byte tokens <0xNN>.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from tokenizers import Tokenizer

_BYTE_TOKEN = re.compile(r"<0x([0-9A-F]{2})>")
_SPACE_MARK = "\u2581"


class UnknownTokenizer(ValueError):
    """The bytes of the tokenizer's tokens cannot be told from its vocabulary."""


def exact_tokenizer(tokenizer: Tokenizer) -> Tokenizer:
    """A copy that adds nothing to the text it encodes: no dummy space, no special tokens.

    The name of a special token in a text is encoded as the plain text it is, so that a web page
    that mentions "<|endoftext|>" does not end there for the model.
    """
    spec = json.loads(tokenizer.to_str())
    spec["normalizer"] = _without_dummy_prefix(spec["normalizer"])
    spec["pre_tokenizer"] = _without_dummy_prefix(spec["pre_tokenizer"])
    return plain_tokenizer(Tokenizer.from_str(json.dumps(spec)))


def plain_tokenizer(tokenizer: Tokenizer) -> Tokenizer:
    """A copy without truncation and padding that reads special tokens' names as plain text."""
    copy = Tokenizer.from_str(tokenizer.to_str())
    copy.no_truncation()
    copy.no_padding()
    copy.encode_special_tokens = True
    return copy


def vocabulary_bytes(tokenizer: Tokenizer) -> dict[int, bytes]:
    """The bytes of every token id.

    Raises:
        UnknownTokenizer: it is of neither known family.
    """
    spec = json.loads(tokenizer.to_str())
    nodes = [
        node for part in ("normalizer", "pre_tokenizer", "decoder") for node in _nodes(spec[part])
    ]
    byte_level = any(node["type"] == "ByteLevel" for node in nodes)
    if not byte_level and _SPACE_MARK not in json.dumps(nodes, ensure_ascii=False):
        raise UnknownTokenizer("neither byte-level nor SentencePiece-style")
    byte_of = _byte_of_character()
    added = {token["id"]: token["content"] for token in spec["added_tokens"]}
    table = {}
    for token, token_id in tokenizer.get_vocab(with_added_tokens=True).items():
        if token_id in added and (byte_level or not _BYTE_TOKEN.fullmatch(token)):
            table[token_id] = added[token_id].encode()
        elif byte_level:
            table[token_id] = bytes(byte_of[character] for character in token)
        elif match := _BYTE_TOKEN.fullmatch(token):
            table[token_id] = bytes([int(match[1], 16)])
        else:
            table[token_id] = token.replace(_SPACE_MARK, " ").encode()
    return table


def _without_dummy_prefix(node: dict[str, Any] | None) -> dict[str, Any] | None:
    if node is None or node["type"] == "Prepend":
        return None
    if node["type"] == "Sequence":
        key = "normalizers" if "normalizers" in node else "pretokenizers"
        children = [_without_dummy_prefix(child) for child in node[key]]
        return node | {key: [child for child in children if child is not None]}
    if node["type"] == "Metaspace":
        return node | {"prepend_scheme": "never"}
    if node["type"] == "ByteLevel":
        return node | {"add_prefix_space": False}
    return node


def _nodes(node: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
    """The parts of a normalizer, pre-tokenizer or decoder, sequences taken apart."""
    if node is None:
        return
    if node["type"] != "Sequence":
        yield node
    for key in ("normalizers", "pretokenizers", "decoders"):
        for child in node.get(key, ()):
            yield from _nodes(child)


def _byte_of_character() -> dict[str, int]:
    """GPT-2's spelling of bytes: printable Latin-1 as itself, the rest from U+0100 upwards."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {
        chr(0x100 + index): byte for index, byte in enumerate(others)
    }
