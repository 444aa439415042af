"""Whether a fastText model file is whole, found without fastText.

fastText itself looks for the end of a word beyond the end of a file that was torn within its
dictionary, and fills all memory with what it finds there.

    magic, version            2 int32
    arguments                 12 int32, 1 double: the first is the dimension
    dictionary                3 int32 (entries, words, labels), 2 int64 (tokens, pruned entries),
                              each entry text, NUL, int64 count, byte type; 2 int32 per pruned one
    input matrix              byte: quantized?, then the matrix
    output matrix             the same
"""

import mmap
import struct
from pathlib import Path

from tools.base import InputError

_MAGIC = 793712314
_HEADER_BYTES = 2 * 4 + 12 * 4 + 8
_CENTROIDS_BYTES = 256 * 4  # for each dimension of a product quantizer


def check_header(path: Path) -> None:
    """Nothing, if `path` begins as a fastText model does.

    Raises:
        InputError: it does not, or cannot be read.
    """
    try:
        with path.open("rb") as file:
            beginning = file.read(4)
    except OSError as error:
        raise InputError(f"{path}: cannot read: {error.strerror or error}") from None
    if beginning != _MAGIC.to_bytes(4, "little"):
        raise InputError(f"{path}: no fastText model; expected a file as lid.176.ftz")


def check_whole(path: Path) -> None:
    """Nothing, if `path` holds all of a fastText model.

    Raises:
        InputError: it ends too early.
    """
    check_header(path)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            end, size = _end(data), len(data)
        except (struct.error, ValueError, IndexError):
            end, size = 1, 0
    if end > size:
        raise InputError(f"{path}: not a whole fastText model; get the file again")


def _end(data: mmap.mmap) -> int:
    """Where the model ends by what it says itself, which may be beyond the end of `data`."""
    num_entries, _, _, _, num_pruned = struct.unpack_from("<3i2q", data, _HEADER_BYTES)
    at = _HEADER_BYTES + struct.calcsize("<3i2q")
    for _ in range(num_entries):
        terminator = data.find(b"\0", at)
        if terminator < 0:
            raise ValueError("the dictionary has no end")
        at = terminator + 1 + struct.calcsize("<qb")
    at += 8 * max(num_pruned, 0)
    for _ in ("input", "output"):
        at = _matrix_end(data, at + 1, quantized=bool(data[at]))
    return at


def _matrix_end(data: mmap.mmap, at: int, *, quantized: bool) -> int:
    if not quantized:
        rows, columns = struct.unpack_from("<2q", data, at)
        return int(at + 16 + 4 * rows * columns)
    has_norms, rows, _, num_codes = struct.unpack_from("<?2qi", data, at)
    at = _quantizer_end(data, at + struct.calcsize("<?2qi") + num_codes)
    return _quantizer_end(data, at + rows) if has_norms else at


def _quantizer_end(data: mmap.mmap, at: int) -> int:
    (dimension,) = struct.unpack_from("<i", data, at)
    return int(at + 16 + dimension * _CENTROIDS_BYTES)
