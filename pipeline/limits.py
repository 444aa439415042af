"""When so much fails that a run had better stop: the shares of a configuration, counted live."""

from collections import Counter

from pipeline.failures import FAILURES
from pipeline.rundir import DoneMark
from tools.base import ToolformerError
from tools.usage import ToolUsage, total_usage

# Documents (parts of long ones count) or calls: a share of fewer is taken as of so many.
_AT_LEAST = 100


class TooManyFailures(ToolformerError):
    """More documents or calls failed than the configuration allows."""


class FailureLimits:
    """Counts the units a command commits. What was finished before it began does not count.

    Attributes:
        tools: what the units used of each tool, added up.
    """

    def __init__(self, *, max_failed_documents: float, max_failed_calls: float) -> None:
        self._max_failed_documents = max_failed_documents
        self._max_failed_calls = max_failed_calls
        self._rows = 0
        self._failed: Counter[str] = Counter()
        self.tools: dict[str, ToolUsage] = {}

    def count(self, mark: DoneMark) -> None:
        """Count one more unit.

        Raises:
            TooManyFailures: now a share is larger than it may be.
        """
        self._rows += mark.rows
        for reason in FAILURES & mark.dropped.keys():
            self._failed[reason] += mark.dropped[reason]
        self.tools = total_usage([self.tools, mark.tools])
        failed = self._failed.total()
        if failed > self._max_failed_documents * max(self._rows, _AT_LEAST):
            reasons = ", ".join(f"{reason} {n}" for reason, n in sorted(self._failed.items()))
            raise TooManyFailures(
                f"{failed} of {self._rows} documents failed ({reasons}), more than "
                f"max_failed_documents {self._max_failed_documents:g} allows"
            )
        for name, usage in self.tools.items():
            if usage.failures > self._max_failed_calls * max(usage.requests, _AT_LEAST):
                raise TooManyFailures(
                    f"tool {name}: {usage.failures} of {usage.requests} calls failed, more than "
                    f"max_failed_calls {self._max_failed_calls:g} allows"
                )
