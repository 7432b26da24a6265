"""Equal deadlines for many waits at the price of one timer."""

import asyncio
from asyncio import TimerHandle
from typing import Protocol

from aiohttp import SocketTimeoutError


class Waiting(Protocol):
    """Whatever somebody waits for; an exception that is set ends the wait."""

    def set_exception(self, exc: BaseException) -> None:
        """Fail the wait."""
        ...


class Deadlines:
    """Ends waits with SocketTimeoutError after `seconds`.

    Equal deadlines end in the order in which they began, so one timer for the oldest is enough. A timer for each
    request would take a twelfth of the CPU of a busy gateway.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._began: dict[Waiting, float] = {}  # the oldest first
        self._timer: TimerHandle | None = None

    def start(self, waiting: Waiting) -> None:
        """Begin a wait; one that is under way begins anew."""
        loop = asyncio.get_running_loop()
        self._began.pop(waiting, None)
        self._began[waiting] = loop.time()
        if self._timer is None:
            self._timer = loop.call_later(self.seconds, self._expire)

    def stop(self, waiting: Waiting) -> None:
        """End a wait that was fulfilled or given up."""
        self._began.pop(waiting, None)

    def close(self) -> None:
        """Forget everything."""
        self._began.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer, now = None, loop.time()
        while self._began:
            waiting, began = next(iter(self._began.items()))
            left = began + self.seconds - now
            if left > 0:
                self._timer = loop.call_later(left, self._expire)
                return
            del self._began[waiting]
            waiting.set_exception(SocketTimeoutError())
