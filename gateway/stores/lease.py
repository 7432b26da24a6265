"""A lease in the store: of all replicas, one does the work."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from gateway.cancellation import end_task
from gateway.errors import StoreError
from gateway.stores.protocols import EphemeralStore

RETRY_SECONDS = 0.02  # between two attempts to acquire a lease
RELEASE_SECONDS = 0.001  # how much longer a lease lasts once it is released

log = logging.getLogger(__name__)


class Lease:
    """Lasts for `seconds` and is renewed while the work goes on; if its owner dies, another gets it after that."""

    def __init__(self, store: EphemeralStore, key: str, owner: str, seconds: float) -> None:
        self._store, self._key, self._owner, self._seconds = store, key, owner, seconds

    async def acquire(self) -> bool:
        """Acquire or renew the lease, once; False if another owner has it. Raises StoreError."""
        return await self._store.lease(self._key, self._owner, self._seconds)

    @asynccontextmanager
    async def hold(self, patience: float) -> AsyncGenerator[None]:
        """Wait until the lease is free, hold it during the block, release it; StoreError if it stays taken."""
        end = asyncio.get_running_loop().time() + patience
        while not await self.acquire():
            if asyncio.get_running_loop().time() > end:
                raise StoreError("Another gateway has been busy with the same work for too long.")
            await asyncio.sleep(RETRY_SECONDS)
        try:
            yield
        finally:
            await self.release()

    async def release(self) -> None:
        """Let others have it."""
        with contextlib.suppress(StoreError):  # it expires by itself
            await self._store.lease(self._key, self._owner, RELEASE_SECONDS)

    @asynccontextmanager
    async def keep_renewed(self) -> AsyncGenerator[None]:
        """Renew the lease until the block ends."""
        renewal = asyncio.create_task(self._renew_forever())
        try:
            yield
        finally:
            await end_task(renewal, "the renewal of a lease")

    async def _renew_forever(self) -> None:
        while True:
            await asyncio.sleep(self._seconds / 3)
            try:
                await self.acquire()
            except StoreError as error:  # another replica may start the same work, which does no harm
                log.warning("a lease could not be renewed: %s", error)
