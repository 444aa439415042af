"""The errors by which Ray says that a process is gone, or that nobody can reach it."""

from ray.exceptions import (
    NodeDiedError,
    ObjectLostError,
    OutOfMemoryError,
    RayActorError,
    WorkerCrashedError,
)

# A process that Ray's memory monitor ends, or that goes with its node, is no RayActorError. One
# that dies and one behind a broken link are the same ActorUnavailableError, which is one.
GONE = (RayActorError, OutOfMemoryError, NodeDiedError, WorkerCrashedError, ObjectLostError)


class ReplicaLost(Exception):
    """The replica that was at work on a request is gone, or cannot be reached.

    `life` names the process that was asked, of those that Ray starts one after the other; empty
    where it never answered, and so was at work on nothing.
    """

    def __init__(self, pool: str, number: int, life: str) -> None:
        super().__init__(pool, number, life)  # so that it survives pickling
        self.pool, self.number, self.life = pool, number, life


class EngineDied(Exception):
    """What an engine works with is dead and cannot be asked again: its process has to end."""
