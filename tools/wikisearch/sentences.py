"""Where English sentences end, as far as cutting snippets needs it."""

import re

# A full stop, question or exclamation mark, perhaps closing quotes and brackets, then a space.
_END = re.compile("([.!?]+[\"')\\]\u2019\u201d]*)\\s+")
_OPENERS = "\"'([\u2018\u201c"
_LAST_WORD = re.compile(r"\S+$")
# Words after which a full stop seldom ends a sentence.
_ABBREVIATIONS = (
    *("approx", "capt", "cf", "co", "col", "corp", "dr", "ed", "fig", "fr", "gen", "gov", "hon"),
    *("inc", "jr", "lt", "ltd", "maj", "messrs", "mr", "mrs", "ms", "mt", "no", "nos", "op", "pp"),
    *("prof", "rev", "sen", "sgt", "sr", "st", "ste", "vol", "vs"),
)


def split_sentences(text: str) -> list[str]:
    """The sentences of `text` in order, without the space between them; never an empty one."""
    sentences, start = [], 0
    for end in _END.finditer(text):
        if _is_boundary(text[start : end.end(1)], text[end.end() :][:3]):
            sentences.append(text[start : end.end(1)].strip())
            start = end.end()
    sentences.append(text[start:].strip())
    return [sentence for sentence in sentences if sentence]


def cut_at_sentence_end(text: str, max_words: int) -> str:
    """`text` in at most `max_words` words: whole sentences, or words if not even one fits."""
    words = text.split()
    if len(words) <= max_words:
        return text
    kept: list[str] = []
    for sentence in split_sentences(text):
        sentence_words = sentence.split()
        if len(kept) + len(sentence_words) > max_words:
            break
        kept += sentence_words
    return " ".join(kept or words[:max_words])


def _is_boundary(before: str, after: str) -> bool:
    follower = after.lstrip(_OPENERS)
    if not follower or follower[0].islower():
        return False
    found = _LAST_WORD.search(before)
    word = found.group().strip(_OPENERS) if found else ""
    if not word.endswith(".") or word.endswith(".."):
        return True
    stem = word.removesuffix(".")
    is_initial = len(stem) == 1 and stem.isalpha() and stem.isupper()
    is_dotted = "." in stem  # U.S., a.k.a.
    return not (is_initial or is_dotted or stem.casefold() in _ABBREVIATIONS)
