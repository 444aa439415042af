"""How long a run still takes, at the rate of its recent past."""

from collections import deque

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

    def seconds(self) -> float | None:
        """None before the first commit."""
        if not self.documents:
            return 0.0
        if not self._recent:
            return None
        took = self._commits[-1][0] - self._since
        return self.documents * took / self._recent if took > 0 else None
