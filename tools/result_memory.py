"""The answers of a tool that were used last, in the memory of one process."""

from collections import OrderedDict

from tools.base import ToolRequest, ToolResult

_MAX_ENTRIES = 100_000
_MAX_BYTES = 64 * 2**20
_BYTES_PER_CHARACTER = 4  # at most
_BYTES_PER_ENTRY = 350  # the objects around the texts, measured


class ResultMemory:
    """At most `max_entries` answers of at most about `max_bytes`; the one unused longest goes."""

    def __init__(self, *, max_entries: int = _MAX_ENTRIES, max_bytes: int = _MAX_BYTES) -> None:
        self._max_entries, self._max_bytes = max_entries, max_bytes
        self._answers: OrderedDict[ToolRequest, ToolResult] = OrderedDict()
        self.num_bytes = 0

    def __len__(self) -> int:
        return len(self._answers)

    def get(self, request: ToolRequest) -> ToolResult | None:
        """The answer, if it is known."""
        answer = self._answers.get(request)
        if answer is not None:
            self._answers.move_to_end(request)
        return answer

    def put(self, request: ToolRequest, answer: ToolResult) -> None:
        """Remember an answer, and forget those for which there is no room any more."""
        before = self._answers.pop(request, None)
        if before is not None:
            self.num_bytes -= _size(request, before)
        self._answers[request] = answer
        self.num_bytes += _size(request, answer)
        while len(self._answers) > self._max_entries or self.num_bytes > self._max_bytes:
            self.num_bytes -= _size(*self._answers.popitem(last=False))


def _size(request: ToolRequest, answer: ToolResult) -> int:
    characters = len(request.input) + len(answer.result or "") + len(answer.error or "")
    return _BYTES_PER_ENTRY + _BYTES_PER_CHARACTER * characters
