"""How often work was begun and never ended: what a process dies of is told by others.

Kept outside the processes that do the work. Whoever begins says so and hears how often the same
was begun before without an end; a process that dies says nothing more.
"""

from collections import OrderedDict
from collections.abc import Iterable

Work = tuple[str, ...]

# Of work that was never ended; more than any cluster has at work at once.
_KEPT = 100_000


class Attempts:
    """Counts the beginnings of work that has no end yet, by its name."""

    def __init__(self) -> None:
        self._begun: OrderedDict[Work, int] = OrderedDict()

    def begin(self, works: Iterable[Work]) -> list[int]:
        """How often each was begun before, and not ended."""
        before = []
        for work in works:
            times = self._begun.pop(work, 0)
            self._begun[work] = times + 1
            before.append(times)
        while len(self._begun) > _KEPT:
            self._begun.popitem(last=False)
        return before

    def end(self, works: Iterable[Work]) -> None:
        """Forget these: they were done, or failed in a way that the process survived."""
        for work in works:
            self._begun.pop(work, None)
