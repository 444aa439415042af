"""How often work was begun and never ended: what a process dies of is told by others.

Kept outside the processes that do the work. Whoever begins says so and hears how many others
began the same before and did not end it; a process that dies says nothing more.
"""

from collections import OrderedDict
from collections.abc import Iterable

Work = tuple[str, ...]

# Of work that was never ended; more than any cluster has at work at once.
_KEPT = 100_000


class Attempts:
    """Counts the beginnings of work that has no end yet, by its name."""

    def __init__(self) -> None:
        self._begun: OrderedDict[Work, set[str]] = OrderedDict()

    def begin(self, works: Iterable[Work], life: str) -> list[int]:
        """How many processes but `life` began each, and did not end it.

        Said twice by one process it counts once: Ray repeats calls whose answer got lost.
        """
        before = []
        for work in works:
            lives = self._begun[work] = self._begun.pop(work, set())
            before.append(len(lives - {life}))
            lives.add(life)
        while len(self._begun) > _KEPT:
            self._begun.popitem(last=False)
        return before

    def end(self, works: Iterable[Work]) -> None:
        """Forget these: they were done, or failed in a way that the process survived."""
        for work in works:
            self._begun.pop(work, None)


class UnitsInFlight:
    """The units that were read and are not committed yet: told from the work of these stages."""

    def __init__(self) -> None:
        self._units: set[str] = set()

    def __len__(self) -> int:
        return len(self._units)

    def begin(self, works: Iterable[Work]) -> None:
        """A unit that is read again, as a process died, is the same unit."""
        self._units.update(work[1] for work in works if work[0] == "read")

    def end(self, works: Iterable[Work]) -> None:
        self._units.difference_update(work[-1] for work in works if work[0] == "commit")

    def clear(self) -> None:
        self._units.clear()
