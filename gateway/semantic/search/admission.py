"""Which searches may start: a few at a time, workspaces in turn, the newest first, until it is too late to start."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gateway.errors import WorkspaceBusy
from gateway.fair_queue import FairQueue
from gateway.queue_bounds import QueueBounds
from gateway.semantic.model.embedder import SearchTimeout

# Six searches of a workspace at once: two are embedded, the others are ranked or on their way meanwhile. Two more
# places are there for other workspaces.
BOUNDS = QueueBounds(places=8, each=6, waiting=256, newest_first=True)
START_SHARE = 0.9  # of its time, within which a search has to start: one that cannot finish takes another's place


class Admission:
    """Places for searches.

    All at once, every search of a burst would wait for all the others and be late with them. The newest goes first:
    it has the most time left. In the order of arrival, whoever is served under load would be late just afterwards.
    """

    def __init__(self, bounds: QueueBounds = BOUNDS) -> None:
        self.queue = FairQueue(bounds)

    @asynccontextmanager
    async def admit(self, workspace: str, within: float) -> AsyncIterator[float]:
        """One search, with the seconds that are left for it; raises SearchTimeout when its time is over."""
        loop = asyncio.get_running_loop()
        until = loop.time() + within
        await self._wait_for_place(workspace, within * START_SHARE)
        try:
            async with asyncio.timeout_at(until):
                yield until - loop.time()
        except (SearchTimeout, TimeoutError) as late:
            raise SearchTimeout(f"The search took longer than {within * 1000:.0f} ms.") from late
        finally:
            self.queue.release(workspace)

    async def _wait_for_place(self, workspace: str, within: float) -> None:
        """Return with a place taken."""
        try:
            async with asyncio.timeout(within):
                await self.queue.acquire(workspace)
        except TimeoutError:
            raise SearchTimeout(f"No search has ended within {within * 1000:.0f} ms.") from None
        except WorkspaceBusy as busy:
            raise SearchTimeout(str(busy)) from None
