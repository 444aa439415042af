"""Which of the processes that Ray starts for one actor, one after the other, runs."""

import asyncio
import uuid
from typing import Any

from ray.core.generated.gcs_pb2 import ActorTableData  # type: ignore[attr-defined]

from pipeline.engines.gone import GONE

# Names this process among those that are started for the same actor.
LIFE = uuid.uuid4().hex

READY_S = 30.0  # a replica says at once whether it is there
# What Ray says of an actor of which no process runs.
ENDED = (ActorTableData.RESTARTING, ActorTableData.DEAD)


async def running(replica: Any) -> str | None:
    """The process of a replica that runs; None where it may run and is out of reach.

    Empty where none runs that was ever at work: a process that has not loaded has no name yet.
    """
    try:
        async with asyncio.timeout(READY_S):
            life: str | None = await replica.ready.remote()
    except (TimeoutError, *GONE):
        # What Ray knows in this process of an actor that it asked, from the last notice of it.
        return "" if replica._get_local_state() in ENDED else None
    return life or ""
