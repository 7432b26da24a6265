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
    """Waits a moment for the store to take a change; tries on without the request, in the order of each session."""

    def __init__(self, patience: float = PATIENCE_SECONDS, give_up: float = GIVE_UP_SECONDS) -> None:
        self._patience, self._give_up = patience, give_up
        self._queues: dict[SessionKey, deque[Write]] = {}
        self._late: Counter[str] = Counter()  # changes by workspace
        self._tasks: set[asyncio.Task[None]] = set()
        self.lost = 0  # changes that were never stored

    async def write(self, key: SessionKey, write: Write) -> bool:
        """Whether the store took a change in time; raises why it cannot be made at all."""
        if key in self._queues:
            self._queue(key, write)
            return False
        attempt = asyncio.ensure_future(write())
        try:
            await asyncio.wait({attempt}, timeout=self._patience)
        except asyncio.CancelledError:
            self._queue(key, lambda: attempt, write)
            raise
        if attempt.done() and not isinstance(attempt.exception(), StoreError):
            attempt.result()
            return True
        self._queue(key, lambda: attempt, write)
        return False

    async def close(self) -> None:
        """Wait a moment for what is still tried, and give up the rest."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CLOSE_SECONDS)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _queue(self, key: SessionKey, *attempts: Write) -> None:
        """Queue a change: what is tried first, and then again and again."""
        first, last = attempts[0], attempts[-1]
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = deque()
            task = asyncio.get_running_loop().create_task(self._work_off(key, queue))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif self._late[key.workspace] >= MAX_LATE:
            self._lose("too many wait for the store")
            return
        self._late[key.workspace] += 1
        queue.append(lambda: self._try(first, last))

    async def _work_off(self, key: SessionKey, queue: deque[Write]) -> None:
        try:
            while queue:
                await queue[0]()
                queue.popleft()
                self._late[key.workspace] -= 1
        finally:
            del self._queues[key]
            for _ in queue:
                self._lose("the gateway stops")
            self._late[key.workspace] -= len(queue)
            if not self._late[key.workspace]:
                del self._late[key.workspace]

    async def _try(self, first: Write, again: Write) -> None:
        deadline, write = time.monotonic() + self._give_up, first
        while True:
            try:
                await write()
                return
            except StoreError as error:
                write = again
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
