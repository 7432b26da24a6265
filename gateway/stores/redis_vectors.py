"""Vectors that several replicas share: what one of them has embedded, no other embeds again."""

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import NamedTuple, Self

from redis.asyncio import Redis

from gateway.cancellation import end_task
from gateway.domain.redis_address import RedisAddress
from gateway.errors import StoreError
from gateway.stores.protocols import TOUCH_SECONDS, UNUSED_SECONDS
from gateway.stores.redis_connection import DEFAULT_TIMEOUTS, KEY_PREFIX, RedisConnection, RedisTimeouts

KEYS_PER_CALL = 500  # of 768 bytes each with the bundled model
MAX_UNSAVED = 20_000  # vectors that wait for the server to come back; others are computed again after a restart
RETRY_SECONDS = 5.0
TTL_MS = int(UNUSED_SECONDS * 1000)
TOUCH_BELOW_MS = int((UNUSED_SECONDS - TOUCH_SECONDS) * 1000)

log = logging.getLogger(__name__)


class RedisVectorStore:
    """A VectorStore on a connection of its own, which it closes; the server expires what was not used for a month."""

    def __init__(
        self,
        connection: RedisConnection,
        *,
        retry_seconds: float = RETRY_SECONDS,
        max_unsaved: int = MAX_UNSAVED,
    ) -> None:
        self._connection = connection
        self._retry_seconds, self._max_unsaved = retry_seconds, max_unsaved
        self._unsaved: dict[bytes, bytes] = {}
        self._saving: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, address: RedisAddress) -> Self:
        """A store that works as soon as its server does.

        Its connections are its own: large transfers that are not urgent never take one that a chat waits for.
        """
        return cls(await RedisConnection.open(address, RedisTimeouts(call=DEFAULT_TIMEOUTS.background)))

    async def get_many(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        wanted = list(dict.fromkeys(keys))
        found = {key: self._unsaved[key] for key in wanted if key in self._unsaved}
        for batch in _split_keys([key for key in wanted if key not in found]):
            vectors = await self._connection.call(partial(_read, self._connection.client, batch))
            found |= {vector.key: vector.value for vector in vectors}
            if stale := [vector.key for vector in vectors if vector.ttl_ms < TOUCH_BELOW_MS]:
                await self._connection.call(partial(_touch, self._connection.client, stale))
        return found

    async def put_many(self, vectors: Mapping[bytes, bytes]) -> None:
        try:
            await self._write(vectors)
        except StoreError:
            if len(self._unsaved) + len(vectors) > self._max_unsaved:
                raise
            self._unsaved |= vectors
            if self._saving is None or self._saving.done():
                log.warning("vectors are kept in memory until they can be stored")
                self._saving = asyncio.create_task(self._save_unsaved())

    async def sweep(self) -> int:
        return 0  # every vector has its own expiry

    async def close(self) -> None:
        if self._saving is not None:
            await end_task(self._saving, "storing vectors")
        await self._connection.close()

    async def _write(self, vectors: Mapping[bytes, bytes]) -> None:
        for batch in _split_keys(vectors):
            await self._connection.call(partial(_put, self._connection.client, {key: vectors[key] for key in batch}))

    async def _save_unsaved(self) -> None:
        """Retry until the server has stored everything."""
        while self._unsaved:
            await asyncio.sleep(self._retry_seconds)
            with contextlib.suppress(StoreError):
                while batch := dict(islice(self._unsaved.items(), KEYS_PER_CALL)):
                    await self._write(batch)
                    self._unsaved = {key: value for key, value in self._unsaved.items() if key not in batch}


class RedisVector(NamedTuple):
    """A vector as the server has it."""

    key: bytes
    value: bytes
    ttl_ms: int


async def _read(client: Redis, keys: Sequence[bytes]) -> list[RedisVector]:
    async with client.pipeline(transaction=False) as steps:
        steps.mget([_encode_key(key) for key in keys])
        for key in keys:
            steps.pttl(_encode_key(key))
        values, *ttls = await steps.execute()
    rows = zip(keys, values, ttls, strict=True)
    return [RedisVector(key, value, ttl) for key, value, ttl in rows if value is not None]


async def _touch(client: Redis, keys: Sequence[bytes]) -> None:
    async with client.pipeline(transaction=False) as steps:
        for key in keys:
            steps.pexpire(_encode_key(key), TTL_MS)
        await steps.execute()


async def _put(client: Redis, vectors: Mapping[bytes, bytes]) -> None:
    async with client.pipeline(transaction=False) as steps:
        for key, value in vectors.items():
            steps.set(_encode_key(key), value, px=TTL_MS)
        await steps.execute()


def _encode_key(key: bytes) -> bytes:
    return KEY_PREFIX + b"vector:" + key


def _split_keys(keys: Iterable[bytes]) -> Iterable[list[bytes]]:
    rest = iter(keys)
    while batch := list(islice(rest, KEYS_PER_CALL)):
        yield batch
