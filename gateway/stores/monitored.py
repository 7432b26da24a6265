"""A store that remembers whether it works."""

from collections.abc import Awaitable, Mapping, Sequence
from typing import TypeVar

from gateway.errors import StoreError
from gateway.stores.protocols import CommonValue, EphemeralStore

T = TypeVar("T")


class MonitoredStore:
    """Passes every call on and remembers whether the last one succeeded, for `/readyz`."""

    def __init__(self, store: EphemeralStore) -> None:
        self._store = store
        self.ok = True

    async def put(self, key: str, value: bytes, ttl: float | None = None) -> None:
        await self._monitor(self._store.put(key, value, ttl))

    async def append_many(self, values: Mapping[str, bytes], ttl: float, shared: Sequence[CommonValue] = ()) -> None:
        await self._monitor(self._store.append_many(values, ttl, shared))

    async def find_appended(self, keys: Sequence[str]) -> dict[str, bytes]:
        return await self._monitor(self._store.find_appended(keys))

    async def put_new(self, key: str, value: bytes) -> bytes:
        return await self._monitor(self._store.put_new(key, value))

    async def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        return await self._monitor(self._store.get_many(keys))

    async def add(self, key: str, amount: int, ttl: float) -> int:
        return await self._monitor(self._store.add(key, amount, ttl))

    async def add_many(self, amounts: Mapping[str, int], ttl: float) -> dict[str, int]:
        return await self._monitor(self._store.add_many(amounts, ttl))

    async def lease(self, key: str, owner: str, ttl: float) -> bool:
        return await self._monitor(self._store.lease(key, owner, ttl))

    async def close(self) -> None:
        await self._store.close()

    async def _monitor(self, call: Awaitable[T]) -> T:
        try:
            result = await call
        except StoreError:
            self.ok = False
            raise
        self.ok = True
        return result
