"""How an error leaves a stage: whole, whatever Ray Data adds to it on the way."""

from collections.abc import Iterator
from contextlib import contextmanager

from ray.exceptions import RayTaskError


class StageFailure(Exception):
    """Carries the error of a stage as its first argument.

    Ray Data appends advice on retries to the text of the exceptions it passes on, and what wraps
    them loses its cause between processes. Arguments survive both.
    """


@contextmanager
def carried() -> Iterator[None]:
    """Let an error of the body leave as a StageFailure.

    Raises:
        StageFailure: what the body, or an actor it asked, raised.
    """
    try:
        yield
    except Exception as error:
        original = error.cause if isinstance(error, RayTaskError) else error
        raise StageFailure(original) from error
