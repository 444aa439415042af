"""At most max_examples documents for each tool (Appendix B: up to 25k examples per API)."""

import hashlib
import heapq
from collections.abc import Mapping


def rank(seed: int, tool: str, doc_id: str) -> int:
    """The place of a document in the lottery of a tool: the lowest ranks win."""
    key = f"{seed}|{tool}|{doc_id}".encode()
    return int.from_bytes(hashlib.blake2b(key, digest_size=16).digest(), "big")


class ExampleCap:
    """Chooses the documents of each tool: first `offer` all examples, then ask `admits`.

    The choice depends on the documents alone, not on their order. Memory is bounded by
    max_examples ranks for each tool.
    """

    def __init__(self, seed: int, max_examples: Mapping[str, int]) -> None:
        self._seed = seed
        self._max_examples = dict(max_examples)
        self._worst_first: dict[str, list[int]] = {tool: [] for tool in max_examples}

    def offer(self, tool: str, doc_id: str) -> None:
        """Counts in a document with at least one kept call of `tool`."""
        heap = self._worst_first[tool]
        negative = -rank(self._seed, tool, doc_id)
        if len(heap) < self._max_examples[tool]:
            heapq.heappush(heap, negative)
        elif negative > heap[0]:
            heapq.heapreplace(heap, negative)

    def admits(self, tool: str, doc_id: str) -> bool:
        """Whether an offered document is among those chosen for `tool`."""
        return -rank(self._seed, tool, doc_id) >= self._worst_first[tool][0]
