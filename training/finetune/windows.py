"""Windows of a long document around its calls, as positions in its tokens.

A call is never parted from the token it stands before: that token is what it is there for. So
nothing is cut within a block: the calls that stand at one place, and the token after them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

Span = tuple[int, int]  # of tokens: the first, and the one after the last

_BEFORE = 4  # of a window's tokens one in so many stands before its first call, where there is text


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Tokens [start, end) of a document. Those before `trained_from` are context: an earlier
    window trains on them.
    """

    start: int
    end: int
    trained_from: int


def too_long(calls: Sequence[Span], limit: int) -> list[int]:
    """Which of `calls`, in their order and disjoint, have to go so that every block has at most
    `limit` tokens: of a longer block the longest calls, of equal ones the later.
    """
    gone: list[int] = []
    for block in _blocks(calls):
        longest_last = sorted(block, key=lambda j: (calls[j][1] - calls[j][0], j))
        length = calls[block[-1]][1] + 1 - calls[block[0]][0]
        while length > limit and longest_last:
            start, end = calls[longest_last[-1]]
            length -= end - start
            gone.append(longest_last.pop())
    return sorted(gone)


def windows(num_tokens: int, calls: Sequence[Span], limit: int) -> list[Window]:
    """Windows of at most `limit` tokens in which every call stands whole, in ascending order.

    `calls` are ascending, disjoint, followed by a token each, and none is `too_long`. A document
    that fits is one window. Else a window holds text before its first call, a quarter of `limit`
    if there is as much, and goes on behind its last call; text far from any call is in none. Each
    trains on at least one token of the text, as the one that a call stands before.
    """
    blocks = [(calls[block[0]][0], calls[block[-1]][1] + 1) for block in _blocks(calls)]
    found: list[Window] = []
    covered = 0
    for first, last in blocks:
        if last <= covered:
            continue
        start = max(first - limit // _BEFORE, last - limit, 0)
        # Where the document ends early there is room for more of the text that no window has yet.
        start = min(start, max(num_tokens - limit, covered))
        start = next((end for begin, end in blocks if begin < start < end), start)
        end = min(start + limit, num_tokens)
        end = next((begin for begin, behind in blocks if begin < end < behind), end)
        found.append(Window(start=start, end=end, trained_from=max(start, covered)))
        covered = end
    return found


def _blocks(calls: Sequence[Span]) -> Iterator[list[int]]:
    """The calls, by number, that stand at one place: each begins where the one before ends."""
    block: list[int] = []
    for j, (start, _) in enumerate(calls):
        if block and calls[block[-1]][1] != start:
            yield block
            block = []
        block.append(j)
    if block:
        yield block
