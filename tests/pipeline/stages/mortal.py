"""Processes of a stage that end in the middle of their work, without a process or Ray."""

import asyncio
from collections.abc import Sequence
from typing import Any

from pipeline.attempts import Attempts, Work


class Died(BaseException):
    """The end of the process: nothing of it runs on."""


class Mortal:
    """A process, and the dispatcher as it sees it: of the dead, nothing is heard."""

    def __init__(self, attempts: Attempts) -> None:
        self.begin, self.end = _Method(self, attempts.begin), _Method(self, attempts.end)
        self.life, self.dead = str(id(self)), False

    def die(self) -> None:
        self.dead = True
        raise Died


class _Method:
    def __init__(self, process: Mortal, method: Any) -> None:
        self._process, self._method = process, method

    def remote(self, works: Sequence[Work], *life: str) -> "asyncio.Future[Any]":
        answer = asyncio.get_running_loop().create_future()
        if not self._process.dead:
            answer.set_result(self._method(works, *life))
        return answer
