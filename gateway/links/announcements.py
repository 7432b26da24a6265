"""How a node hears which copies of links others have renewed, without reading the copies again and again."""

import time
from collections.abc import Callable

from gateway.stores.protocols import EphemeralStore

COUNTER = "link-news"
KEPT_SECONDS = 600.0
COUNTER_SECONDS = 366 * 86_400.0
MOST = 64  # news that are read one by one; whoever missed more looks at everything
PATIENCE = 10.0  # seconds that somebody who took a number may take to say what it is about


class LinkAnnouncements:
    """A counter in the store, and for a while beside it what each number was about."""

    def __init__(self, store: EphemeralStore, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._last: int | None = None
        self._open: dict[int, float] = {}  # numbers that nobody has explained yet, and since when

    @property
    def begun(self) -> bool:
        return self._last is not None

    async def tell(self, key: str) -> None:
        """Let everybody know that the value under `key` is another; raises StoreError."""
        number = await self._store.add(COUNTER, 1, COUNTER_SECONDS)
        await self._store.put(_name(number), key.encode(), KEPT_SECONDS)

    async def heard(self) -> set[str] | None:
        """The keys whose values have changed since the last time; None: any of them. Raises StoreError."""
        names = {_name(number): number for number in self._open}
        found = await self._store.get_many([COUNTER, *names])
        number = int(found.pop(COUNTER, b"0"))
        last, self._last = self._last, number
        if last is None:
            return set()
        if not 0 <= number - last <= MOST:  # too many, or the store was emptied and counts anew
            self._open.clear()
            return None
        now = self._clock()
        fresh = {_name(one): one for one in range(last + 1, number + 1)}
        self._open |= dict.fromkeys(fresh.values(), now)
        if fresh:
            found |= await self._store.get_many(list(fresh))
        told = {one for name, one in (names | fresh).items() if name in found}
        self._open = {one: since for one, since in self._open.items() if one not in told and now - since < PATIENCE}
        return {value.decode() for value in found.values()}


def _name(number: int) -> str:
    return f"{COUNTER}:{number}"
