"""A call in the text around it, as training has it: its tokens, and its characters."""

from collections.abc import Sequence

from pipeline.tokens import TokenCodec
from tools.calls import ARROW, OPEN, pieces_with_result
from training.generate.brackets import WrittenCall
from training.generate.events import CallEnded


def up_to_arrow(after: Sequence[int], written: WrittenCall, codec: TokenCodec) -> Sequence[int]:
    """The tokens between " [" and a result: `after`, the model's own, if " ->" ends them.

    Else the call stays as text, and its tokens are what it would have in training.
    """
    arrow = codec.encode_pieces([ARROW]).tolist()
    call, end = after[: -len(arrow)], list(after[-len(arrow) :])
    if end == arrow and b"".join(codec.token_bytes(call)) == written.text.encode():
        return after
    canonical: list[int] = codec.encode_pieces([written.text, ARROW]).tolist()
    return canonical


def after_arrow(written: WrittenCall, result: str) -> Sequence[str]:
    """The pieces that are inserted: of a result, if there is one, and "]"."""
    pieces = pieces_with_result(written.call, result)
    return pieces[pieces.index(ARROW) + 1 :]


def annotation(written: WrittenCall, result: str) -> str:
    """The whole call as it stands in a text."""
    return "".join([OPEN, written.text, ARROW, *after_arrow(written, result)])


def annotated(text: str, calls: Sequence[CallEnded], annotations: Sequence[str]) -> str:
    """Plain text with the calls in their places."""
    pieces, done = [], 0
    for ended, call in zip(calls, annotations, strict=True):
        offset = ended.started.offset
        pieces += [text[done:offset], call]
        done = offset
    return "".join([*pieces, text[done:]])
