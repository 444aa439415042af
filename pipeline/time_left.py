"""How long a run still takes, at the rate of its recent past."""

from collections import deque

# What is recent: ten minutes, or more where fewer commits fall in them.
_RECENT_S = 600.0
_RECENT_COMMITS = 32


class TimeLeft:
    """Of `documents` that are not committed yet; times are seconds of one clock."""

    def __init__(self, documents: int) -> None:
        self.documents = documents
        self._commits: deque[tuple[float, int]] = deque()
        self._since_first = 0  # documents committed after the first of these

    def committed(self, documents: int, now: float) -> None:
        """Counts in a unit that was committed at `now`."""
        self.documents -= documents
        if self._commits:
            self._since_first += documents
        self._commits.append((now, documents))
        while len(self._commits) > _RECENT_COMMITS and now - self._commits[0][0] > _RECENT_S:
            self._commits.popleft()
            self._since_first -= self._commits[0][1]

    def seconds(self) -> float | None:
        """None before the second commit: the first does not say when its unit was begun."""
        if not self.documents:
            return 0.0
        if not self._since_first:
            return None
        took = self._commits[-1][0] - self._commits[0][0]
        return self.documents * took / self._since_first if took > 0 else None
