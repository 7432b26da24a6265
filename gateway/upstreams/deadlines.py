"""Deadlines of many waits at the price of one timer."""

import asyncio
from asyncio import AbstractEventLoop, TimerHandle
from typing import Protocol


class Waiter(Protocol):
    """Something that may take only so long."""

    def expire(self) -> None:
        """End it: its time is up."""
        ...


class Deadlines:
    """Expires what was started and not stopped within `seconds`, with one timer for all.

    Equal deadlines expire in the order in which they were started, so one timer for the oldest is enough. A timer for
    each request would take a twelfth of the CPU of a busy gateway.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._started: dict[Waiter, float] = {}  # the oldest first
        self._loop: AbstractEventLoop | None = None  # to ask for it is a system call in Python 3.11
        self._timer: TimerHandle | None = None

    def start(self, waiter: Waiter) -> None:
        """Start the clock for a wait, or restart it."""
        loop = self._loop
        if loop is None:
            loop = self._loop = asyncio.get_running_loop()
        self._started.pop(waiter, None)
        self._started[waiter] = loop.time()
        if self._timer is None:
            self._timer = loop.call_later(self.seconds, self._expire)

    def stop(self, waiter: Waiter) -> None:
        """Stop the clock: the wait has ended."""
        self._started.pop(waiter, None)

    def close(self) -> None:
        """Drop all waits and the timer."""
        self._loop = None
        self._started.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer, now = None, loop.time()
        while self._started:
            waiter, started = next(iter(self._started.items()))
            remaining = started + self.seconds - now
            if remaining > 0:
                self._timer = loop.call_later(remaining, self._expire)
                return
            del self._started[waiter]
            waiter.expire()
