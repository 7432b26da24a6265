"""A lease in the store: of all nodes, one does the work."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from gateway.errors import StoreError
from gateway.stores.protocols import EphemeralStore

PAUSE = 0.02  # seconds between two attempts
GIVEN_BACK = 0.001  # seconds that a lease lasts which nobody needs any longer

log = logging.getLogger(__name__)


class Lease:
    """Taken for `seconds` and prolonged while the work lasts; if its holder dies, another gets it when it ends."""

    def __init__(self, store: EphemeralStore, key: str, owner: str, seconds: float) -> None:
        self._store, self._key, self._owner, self._seconds = store, key, owner, seconds

    async def taken(self) -> bool:
        """Whether this node holds it now; raises StoreError."""
        return await self._store.lease(self._key, self._owner, self._seconds)

    @asynccontextmanager
    async def held(self, patience: float) -> AsyncGenerator[None]:
        """Wait until it is free, keep it for the block, give it back; raises StoreError if it does not come free."""
        end = asyncio.get_running_loop().time() + patience
        while not await self.taken():
            if asyncio.get_running_loop().time() > end:
                raise StoreError("Another gateway is busy with the same for too long.")
            await asyncio.sleep(PAUSE)
        try:
            yield
        finally:
            with contextlib.suppress(StoreError):  # it ends by itself
                await self._store.lease(self._key, self._owner, GIVEN_BACK)

    @asynccontextmanager
    async def kept(self) -> AsyncGenerator[None]:
        """Prolong it until the block ends."""
        keeping = asyncio.create_task(self._keep())
        try:
            yield
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(self._seconds / 3)
            try:
                await self.taken()
            except StoreError as error:  # another node may begin with the same work, which does no harm
                log.warning("a lease could not be prolonged: %s", error)
