"""Questions come first: whoever uses much more than others starts nothing while one of theirs is being answered."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE = 0.1  # seconds that heavy work waits at most; afterwards it goes on for as long as it has waited


class Precedence:
    """Which questions are being answered, and how long heavy work has waited for them: at most half of the time."""

    def __init__(self, is_heavy: Callable[[str], bool], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._is_heavy = is_heavy
        self._clock = clock
        self.current = 0  # questions that are being answered
        self._waiting: set[asyncio.Future[None]] = set()
        self._waited: dict[str, float] = {}  # until when workspaces that have waited need not do so again

    @contextmanager
    def answering(self, workspace: str) -> Iterator[None]:
        """The time that a workspace's question takes; a heavy one's delays nobody."""
        if self._is_heavy(workspace):
            yield
            return
        self.current += 1
        try:
            yield
        finally:
            self.current -= 1
            if not self.current:
                for place in self._waiting:
                    if not place.done():
                        place.set_result(None)

    def has_to_wait(self, workspace: str) -> bool:
        """Whether work of a workspace should not start now."""
        if not self.current or not self._is_heavy(workspace):
            return False
        return self._waited.get(workspace, 0.0) <= self._clock()

    async def let_pass(self, workspace: str) -> None:
        """Return when work of a workspace may start: at once, unless it is heavy."""
        if not self.has_to_wait(workspace):
            return
        began, place = self._clock(), asyncio.get_running_loop().create_future()
        self._waiting.add(place)
        try:
            await asyncio.wait([place], timeout=PATIENCE)
        finally:
            self._waiting.discard(place)
        now = self._clock()
        self._waited = {name: until for name, until in self._waited.items() if until > now}
        self._waited[workspace] = 2 * now - began
