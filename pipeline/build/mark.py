"""What a build writes last: while it is there, both datasets are whole and of one build."""

from pydantic import TypeAdapter, ValidationError

from pipeline.build.dataset import BUILD_MARK
from pipeline.build.summary import BuildSummary
from pipeline.rundir import RunDir
from tools.base import InputError
from tools.places import read_if_there, why


def build_mark_if_there(run: RunDir) -> bytes | None:
    """The content of build.json; None where the run is not built.

    Raises:
        InputError: it cannot be read.
    """
    path = run.path / BUILD_MARK
    try:
        return read_if_there(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {why(error)}") from None


def read_build_mark(run: RunDir) -> bytes:
    """The content of build.json.

    Raises:
        InputError: there is no run, or it is not built, or the file cannot be read.
    """
    run.record()  # says so where there is no run at all
    content = build_mark_if_there(run)
    if content is None:
        raise InputError(
            f"{run.path}: not built yet (no {BUILD_MARK}); run "
            f"`python -m pipeline build {run.path}` first"
        )
    return content


def built_summary(run: RunDir, mark: bytes) -> BuildSummary:
    """What `mark`, the content of build.json, says of the build.

    Raises:
        InputError: another version wrote it.
    """
    try:
        return TypeAdapter(BuildSummary).validate_json(mark)
    except ValidationError:
        raise InputError(
            f"{run.path / BUILD_MARK}: not written by this version; build again"
        ) from None
