"""How a replica learns which copies of web pages others have refreshed, without reading every copy again and again."""

import time
from collections.abc import Callable

from gateway.stores.protocols import EphemeralStore

COUNTER_KEY = "link-news"
COUNTER_SECONDS = 366 * 86_400.0
ANNOUNCEMENT_SECONDS = 600.0
MAX_ANNOUNCEMENTS = 64  # that are read one by one; whoever missed more has to read every copy
PENDING_SECONDS = 10.0  # how long a replica may take to announce its change after it has taken a number


class LinkAnnouncements:
    """A counter in the store, and beside it for a while the key that each number announces."""

    def __init__(self, store: EphemeralStore, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._last: int | None = None
        self._pending: dict[int, float] = {}  # numbers that were taken but not announced yet, and since when

    @property
    def has_started(self) -> bool:
        """Whether `read_changed_keys` was ever called."""
        return self._last is not None

    async def announce(self, key: str) -> None:
        """Tell all replicas that the value under `key` has changed; raises StoreError."""
        number = await self._store.add(COUNTER_KEY, 1, COUNTER_SECONDS)
        await self._store.put(_make_key(number), key.encode(), ANNOUNCEMENT_SECONDS)

    async def read_changed_keys(self) -> set[str] | None:
        """The keys whose values have changed since the last call; None: any of them. Raises StoreError."""
        pending = {_make_key(number): number for number in self._pending}
        found = await self._store.get_many([COUNTER_KEY, *pending])
        newest = int(found.pop(COUNTER_KEY, b"0"))
        last, self._last = self._last, newest
        if last is None:
            return set()
        if not 0 <= newest - last <= MAX_ANNOUNCEMENTS:  # too many, or the store was emptied and counts from 0 again
            self._pending.clear()
            return None
        now = self._clock()
        fresh = {_make_key(number): number for number in range(last + 1, newest + 1)}
        self._pending |= dict.fromkeys(fresh.values(), now)
        if fresh:
            found |= await self._store.get_many(list(fresh))
        announced = {number for key, number in (pending | fresh).items() if key in found}
        self._pending = {
            number: since
            for number, since in self._pending.items()
            if number not in announced and now - since < PENDING_SECONDS
        }
        return {value.decode() for value in found.values()}


def _make_key(number: int) -> str:
    return f"{COUNTER_KEY}:{number}"
