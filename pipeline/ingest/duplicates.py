"""doc_ids seen so far: the same doc_id is never kept twice, the first one stays."""

import hashlib


class SeenIds:
    """128-bit hashes of doc_ids, each with the number of the file it came from.

    Memory grows by about 130 bytes a document: 10 million documents are 1.3 GB.
    """

    def __init__(self) -> None:
        self._owners: dict[bytes, int] = {}
        self._claimed_by_file: list[bytes] = []
        self._file = -1

    def begin_file(self, number: int) -> None:
        self._file, self._claimed_by_file = number, []

    def claim(self, doc_id: str) -> int | None:
        """None if the doc_id is new, else the number of the file that has it."""
        key = hashlib.blake2b(doc_id.encode(), digest_size=16).digest()
        owner = self._owners.get(key)
        if owner is None:
            self._owners[key] = self._file
            self._claimed_by_file.append(key)
        return owner

    def forget_file(self) -> None:
        """Give back what the current file claimed: none of it is kept."""
        for key in self._claimed_by_file:
            del self._owners[key]
        self._claimed_by_file = []
