"""Changes of sessions that a request does not wait for any longer: they are tried on in the background."""

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from typing import Final

from gateway.domain.session import SessionKey
from gateway.errors import GatewayError, StoreError

PATIENCE_SECONDS: Final = 0.2  # that a request waits for the store
GIVE_UP_SECONDS: Final = 10.0  # after which a change that the store does not take is lost
RETRY_SECONDS: Final = 0.25
CLOSE_SECONDS: Final = 2.0  # that a gateway which stops waits for the rest
MAX_LATE: Final = 256  # changes of one workspace that are tried at a time

Write = Callable[[], Awaitable[object]]

log = logging.getLogger(__name__)


class LateChanges:
    """Changes that the store did not take while a request waited: tried on in the order of each session."""

    def __init__(self, patience: float = PATIENCE_SECONDS, give_up: float = GIVE_UP_SECONDS) -> None:
        self.patience, self._give_up = patience, give_up
        self.queues: dict[SessionKey, deque[Write]] = {}
        self._late: Counter[str] = Counter()  # changes by workspace
        self._tasks: set[asyncio.Task[None]] = set()
        self.lost = 0  # changes that were never stored

    async def close(self) -> None:
        """Wait a moment for what is still tried, and give up the rest."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CLOSE_SECONDS)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def queue(self, key: SessionKey, write: Write) -> None:
        """Try a change on, after those of the same session that are tried already."""
        if self._late[key.workspace] >= MAX_LATE:
            self._lose("too many wait for the store")
            return
        queue = self.queues.get(key)
        if queue is None:
            queue = self.queues[key] = deque()
            task = asyncio.get_running_loop().create_task(self._work_off(key, queue))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        self._late[key.workspace] += 1
        queue.append(write)

    async def _work_off(self, key: SessionKey, queue: deque[Write]) -> None:
        try:
            while queue:
                await self._try(queue[0])
                queue.popleft()
                self._late[key.workspace] -= 1
        finally:
            del self.queues[key]
            for _ in queue:
                self._lose("the gateway stops")
            self._late[key.workspace] -= len(queue)
            if not self._late[key.workspace]:
                del self._late[key.workspace]

    async def _try(self, write: Write) -> None:
        deadline = time.monotonic() + self._give_up
        while True:
            try:
                await write()
                return
            except StoreError as error:
                if time.monotonic() > deadline:
                    self._lose(str(error))
                    return
                await asyncio.sleep(RETRY_SECONDS)
            except GatewayError as error:  # too many sessions, or too many at once
                self._lose(str(error))
                return

    def _lose(self, reason: str) -> None:
        self.lost += 1
        log.warning("a change of a session is lost: %s", reason)
