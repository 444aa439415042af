"""The directory of one measured run, which each soak begins anew."""

import shutil
from collections.abc import Iterable
from pathlib import Path

from pipeline.rundir import RunDir
from pipeline.soak.configuration import run_below
from tools.base import InputError, OutputError
from tools.places import why

MARK = "made-by-soak"


def emptied(directory: Path) -> Path:
    """`directory`, there, and empty but for the mark that a soak made it.

    What an earlier soak left there is removed: units that are found finished would be measured
    as if they were new, and documents may be of another number, or cut short.

    Raises:
        InputError: a run that an earlier soak started is still being written there.
        OutputError: it holds what no soak wrote, or it cannot be written.
    """
    mark = directory / MARK
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if not mark.exists() and any(directory.iterdir()):
            raise OutputError(
                f"{directory}: was not made by a soak, which would empty it; move it away or "
                "choose another --out"
            )
        # It comes first and stays: whenever a soak is killed, the next one knows what is its own.
        mark.touch()
        with RunDir(run_below(directory)).lock():
            _remove(path for path in directory.iterdir() if path != mark)
    except InputError:
        raise InputError(
            f"{directory}: a run that an earlier soak started is still written there; wait for "
            "its end or choose another --out"
        ) from None
    except OSError as error:
        raise OutputError(f"{directory}: cannot be emptied: {why(error)}") from None
    return directory


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
