"""How long a run still takes, at the rate of its recent past."""

from collections import deque
from itertools import pairwise

# What is recent: ten minutes, or more where fewer commits fall in them.
_RECENT_S = 600.0
_RECENT_COMMITS = 32


class TimeLeft:
    """Of `documents` that are not committed yet; times are seconds of one clock.

    The recent past begins at `begun_at`, when the work on the first of them began, and later at the
    last commit that is no longer in it. It does not begin at the first commit: replicas that began
    together commit together, and the time of their first units would be left out.
    """

    def __init__(self, documents: int, begun_at: float) -> None:
        self.documents = documents
        self._since = begun_at
        self._commits: deque[tuple[float, int]] = deque()
        self._recent = 0  # documents in these

    def committed(self, documents: int, now: float) -> None:
        """Counts in a unit that was committed at `now`."""
        self.documents -= documents
        self._recent += documents
        self._commits.append((now, documents))
        while len(self._commits) > _RECENT_COMMITS and now - self._commits[0][0] > _RECENT_S:
            self._since, forgotten = self._commits.popleft()
            self._recent -= forgotten

    def seconds(self, now: float) -> float | None:
        """None before the first commit.

        It grows from when nothing has been committed for longer than between any two commits of
        the recent past: replicas that commit together are silent between.
        """
        if not self.documents:
            return 0.0
        if not self._recent:
            return None
        last = self._commits[-1][0]
        took, silent = last - self._since, now - last
        if took <= 0:
            return None
        if silent * len(self._commits) > took:  # else it is not even the mean
            times = [self._since, *(at for at, _ in self._commits)]
            took += max(0.0, silent - max(after - at for at, after in pairwise(times)))
        return self.documents * took / self._recent
