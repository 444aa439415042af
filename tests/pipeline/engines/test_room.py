"""Who gets in when there is room for some."""

import asyncio

from pipeline.engines.room import Room


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


class Visitors:
    """Each takes so many tokens until it is told to leave."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self.inside: list[str] = []
        self._leave: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def come(self, name: str, tokens: int) -> None:
        self._leave[name] = asyncio.Event()
        self.tasks[name] = asyncio.create_task(self._visit(name, tokens))
        await settled()

    async def leave(self, name: str) -> None:
        self._leave[name].set()
        await settled()

    async def _visit(self, name: str, tokens: int) -> None:
        async with self._room.taken(tokens):
            self.inside.append(name)
            await self._leave[name].wait()
            self.inside.remove(name)


def test_who_comes_first_gets_in_first() -> None:
    async def visits() -> None:
        visitors = Visitors(Room(10))
        await visitors.come("a", 6)
        await visitors.come("b", 4)
        await visitors.come("large", 9)
        await visitors.come("small", 1)
        assert visitors.inside == ["a", "b"]
        await visitors.leave("b")
        assert visitors.inside == ["a"]  # there is room for the small one, which came later
        await visitors.leave("a")
        assert visitors.inside == ["large", "small"]
        await visitors.leave("large")
        await visitors.leave("small")

    asyncio.run(visits())


def test_more_than_there_is_room_for_goes_alone() -> None:
    async def visits() -> None:
        visitors = Visitors(Room(10))
        await visitors.come("a", 1)
        await visitors.come("huge", 99)
        assert visitors.inside == ["a"]
        await visitors.leave("a")
        await visitors.come("b", 1)
        assert visitors.inside == ["huge"]
        await visitors.leave("huge")
        assert visitors.inside == ["b"]
        await visitors.leave("b")

    asyncio.run(visits())


def test_who_gives_up_holds_up_nobody() -> None:
    async def visits() -> None:
        visitors = Visitors(Room(10))
        for name, tokens in (("a", 6), ("b", 8), ("c", 8), ("d", 4)):
            await visitors.come(name, tokens)
        visitors.tasks["b"].cancel()  # it waits for room
        visitors.tasks["c"].cancel()  # it waits for its turn
        await settled()
        assert visitors.inside == ["a", "d"]
        visitors.tasks["a"].cancel()
        await settled()
        visitors.inside.remove("a")
        await visitors.come("e", 6)
        assert visitors.inside == ["d", "e"]
        await visitors.leave("d")
        await visitors.leave("e")

    asyncio.run(visits())
