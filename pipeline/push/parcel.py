"""What is pushed: the files of a build, and texts about it."""

import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tools.base import InputError
from tools.places import Place, is_remote, list_files, open_to_read, store_errors, why

PUSH_MARK = "push.json"  # where it stands, what is there came by a push


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """Files by their names at the target. `still_whole` raises where the shards changed since."""

    shards: Mapping[str, Place]
    texts: Mapping[str, str]
    still_whole: Callable[[], None]

    @property
    def names(self) -> set[str]:
        return {*self.shards, *self.texts}

    def in_the_way(self, there: Iterable[str]) -> str | None:
        """The first of the files `there` that a push would replace or remove, if any."""
        return min((name for name in there if name in self.names or is_shard(name)), default=None)

    @contextmanager
    def shard(self, name: str) -> Iterator[Path]:
        """A shard as a file of this machine, for the duration of the body.

        Raises:
            InputError: it cannot be read.
        """
        source = self.shards[name]
        if not is_remote(source):
            if not source.is_file():
                raise InputError(f"{source}: is gone; push again")
            yield source
            return
        with tempfile.TemporaryDirectory(prefix="toolformer-") as directory:
            copy = Path(directory) / source.name
            try:
                with (
                    store_errors(source),
                    open_to_read(source, ahead=True) as content,
                    copy.open("wb") as local,
                ):
                    shutil.copyfileobj(content, local, 2**20)
            except OSError as error:
                raise InputError(f"{source}: cannot be read: {why(error)}") from None
            yield copy


def is_shard(name: str) -> bool:
    """Whether a file of a target is one of the kind we put there as a shard."""
    directory, _, file = name.rpartition("/")
    return directory in ("dataset", "dataset_plain") and (
        file.startswith("part-") and file.endswith(".parquet")
    )


def shards_in(directory: Place) -> list[Place]:
    """The shards of a built dataset, in order; what else lies there is not of it.

    Raises:
        OSError: the directory cannot be read.
    """
    names = (
        list(list_files(directory))
        if is_remote(directory)
        else sorted(path.name for path in directory.iterdir())
    )
    return [directory / name for name in names if is_shard(f"{directory.name}/{name}")]
