"""Questions come first: whoever uses much more than others starts nothing while one of theirs is being answered."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE = 0.1  # seconds that heavy work waits at most
GOES_ON = 0.25  # times as long as it has waited, it need not wait again


class Precedence:
    """Which questions are being answered, and how long heavy work has waited: at most four fifths of the time."""

    def __init__(self, is_heavy: Callable[[str], bool], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._is_heavy = is_heavy
        self._clock = clock
        self.current = 0  # questions that are being answered
        self._waiting: dict[asyncio.Future[None], None] = {}  # in the order of arrival
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
            self._wake_next()

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
        self._waiting[place] = None
        try:
            await asyncio.wait([place], timeout=PATIENCE)
        finally:
            self._waiting.pop(place, None)
        now = self._clock()
        self._waited = {name: until for name, until in self._waited.items() if until > now}
        self._waited[workspace] = now + GOES_ON * (now - began)

    def _wake_next(self) -> None:
        """Let the first of those who wait go on, and the next in the loop's next turn.

        All at once, they would keep the loop busy for as many milliseconds as they are, and the next question waiting.
        """
        if self._waiting and not self.current:
            place = next(iter(self._waiting))
            del self._waiting[place]
            if not place.done():
                place.set_result(None)
            asyncio.get_running_loop().call_soon(self._wake_next)
