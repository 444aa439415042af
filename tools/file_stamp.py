"""What identifies the files a tool loads, without reading gigabytes."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from tools.base import InputError

_WHOLE_BYTES = 32 << 20
_SAMPLE_BYTES = 256 << 10
_NUM_SAMPLES = 64  # 16 MiB of a large file are read: about 10 ms from a page cache


def file_stamp(path: Path) -> str:
    """A hash of the content of `path` in 32 hexadecimal digits, cheap for a file of any size.

    A file of up to 32 MiB enters whole; of a larger one its size, head, tail and 62 blocks spread
    evenly between them, which a change of all weights cannot miss. Names and times do not enter,
    so that files can be copied and moved.

    Raises:
        InputError: the file cannot be read.
    """
    digest = hashlib.blake2b(digest_size=16)
    try:
        size = path.stat().st_size
        digest.update(f"{size}\0".encode())
        with path.open("rb") as stream:
            for offset, length in _sampled_ranges(size):
                stream.seek(offset)
                digest.update(stream.read(length))
    except OSError as error:
        raise InputError(f"{path}: cannot read: {error.strerror or error}") from None
    return digest.hexdigest()


def files_stamp(directory: Path, names: Iterable[str]) -> str:
    """One hash for the files `names` of `directory`: of their names and stamps, in any order.

    Raises:
        InputError: one of them cannot be read.
    """
    parts = [f"{name}\0{file_stamp(directory / name)}" for name in sorted(set(names))]
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()


def _sampled_ranges(size: int) -> list[tuple[int, int]]:
    """(offset, length) of the parts of a file of `size` bytes that enter its stamp."""
    if size <= _WHOLE_BYTES:
        return [(0, size)]
    last = size - _SAMPLE_BYTES
    return [(index * last // (_NUM_SAMPLES - 1), _SAMPLE_BYTES) for index in range(_NUM_SAMPLES)]
