"""A server that stays silent is left alone, and asked in the background whether it is back."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

log = logging.getLogger(__name__)


class ProbingBreaker:
    """Opens after several unanswered calls in a row; a probe of its own closes it, so that no caller waits for one."""

    def __init__(self, name: str, probe: Callable[[], Awaitable[bool]], *, pause: float, threshold: int = 3) -> None:
        self._name, self._probe = name, probe
        self._threshold, self._pause = threshold, pause
        self._missed = 0
        self._probing: asyncio.Task[None] | None = None

    @property
    def open(self) -> bool:
        """Whether a call would only wait in vain."""
        # Open as long as somebody is probing: if that ever broke off, calls would find out by themselves again.
        return self._probing is not None and not self._probing.done()

    @property
    def suspicious(self) -> bool:
        """Whether the last call went unanswered."""
        return self._missed > 0

    def answered(self) -> None:
        self._missed = 0

    def missed(self) -> None:
        self._missed += 1
        if self._missed >= self._threshold and not self.open:
            log.warning("%s does not answer and is left alone until it does", self._name)
            self._probing = asyncio.get_running_loop().create_task(self._until_answered())

    async def close(self) -> None:
        """End the probing."""
        if self._probing is not None:
            self._probing.cancel()
            await asyncio.gather(self._probing, return_exceptions=True)

    async def _until_answered(self) -> None:
        # A call that began before the breaker opened may be answered late and end this too.
        while self._missed >= self._threshold:
            await asyncio.sleep(self._pause)
            if await self._probe():
                self.answered()
        log.warning("%s answers again", self._name)
