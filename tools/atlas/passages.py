"""The passages of an index: an Arrow file in a memory map, read by row."""

from pathlib import Path

import pyarrow as pa

from tools.atlas.saved import META, PASSAGE_SCHEMA, PASSAGES, IndexMeta, read_json
from tools.base import InputError


class Passages:
    """(title, text) by row. Thirty million passages stay on disk; a row costs microseconds.

    Raises:
        InputError: the files are torn or of different indexes.
    """

    def __init__(self, directory: Path) -> None:
        path = directory / PASSAGES
        self.meta: IndexMeta = read_json(directory / META, IndexMeta)
        try:
            self._reader = pa.ipc.open_file(pa.memory_map(str(path)))
        except (OSError, pa.ArrowException) as error:
            raise InputError(f"{path}: cannot read: {str(error).partition(chr(10))[0]}") from None
        num_batches = -(-self.meta.num_passages // self.meta.rows_per_batch)
        if (self._reader.schema, self._reader.num_record_batches) != (PASSAGE_SCHEMA, num_batches):
            raise InputError(f"{path}: not the passages that {META} beside it tells of")

    def get(self, row: int) -> tuple[str, str]:
        batch = self._reader.get_batch(row // self.meta.rows_per_batch)
        title, text = (column[row % self.meta.rows_per_batch].as_py() for column in batch.columns)
        return title, text
