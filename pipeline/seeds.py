"""Random numbers that depend on what is drawn for, never on who draws or in which order."""

import hashlib


def sample_seed(run_seed: int, doc_id: str, tool: str, position: int, sample: int) -> int:
    """A 64-bit seed for one sampled call."""
    key = "\x1f".join((str(run_seed), doc_id, tool, str(position), str(sample)))
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "little")
