"""Key-values in the shared store: one Redis or Valkey server for several replicas."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Self

from gateway.domain.redis_address import RedisAddress
from gateway.errors import StoreError
from gateway.stores.codec import encode_text
from gateway.stores.protocols import CommonValue, join_values
from gateway.stores.redis_connection import DEFAULT_TIMEOUTS, KEY_PREFIX, RedisConnection, RedisTimeouts
from gateway.stores.redis_scripts import ADD_MANY, LEASE

KEYS_PER_QUERY = 500
SECRET_HINT = "It holds the secret that all replicas share: start it, or set `secret` in the configuration."


class RedisEphemeralStore:
    """An EphemeralStore on a connection, which it closes."""

    def __init__(self, connection: RedisConnection) -> None:
        self.connection = connection
        self._client = connection.client
        self._lease = connection.client.register_script(LEASE)
        self._add_many = connection.client.register_script(ADD_MANY)

    @classmethod
    async def open(cls, address: RedisAddress, timeouts: RedisTimeouts = DEFAULT_TIMEOUTS) -> Self:
        """A store that works as soon as its server does."""
        return cls(await RedisConnection.open(address, timeouts))

    async def put(self, key: str, value: bytes, ttl: float | None = None) -> None:
        # Without an expiry SET also removes that of the previous value.
        expiry = None if ttl is None else to_milliseconds(ttl)
        await self.connection.call(lambda: self._client.set(encode_key(key), value, px=expiry))

    async def append_many(self, values: Mapping[str, bytes], ttl: float, shared: Sequence[CommonValue] = ()) -> None:
        expiry = to_milliseconds(ttl)

        async def work() -> None:
            async with self._client.pipeline(transaction=True) as steps:
                for key, value in join_values(values, shared).items():
                    steps.set(encode_key(key), value, px=expiry)
                await steps.execute()

        await self.connection.call(work)

    async def put_new(self, key: str, value: bytes) -> bytes:
        name = encode_key(key)

        async def work() -> bytes:
            while not await self._client.set(name, value, nx=True):
                stored: Any = await self._client.get(name)
                if stored is not None:  # else it expired in between, and the key is free
                    return bytes(stored)
            return value

        timeouts = self.connection.timeouts
        try:
            # Called once at start: a slow moment must not keep a gateway from starting.
            return await self.connection.call(work, max(timeouts.call, timeouts.connect))
        except StoreError as error:
            raise StoreError(f"{error} {SECRET_HINT}") from None

    async def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        wanted = list(dict.fromkeys(keys))

        async def work() -> list[bytes | None]:
            found: list[Any] = []
            for start in range(0, len(wanted), KEYS_PER_QUERY):
                found += await self._client.mget([encode_key(key) for key in wanted[start : start + KEYS_PER_QUERY]])
            return found

        values = await self.connection.call(work) if wanted else []
        return {key: value for key, value in zip(wanted, values, strict=True) if value is not None}

    async def find_appended(self, keys: Sequence[str]) -> dict[str, bytes]:
        return await self.get_many(keys)

    async def add(self, key: str, amount: int, ttl: float) -> int:
        name, expiry = encode_key(key), to_milliseconds(ttl)

        async def work() -> int:
            async with self._client.pipeline(transaction=True) as steps:
                # Only the first addition sets the expiry; INCRBY leaves it as it is.
                steps.set(name, 0, px=expiry, nx=True)
                steps.incrby(name, amount)
                total: Any = (await steps.execute())[1]
            return int(total)

        return await self.connection.call(work)

    async def add_many(self, amounts: Mapping[str, int], ttl: float) -> dict[str, int]:
        names, expiry = [encode_key(key) for key in amounts], to_milliseconds(ttl)

        async def work() -> list[Any]:
            found: Any = await self._add_many(keys=names, args=[expiry, *amounts.values()])
            return list(found)

        sums = await self.connection.call(work) if names else []
        return {key: int(value) for key, value in zip(amounts, sums, strict=True)}

    async def lease(self, key: str, owner: str, ttl: float) -> bool:
        arguments: list[bytes | int] = [encode_text(owner), to_milliseconds(ttl)]
        return bool(await self.connection.call(lambda: self._lease(keys=[encode_key(key)], args=arguments)))

    async def close(self) -> None:
        await self.connection.close()


def encode_key(key: str) -> bytes:
    """The key on the server; bytes, because a JSON string may contain lone surrogates."""
    return KEY_PREFIX + encode_text(key)


def to_milliseconds(ttl: float) -> int:
    """An expiry as the server accepts it; zero is not allowed."""
    return max(1, math.ceil(ttl * 1000))
