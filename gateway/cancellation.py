"""Ending a task that may miss that it is cancelled."""

import asyncio
import logging
from typing import Any

log = logging.getLogger(__name__)

AGAIN_SECONDS = 1.0  # after which a task that goes on is cancelled once more
ATTEMPTS = 5


async def end_task(task: asyncio.Task[Any], name: str, again: float = AGAIN_SECONDS) -> None:
    """Cancel a task and wait until it has ended; one that never does is logged and left.

    Once is not enough: a cancellation that comes together with a timeout of its own can be taken for that timeout by
    what the task calls. redis-py does so before Python 3.11.3.
    """
    for _ in range(ATTEMPTS):
        task.cancel()
        if (await asyncio.wait({task}, timeout=again))[0]:
            break
    else:
        log.error("%s does not end", name)
        return
    if not task.cancelled() and (error := task.exception()) is not None:
        log.debug("%s ended with %r", name, error)
