"""Long documents cut into parts that fit a language model's window.

A document is cut into pieces at the best boundaries that make every piece fit; consecutive pieces
are then packed into as few parts as hold them.
"""

import itertools
import re
from bisect import bisect_right
from collections.abc import Callable

CountTokens = Callable[[str], int]

# Where a piece may end, best first. Each takes all white space after it, so that no piece but the
# first can begin with any; none looks at a character more than a few times.
_BOUNDARIES = (
    re.compile(r"\n\s*\n\s*"),  # paragraph
    re.compile(r"\n\s*"),  # line
    re.compile(  # sentence, perhaps with a closing quote or bracket
        "(?:(?<=[.!?])|(?<=[.!?][\"')\\]\u2019\u201d]))\\s+|(?<=[\u3002\uff01\uff1f])\\s*"
    ),
    re.compile(r"\s+"),  # word
)
_CHUNKS_PER_PART = 8  # a word too long for a part is cut this finely, so that parts fill up


def split_text(text: str, count_tokens: CountTokens, max_tokens: int) -> list[str]:
    """Parts of `text` of at most `max_tokens` tokens each, which joined are exactly `text`.

    White space stays with the part before it (at the very beginning: after it), so no part is
    white space alone unless `text` is. `count_tokens` is expected not to count the white space at
    either end of what it is given. One character with more than `max_tokens` is a part by itself.
    """
    pieces = _pieces(text, count_tokens, max_tokens)
    offsets = [0, *itertools.accumulate(len(piece) for piece, _ in pieces)]
    sums = [0, *itertools.accumulate(tokens for _, tokens in pieces)]
    parts, start = [], 0
    while start < len(pieces):
        end = _last_fitting(text, start, offsets, sums, count_tokens, max_tokens)
        parts.append(text[offsets[start] : offsets[end]])
        start = end
    return parts


def _pieces(
    text: str, count_tokens: CountTokens, max_tokens: int, level: int = 0
) -> list[tuple[str, int]]:
    """(piece, its tokens) in order: cut at boundary `level` or a worse one until each fits."""
    tokens = count_tokens(text)
    if tokens <= max_tokens:
        return [(text, tokens)]
    shorter = [text]
    while len(shorter) == 1 and level < len(_BOUNDARIES):
        shorter = _cut_after(text, _BOUNDARIES[level])
        level += 1
    if len(shorter) == 1:
        shorter = _cut_evenly(text, -(-_CHUNKS_PER_PART * tokens // max_tokens))
    if len(shorter) == 1:
        return [(text, tokens)]
    return [piece for part in shorter for piece in _pieces(part, count_tokens, max_tokens, level)]


def _cut_after(text: str, boundary: re.Pattern[str]) -> list[str]:
    pieces, start = [], 0
    for match in boundary.finditer(text):
        piece = text[start : match.end()]
        if piece and not piece.isspace():
            pieces.append(piece)
            start = match.end()
    return [*pieces, text[start:]] if start < len(text) else pieces


def _cut_evenly(word: str, num_chunks: int) -> list[str]:
    """`word` in up to `num_chunks` chunks of equal length; white space around it sticks to it."""
    first = len(word) - len(word.lstrip())
    length = len(word.strip())
    num_chunks = min(num_chunks, length)
    cuts = [first + length * number // num_chunks for number in range(1, num_chunks)]
    return [word[i:j] for i, j in itertools.pairwise([0, *cuts, len(word)])]


def _last_fitting(
    text: str,
    start: int,
    offsets: list[int],
    sums: list[int],
    count_tokens: CountTokens,
    max_tokens: int,
) -> int:
    """The end of the longest run of pieces from `start` on that fits as one part.

    The tokens of a run are near the sum over its pieces but not equal to it: the sum makes the
    first guess, each count of a run corrects the next, and every other guess halves what is left,
    so that a part is counted a few times only.
    """
    fits, fails = start + 1, len(offsets)
    budget = float(max_tokens)  # in sums over pieces
    for attempt in itertools.count():
        if fails - fits <= 1:
            return fits
        if attempt % 2 == 0:
            guess = bisect_right(sums, sums[start] + budget) - 1
        else:  # no further than twice the run that fits
            guess = (fits + min(fails, 2 * fits - start + 1)) // 2
        guess = min(max(guess, fits + 1), fails - 1)
        tokens = count_tokens(text[offsets[start] : offsets[guess]])
        if tokens <= max_tokens:
            fits = guess
        else:
            fails = guess
        budget = max_tokens * (sums[guess] - sums[start]) / max(tokens, 1)
    raise AssertionError("unreachable: every attempt narrows the range")
