"""Shares out the event loop among requests that keep it busy for milliseconds; for all others nothing is counted."""

import asyncio

from gateway.fair_queue import LOCK_RESTS, FairQueue
from gateway.queue_bounds import QueueBounds

BYTE_SECONDS = 5e-9  # that the loop takes for a byte of a large body, from receiving to sending it
BOUNDS = QueueBounds(places=2, each=2, waiting=100_000, spare=2)  # nobody is refused; a place is kept for a rest only


class LoopTurns:
    """A heavy workspace has one large body at a time, and waits between two of them; nobody else waits."""

    def __init__(self, cores: FairQueue) -> None:
        self._cores, self._queue = cores, FairQueue(BOUNDS)
        self._queue.follow(cores)
        self.precedence = cores.precedence

    async def take(self, workspace: str, size: int) -> None:
        """Return when the loop may work on a body of so many bytes, after others have had their turn."""
        self._cores.note_activity(workspace)
        await self._queue.acquire(workspace)
        seconds = size * BYTE_SECONDS
        self._queue.shares.charge(workspace, seconds)
        self._queue.release(workspace, self._queue.compute_rest(workspace, (1 + LOCK_RESTS) * seconds))
        await asyncio.sleep(0)
