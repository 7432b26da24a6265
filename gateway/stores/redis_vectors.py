"""Vectors that several gateways share: what one of them has embedded, no other embeds again."""

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import islice

from redis.asyncio import Redis

from gateway.errors import StoreError
from gateway.stores.redis_connection import RedisConnection
from gateway.stores.redis_ephemeral import PREFIX
from gateway.stores.vectors import TOUCH_SECONDS, UNUSED_SECONDS

CALL_SECONDS = 2.0  # how long one call may take
KEYS_PER_CALL = 500  # of 768 bytes each with the model that comes along
KEPT_BACK = 20_000  # vectors that wait for a server to come back; more are made anew after a restart
RETRY_SECONDS = 5.0
LIFE, FRESH = int(UNUSED_SECONDS * 1000), int((UNUSED_SECONDS - TOUCH_SECONDS) * 1000)

log = logging.getLogger(__name__)


class RedisVectors:
    """A VectorStore on a server; the server itself forgets what is not used for a month."""

    def __init__(self, link: RedisConnection) -> None:
        self._link = link  # of its own: what is large and not urgent never takes a connection that a chat waits for
        self._kept_back: dict[bytes, bytes] = {}
        self._saving: asyncio.Task[None] | None = None

    async def get_many(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        wanted = list(dict.fromkeys(keys))
        found = {key: self._kept_back[key] for key in wanted if key in self._kept_back}
        for some in _chunks([key for key in wanted if key not in found]):
            values, lives = await self._link.call(partial(_read, self._link.client, some))
            there = {key: value for key, value in zip(some, values, strict=True) if value is not None}
            found |= there
            if stale := [key for key, life in zip(some, lives, strict=True) if key in there and life < FRESH]:
                await self._link.call(partial(_prolong, self._link.client, stale))
        return found

    async def put_many(self, vectors: Mapping[bytes, bytes]) -> None:
        try:
            await self._write(vectors)
        except StoreError:
            if len(self._kept_back) + len(vectors) > KEPT_BACK:
                raise
            self._kept_back |= vectors
            if self._saving is None or self._saving.done():
                log.warning("vectors are kept in memory until the store takes them")
                self._saving = asyncio.create_task(self._save())

    async def sweep(self) -> int:
        return 0  # every vector carries its own end

    async def close(self) -> None:
        if self._saving is not None:
            self._saving.cancel()
            await asyncio.gather(self._saving, return_exceptions=True)
        await self._link.close()

    async def _write(self, vectors: Mapping[bytes, bytes]) -> None:
        for some in _chunks(vectors):
            await self._link.call(partial(_put, self._link.client, {key: vectors[key] for key in some}))

    async def _save(self) -> None:
        """Write what was kept back as soon as the server takes it."""
        while self._kept_back:
            await asyncio.sleep(RETRY_SECONDS)
            with contextlib.suppress(StoreError):
                while some := dict(islice(self._kept_back.items(), KEYS_PER_CALL)):
                    await self._write(some)
                    self._kept_back = {key: value for key, value in self._kept_back.items() if key not in some}


async def _read(client: Redis, keys: Sequence[bytes]) -> tuple[list[bytes | None], list[int]]:
    async with client.pipeline(transaction=False) as steps:
        steps.mget([_named(key) for key in keys])
        for key in keys:
            steps.pttl(_named(key))
        values, *lives = await steps.execute()
    return values, lives


async def _prolong(client: Redis, keys: Sequence[bytes]) -> None:
    async with client.pipeline(transaction=False) as steps:
        for key in keys:
            steps.pexpire(_named(key), LIFE)
        await steps.execute()


async def _put(client: Redis, vectors: Mapping[bytes, bytes]) -> None:
    async with client.pipeline(transaction=False) as steps:
        for key, value in vectors.items():
            steps.set(_named(key), value, px=LIFE)
        await steps.execute()


def _named(key: bytes) -> bytes:
    return PREFIX + b"vector:" + key


def _chunks(keys: Iterable[bytes]) -> Iterable[list[bytes]]:
    rest = iter(keys)
    while some := list(islice(rest, KEYS_PER_CALL)):
        yield some
