"""A server that does not answer is left alone, and probed in the background until it does."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from gateway.cancellation import end_task

log = logging.getLogger(__name__)


class ProbingBreaker:
    """Opens after several unanswered calls in a row; background probes close it, so that no caller waits for one."""

    def __init__(
        self, name: str, probe: Callable[[], Awaitable[bool]], *, probe_interval: float, threshold: int = 3
    ) -> None:
        self._name, self._probe = name, probe
        self._threshold, self._probe_interval = threshold, probe_interval
        self._misses = 0
        self._probing: asyncio.Task[None] | None = None

    @property
    def is_open(self) -> bool:
        """Whether calls are refused at once because they would not be answered."""
        # Open only while probing: should the probing task ever fail, calls find out by themselves again.
        return self._probing is not None and not self._probing.done()

    @property
    def has_misses(self) -> bool:
        """Whether the last call went unanswered."""
        return self._misses > 0

    def record_answer(self) -> None:
        self._misses = 0

    def record_miss(self) -> None:
        self._misses += 1
        if self._misses >= self._threshold and not self.is_open:
            log.warning("%s does not answer; it is not used until it does", self._name)
            self._probing = asyncio.get_running_loop().create_task(self._probe_until_answered())

    async def close(self) -> None:
        """Stop probing."""
        if self._probing is not None:
            await end_task(self._probing, f"the probe of {self._name}")

    async def _probe_until_answered(self) -> None:
        # A late answer to a call that began before the breaker opened ends this too.
        while self._misses >= self._threshold:
            await asyncio.sleep(self._probe_interval)
            if await self._probe():
                self.record_answer()
        log.warning("%s answers again", self._name)
