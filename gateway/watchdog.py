"""Notices when the event loop stands still: every request of the process waits then."""

import asyncio
import contextlib
import logging
import sys
import threading
import traceback
from collections.abc import Iterator

log = logging.getLogger(__name__)

LIMIT_SECONDS = 0.25
INTERVAL_SECONDS = 0.25  # between two looks
MAX_FRAMES = 40


class LoopWatchdog:
    """A thread that asks the loop for a sign of life and logs what it is doing if none comes in time."""

    def __init__(self, *, limit: float = LIMIT_SECONDS, interval: float = INTERVAL_SECONDS) -> None:
        self.stalls = 0
        self._limit, self._interval = limit, interval
        self._stopped = threading.Event()

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Watch the running loop until the block ends; called on the loop."""
        loop, owner = asyncio.get_running_loop(), threading.get_ident()
        thread = threading.Thread(target=self._watch, args=(loop, owner), name="loop-watchdog", daemon=True)
        self._stopped.clear()
        thread.start()
        try:
            yield
        finally:
            self._stopped.set()  # the thread is not joined: it may be waiting for this very loop

    def _watch(self, loop: asyncio.AbstractEventLoop, owner: int) -> None:
        while not self._stopped.wait(self._interval):
            sign = threading.Event()
            try:
                loop.call_soon_threadsafe(sign.set)
            except RuntimeError:  # the loop is closed
                return
            if not sign.wait(self._limit) and not self._stopped.is_set():
                self._report(owner)
                while not sign.wait(self._interval) and not self._stopped.is_set():
                    pass

    def _report(self, owner: int) -> None:
        self.stalls += 1
        frame = sys._current_frames().get(owner)
        stack = "".join(traceback.format_stack(frame)[-MAX_FRAMES:]) if frame is not None else "(no stack)"
        log.warning("the event loop has stood still for more than %d ms:\n%s", self._limit * 1000, stack)
