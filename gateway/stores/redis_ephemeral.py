"""The shared store: one Redis or Valkey server for several gateways."""

import math
from collections.abc import Sequence
from typing import Any, Self

from gateway.domain.redis_address import RedisAddress
from gateway.errors import StoreError
from gateway.stores.codec import encoded
from gateway.stores.redis_connection import CONNECT_SECONDS, OPERATION_SECONDS, RedisConnection

KEYS_PER_QUERY = 500
PREFIX = b"gateway:"
SHARED = "The secret that all gateways share is kept there: start it, or set `secret` in the configuration."

LEASE = """
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
"""


class RedisStore:
    """An EphemeralStore on a link, which it closes."""

    def __init__(self, link: RedisConnection) -> None:
        self.link = link
        self._client = link.client
        self._lease = link.client.register_script(LEASE)

    @classmethod
    async def open(cls, address: RedisAddress, *, budget: float = OPERATION_SECONDS) -> Self:
        """A store that is usable as soon as its server is."""
        return cls(await RedisConnection.open(address, budget=budget))

    async def put(self, key: str, value: bytes, ttl: float | None = None) -> None:
        # Without a deadline SET also removes that of the former value.
        deadline = None if ttl is None else milliseconds(ttl)
        await self.link.call(lambda: self._client.set(named(key), value, px=deadline))

    async def put_new(self, key: str, value: bytes) -> bytes:
        name = named(key)

        async def work() -> bytes:
            while not await self._client.set(name, value, nx=True):
                kept: Any = await self._client.get(name)
                if kept is not None:  # else it expired in between, and the key is free
                    return bytes(kept)
            return value

        try:
            # Asked once at start: a slow moment must not keep a gateway from starting.
            return await self.link.call(work, max(self.link.budget, CONNECT_SECONDS))
        except StoreError as error:
            raise StoreError(f"{error} {SHARED}") from None

    async def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        wanted = list(dict.fromkeys(keys))

        async def work() -> list[bytes | None]:
            found: list[Any] = []
            for start in range(0, len(wanted), KEYS_PER_QUERY):
                found += await self._client.mget([named(key) for key in wanted[start : start + KEYS_PER_QUERY]])
            return found

        values = await self.link.call(work) if wanted else []
        return {key: value for key, value in zip(wanted, values, strict=True) if value is not None}

    async def add(self, key: str, amount: int, ttl: float) -> int:
        name, deadline = named(key), milliseconds(ttl)

        async def work() -> int:
            async with self._client.pipeline(transaction=True) as steps:
                # Only the first addition sets the deadline; INCRBY leaves it as it is.
                steps.set(name, 0, px=deadline, nx=True)
                steps.incrby(name, amount)
                total: Any = (await steps.execute())[1]
            return int(total)

        return await self.link.call(work)

    async def lease(self, key: str, owner: str, ttl: float) -> bool:
        words: list[bytes | int] = [encoded(owner), milliseconds(ttl)]
        return bool(await self.link.call(lambda: self._lease(keys=[named(key)], args=words)))

    async def close(self) -> None:
        await self.link.close()


def named(key: str) -> bytes:
    """The key as the server knows it; bytes, because a JSON string may hold lone surrogates."""
    return PREFIX + encoded(key)


def milliseconds(ttl: float) -> int:
    """A deadline as the server takes it; zero is none to it."""
    return max(1, math.ceil(ttl * 1000))
