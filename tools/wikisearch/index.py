"""What an index of passages is, whatever engine searches it (paper section 3, Wikipedia Search)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tools.wikisearch.passages import Passage

K1 = 0.9
B = 0.4
MAX_QUERY_TERMS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A passage found; `passage_id` counts passages from 0 in the order they were indexed."""

    passage_id: int
    score: float
    passage: Passage


class PassageIndex(Protocol):
    """Passages that are found by the terms they share with a query, scored by BM25.

    `content_hash` is the hash of all passages in their order (`ContentHash`); it is the same for
    both engines.
    """

    content_hash: str

    def search(self, query: str, k: int) -> list[Hit]:
        """At most `k` passages that share a term with `query`, best first.

        Equal scores stand in the order of passage_id. Any text is a query: operators are words or
        nothing, and terms after the 64th are ignored. There is no query that raises.
        """
        ...

    def search_batch(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """What `search` finds for each query, in order; it does not depend on the others."""
        ...
