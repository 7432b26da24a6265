"""Which searches may begin: a few at a time, the newest of the others next, until it is too late to begin."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gateway.semantic.model.embedder import SearchTimeout

PLACES = 6  # searches at once: two are embedded, the others are ranked, placed or on their way meanwhile
BEGIN = 0.9  # share of its time within which a search has to begin: one that cannot finish costs another its place


class Admission:
    """Places for searches.

    All at once, every search of a burst would wait for all the others and be late with them. The newest goes first:
    it has the most time left. In the order of arrival, whoever is served under load would be late just afterwards.
    """

    def __init__(self, places: int = PLACES) -> None:
        self._free = places
        self._waiting: list[asyncio.Future[None]] = []

    @asynccontextmanager
    async def place(self, within: float) -> AsyncIterator[float]:
        """One search, with the seconds that are left for it; raises Late when its time is over."""
        loop = asyncio.get_running_loop()
        until = loop.time() + within
        await self._turn(within * BEGIN)
        try:
            async with asyncio.timeout_at(until):
                yield until - loop.time()
        except (SearchTimeout, TimeoutError) as late:
            raise SearchTimeout(f"The search took longer than {within * 1000:.0f} ms.") from late
        finally:
            self._leave()

    async def _turn(self, within: float) -> None:
        """Return with a place taken."""
        if self._free:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            async with asyncio.timeout(within):
                await turn
        except (TimeoutError, asyncio.CancelledError) as error:
            if turn in self._waiting:
                self._waiting.remove(turn)
            elif not turn.cancelled():
                self._leave()  # it was given a place at the very moment
            if isinstance(error, TimeoutError):
                raise SearchTimeout(f"No search has ended within {within * 1000:.0f} ms.") from None
            raise

    def _leave(self) -> None:
        """Give the place to whoever came last."""
        while self._waiting:
            turn = self._waiting.pop()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
