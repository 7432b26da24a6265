"""How many searches may be under way at once: as many as come in time, learned from those that did and did not."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from gateway.semantic.base import Late

LEAST, MOST = 2, 64
LESS = 0.75  # what is left of the number after a search was late
PAUSE = 0.1  # seconds until lateness counts again: what was late together was late for one reason


class Admission:
    """Places for searches; who finds none is late at once.

    Without it every search of a burst would be late: each would wait for all the others and then be thrown away.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._running = 0
        self._lessened_at = -PAUSE
        self.limit = float(MOST)

    @asynccontextmanager
    async def place(self, within: float) -> AsyncIterator[None]:
        """One search, which raises Late after so many seconds, or at once when there are too many."""
        if self._running >= int(self.limit):
            raise Late(f"{self._running} searches are under way.")
        self._running += 1
        try:
            async with asyncio.timeout(within):
                yield
        except (Late, TimeoutError) as late:
            self._lessen()
            raise Late(f"The search took longer than {within * 1000:.0f} ms.") from late
        else:
            self.limit = min(MOST, self.limit + 1 / self.limit)
        finally:
            self._running -= 1

    def _lessen(self) -> None:
        now = self._clock()
        if now - self._lessened_at >= PAUSE:
            self._lessened_at = now
            # From where it failed: the limit may be far above what was ever tried.
            self.limit = max(LEAST, min(self.limit, self._running) * LESS)
