"""What workspaces keep of responses, counted in the store by parts of the time that they are kept."""

import asyncio
import hashlib
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache

from gateway.domain.lru import LruCache
from gateway.errors import StoreError
from gateway.stores.protocols import EphemeralStore

SIZES = "response-bytes:"
PERIODS = 24  # parts of the time that responses are kept, by which their sizes are counted
BOOK_SECONDS = 1.0
REMEMBERED_NAMES = 4096


class ResponseQuota:
    """Counts what workspaces keep, and tells the store once a second.

    A process knows of others what they had told when it told the store last: together they may keep more than a quota
    by what all but one of them keep in a second.
    """

    def __init__(
        self,
        store: EphemeralStore,
        ttl: float,
        get_limit: Callable[[str], int] | None = None,  # bytes that a workspace may keep; None: any number
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store, self._ttl, self._get_limit, self._clock = store, ttl, get_limit, clock
        self._earlier: LruCache[str, int] = LruCache()  # by the counter of a period: what was kept before it
        self._known: LruCache[str, int] = LruCache()  # the same and what was kept in it
        self._unbooked: Counter[str] = Counter()  # bytes by workspace
        self._added = asyncio.Event()
        self._booking = asyncio.Lock()

    async def add(self, workspace: str, size: int) -> bool:
        """Count so many bytes more; False if that is more than the workspace may keep. Raises StoreError."""
        counted = self.add_now(workspace, size)
        if counted is None:
            current = self._name_period(workspace)
            known = await self._read(self._list_periods(workspace))
            self._known.put(current, known)
            counted = self._count(workspace, known, size)
        return counted

    def add_now(self, workspace: str, size: int) -> bool | None:
        """The same at once; None if the store has to be asked first."""
        if self._get_limit is None:
            return True
        known = self._known.get(self._name_period(workspace))
        return None if known is None else self._count(workspace, known, size)

    def measure_room(self, workspace: str) -> int:
        """Bytes that the workspace may keep besides; 0 if there are none, or the store has to be asked first."""
        if self._get_limit is None:
            return sys.maxsize
        known = self._known.get(self._name_period(workspace))
        return 0 if known is None else self._get_limit(workspace) - known - self._unbooked[workspace]

    def charge(self, workspace: str, size: int) -> None:
        """Count so many bytes more, for which there was room."""
        if self._get_limit is not None:
            self._unbooked[workspace] += size
            self._added.set()

    def _count(self, workspace: str, known: int, size: int) -> bool:
        assert self._get_limit is not None
        if known + self._unbooked[workspace] + size > self._get_limit(workspace):
            return False
        self.charge(workspace, size)
        return True

    async def book(self) -> None:
        """Tell the store what it does not know yet, and hear what others have kept; raises StoreError."""
        async with self._booking:
            amounts = dict(self._unbooked)
            if not amounts:
                return
            current = {self._name_period(workspace): workspace for workspace in amounts}
            added = {name: amounts[workspace] for name, workspace in current.items()}
            sums = await self._store.add_many(added, self._ttl * (PERIODS + 1) / PERIODS)
            self._unbooked -= Counter(amounts)  # which drops what is zero
            for name, workspace in current.items():
                self._known.put(name, sums[name] + await self._count_earlier(name, workspace))

    async def run(self) -> None:
        """Book in the background, until cancelled; a store that fails is told later."""
        while True:
            await self._added.wait()
            await asyncio.sleep(BOOK_SECONDS)
            self._added.clear()
            try:
                await self.book()
            except StoreError:
                self._added.set()

    async def count_bytes(self, workspace: str) -> int:
        """What a workspace keeps, or has deleted lately: that counts until it would have expired. Raises StoreError."""
        await self.book()
        return await self._read(self._list_periods(workspace))

    async def _count_earlier(self, current: str, workspace: str) -> int:
        """What was stored before the current period: it does not change any more, so it is read once in each."""
        known = self._earlier.get(current)
        if known is None:
            known = await self._read(self._list_periods(workspace)[1:])
            self._earlier.put(current, known)
        return known

    async def _read(self, counters: Sequence[str]) -> int:
        return sum((await self._store.add_many(dict.fromkeys(counters, 0), self._ttl)).values())

    def _list_periods(self, workspace: str) -> list[str]:
        """The counters of all periods in which a response was stored that may still be there, the newest first."""
        return [self._name_period(workspace, age) for age in range(PERIODS + 1)]

    def _name_period(self, workspace: str, age: int = 0) -> str:
        return f"{SIZES}{hash_name(workspace)}:{int(self._clock() * PERIODS / self._ttl) - age}"


@lru_cache(REMEMBERED_NAMES)
def hash_name(workspace: str) -> str:
    return hashlib.sha256(workspace.encode("utf-8", "surrogatepass")).hexdigest()[:16]
