"""Token sequences for pretraining, in the shapes that annotation gives to the model.

Four kinds: a document alone; a few-shot prompt followed by an annotated copy (what P and S
see); a document behind a call (what L sees) with its right result, no result or a result that
does not help; and a few words said twice, which teaches copying long before documents do.
"""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from transformers import PreTrainedTokenizerFast

from tools.calls import ApiCall, pieces_of_call, pieces_with_result
from training.world.document import Document, draw_document
from training.world.encyclopedia import World
from training.world.items import Answered, Mark
from training.world.names import Names

IGNORED = -100
TOOLS = ("Calculator", "Calendar", "WikiSearch", "QA", "MT")
_WORLD_PAGES, _DOCUMENTS_PER_WORLD = 3000, 2000
_KINDS, _KIND_WEIGHTS = ("plain", "prompt", "prefix", "repetition"), (10, 50, 36, 4)
_REPETITION_TOKENS = (6, 24)
_PREFIX_KINDS, _PREFIX_WEIGHTS = ("right", "empty", "wrong", "foreign"), (50, 15, 22, 13)
_OWN_TOOL_SHARE = 0.75
_PROMPT_FORMS, _PROMPT_WEIGHTS = ("whole", "instruction", "free"), (35, 50, 15)
_TO_ANNOTATE = "\n\nInput: {x}\nOutput:"
_SHORT_CHARACTERS = 220  # of a document in a prompt of its own
_FREE_INSTRUCTIONS = (
    "Add calls to the tool {tool} where they help.",
    "Copy the text and add {tool} calls.",
    "Your task is to add calls to a tool.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """Token ids and the ids to learn, IGNORED where nothing is to be learned."""

    input_ids: list[int]
    labels: list[int]


def encode_text(tokenizer: PreTrainedTokenizerFast, text: str) -> tuple[list[int], list[int]]:
    """The canonical tokens c = tok(" " + text) and the character offset in `text` of each."""
    encoding = tokenizer(f" {text}", return_offsets_mapping=True)
    return encoding["input_ids"], [start - 1 for start, _ in encoding["offset_mapping"]]


def encode_pieces(tokenizer: PreTrainedTokenizerFast, pieces: tuple[str, ...]) -> list[int]:
    """The ids of the pieces, each tokenised on its own (tools/calls.py)."""
    return [token for piece in pieces for token in tokenizer.encode(piece)]


def annotated_text(text: str, marks: tuple[Mark, ...]) -> str:
    """`text` with e(c) of every mark written into it."""
    for mark in reversed(marks):
        call = "".join(pieces_of_call(mark.right.call))
        text = text[: mark.offset] + call + text[mark.offset :]
    return text


def marks_of(document: Document, tool: str) -> tuple[Mark, ...]:
    return tuple(mark for mark in document.marks if mark.right.call.tool == tool)


class ExampleSource:
    """An endless stream of examples from the training world, the same for the same seed."""

    def __init__(
        self, tokenizer: PreTrainedTokenizerFast, prompts: Mapping[str, str], seed: int
    ) -> None:
        self._tokenizer, self._prompts = tokenizer, prompts
        self._rng = random.Random(f"examples {seed}")
        self._names = Names(held_out=False)
        self._documents = self._stream()
        self._previous: Answered | None = None

    def _stream(self) -> Iterator[Document]:
        yield from training_documents(self._rng)

    def __iter__(self) -> Iterator[Example]:
        while True:
            kind = self._rng.choices(_KINDS, weights=_KIND_WEIGHTS)[0]
            if kind == "repetition":
                yield self._repetition()
                continue
            document = next(self._documents)
            if kind == "prefix" and document.marks:
                yield self._prefixed(document)
            elif kind == "prompt":
                yield self._prompted(document)
            else:
                yield self._behind([], document)

    def _behind(self, prefix: list[int], document: Document) -> Example:
        """[bos] prefix c [eos], to be learned from the first token of c on."""
        c, _ = encode_text(self._tokenizer, document.text)
        c = [*c, self._tokenizer.eos_token_id]
        head = [self._tokenizer.bos_token_id, *prefix]
        return Example(input_ids=head + c, labels=[IGNORED] * len(head) + c)

    def repetitions(self) -> Iterator[Example]:
        """Words of documents in random order, and the same again, to be learned the second time."""
        while True:
            yield self._repetition()

    def _repetition(self) -> Example:
        words, _ = encode_text(self._tokenizer, next(self._documents).text)
        said = self._rng.sample(words, min(len(words), self._rng.randint(*_REPETITION_TOKENS)))
        return Example(
            input_ids=[self._tokenizer.bos_token_id, *said, *said],
            labels=[IGNORED] * (1 + len(said)) + said,
        )

    def _prefixed(self, document: Document) -> Example:
        mark = self._rng.choice(document.marks)
        kind = self._rng.choices(_PREFIX_KINDS, weights=_PREFIX_WEIGHTS)[0]
        shown = mark.right
        if kind == "wrong" and mark.wrong:
            shown = self._rng.choice(mark.wrong)
        elif kind == "foreign" and self._previous is not None:
            shown = self._previous
        self._previous = mark.right
        result = "" if kind == "empty" else shown.result
        prefix = encode_pieces(self._tokenizer, pieces_with_result(shown.call, result))
        return self._behind(prefix, document)

    def _prompted(self, document: Document) -> Example:
        own = [mark.right.call.tool for mark in document.marks]
        tool = self._rng.choice(TOOLS)
        if own and self._rng.random() < _OWN_TOOL_SHARE:
            tool = self._rng.choice(own)
        head, tail = self._prompt(tool).split("{x}")
        shown = self._tokenizer.encode(head + document.text + tail)
        copy = annotated_tokens(self._tokenizer, document, tool)
        copy.append(self._tokenizer.eos_token_id)
        return Example(
            input_ids=[self._tokenizer.bos_token_id, *shown, *copy],
            labels=[IGNORED] * (1 + len(shown)) + copy,
        )

    def _prompt(self, tool: str) -> str:
        """The tool's prompt, its first line alone, or one with examples drawn here.

        The first line says which tool is meant: half of the examples spend no tokens on more.
        """
        match self._rng.choices(_PROMPT_FORMS, weights=_PROMPT_WEIGHTS)[0]:
            case "whole":
                return self._prompts[tool]
            case "instruction":
                return self._prompts[tool].split("\n")[0] + _TO_ANNOTATE
        return self._free_prompt(tool)

    def _free_prompt(self, tool: str) -> str:
        instruction = self._rng.choice(_FREE_INSTRUCTIONS).replace("{tool}", tool)
        parts = [instruction]
        while len(parts) < 3:
            shown = next(self._documents)
            marks = marks_of(shown, tool)
            if marks and len(shown.text) < _SHORT_CHARACTERS:
                parts.append(f"Input: {shown.text}\nOutput: {annotated_text(shown.text, marks)}")
        return "\n\n".join(parts) + _TO_ANNOTATE


def training_documents(rng: random.Random) -> Iterator[Document]:
    """Documents of the training world, without end; the entities change now and then."""
    names = Names(held_out=False)
    while True:
        world = World(names, _WORLD_PAGES, rng)
        for _ in range(_DOCUMENTS_PER_WORLD):
            yield draw_document(world, names, rng)


def annotated_tokens(
    tokenizer: PreTrainedTokenizerFast, document: Document, tool: str
) -> list[int]:
    """c with e(c) of every call of `tool` spliced in, token by token."""
    c, offsets = encode_text(tokenizer, document.text)
    at = {mark.offset: mark.right.call for mark in marks_of(document, tool)}
    tokens: list[int] = []
    for token, offset in zip(c, offsets, strict=True):
        if offset in at:
            call: ApiCall = at.pop(offset)
            tokens += encode_pieces(tokenizer, pieces_of_call(call))
        tokens.append(token)
    assert not at, f"no token begins at {sorted(at)} in {document.text!r}"
    return tokens


def tokenizer_corpus(prompts: Mapping[str, str], rng: random.Random, count: int) -> Iterator[str]:
    """Texts to train the tokenizer on: documents, annotated copies, results, prompts."""
    documents = training_documents(rng)
    for number in range(count):
        document = next(documents)
        if number % 8 == 0:
            yield from prompts.values()
        yield f" {document.text}"
        yield annotated_text(document.text, document.marks)
        for mark in document.marks:
            yield from pieces_with_result(mark.right.call, mark.right.result)
