"""Which searches may start: a few at a time, the newest of the others next, until it is too late to start."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gateway.semantic.model.embedder import SearchTimeout

PLACES = 6  # searches at once: two are embedded, the others are ranked or on their way meanwhile
START_SHARE = 0.9  # of its time, within which a search has to start: one that cannot finish takes another's place


class Admission:
    """Places for searches.

    All at once, every search of a burst would wait for all the others and be late with them. The newest goes first:
    it has the most time left. In the order of arrival, whoever is served under load would be late just afterwards.
    """

    def __init__(self, places: int = PLACES) -> None:
        self._free = places
        self._waiting: list[asyncio.Future[None]] = []

    @asynccontextmanager
    async def admit(self, within: float) -> AsyncIterator[float]:
        """One search, with the seconds that are left for it; raises SearchTimeout when its time is over."""
        loop = asyncio.get_running_loop()
        until = loop.time() + within
        await self._wait_for_place(within * START_SHARE)
        try:
            async with asyncio.timeout_at(until):
                yield until - loop.time()
        except (SearchTimeout, TimeoutError) as late:
            raise SearchTimeout(f"The search took longer than {within * 1000:.0f} ms.") from late
        finally:
            self._release_place()

    async def _wait_for_place(self, within: float) -> None:
        """Return with a place taken."""
        if self._free:
            self._free -= 1
            return
        admitted = asyncio.get_running_loop().create_future()
        self._waiting.append(admitted)
        try:
            async with asyncio.timeout(within):
                await admitted
        except (TimeoutError, asyncio.CancelledError) as error:
            if admitted in self._waiting:
                self._waiting.remove(admitted)
            elif not admitted.cancelled():
                self._release_place()  # it was given a place at that very moment
            if isinstance(error, TimeoutError):
                raise SearchTimeout(f"No search has ended within {within * 1000:.0f} ms.") from None
            raise

    def _release_place(self) -> None:
        """Give the place to whoever came last."""
        while self._waiting:
            admitted = self._waiting.pop()
            if not admitted.done():
                admitted.set_result(None)
                return
        self._free += 1
