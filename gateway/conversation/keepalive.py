"""Comments that keep a client's stream alive while there is nothing to say."""

import asyncio
import time
from collections.abc import AsyncGenerator
from typing import Any

SILENCE = 5.0  # seconds without a byte after which a comment is sent
COMMENT = b": working\n\n"


class Silence:
    """Since when the client has heard nothing."""

    __slots__ = ("_since",)

    def __init__(self) -> None:
        self.broken()

    def broken(self) -> None:
        self._since = time.monotonic()

    @property
    def left(self) -> float:
        """Seconds until it has lasted too long."""
        return max(0.0, self._since + SILENCE - time.monotonic())


async def comments_until(task: asyncio.Future[Any], silence: Silence) -> AsyncGenerator[bytes]:
    """A comment whenever the silence has lasted too long; the task is cancelled if nobody waits any more."""
    try:
        while not task.done():
            done, _ = await asyncio.wait({task}, timeout=silence.left)
            if not done:
                yield COMMENT
                silence.broken()
    finally:
        if not task.done():
            task.cancel()
