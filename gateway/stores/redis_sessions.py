"""Sessions in the shared store.

A session is a hash that expires, under the digest of its key. Two sorted sets per workspace list the keys by the time
of their last change and by when they expire; expired sessions are dropped from both by lists and counts.
"""

import hashlib
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

import msgspec

from gateway.domain.session import SessionKey
from gateway.stores.codec import decode_text, encode_text
from gateway.stores.protocols import SessionOwner, SessionPage, StoredSession
from gateway.stores.redis_connection import KEY_PREFIX, RedisConnection
from gateway.stores.redis_ephemeral import to_milliseconds
from gateway.stores.redis_scripts import PUT_SESSION, RENEW_SESSION

LISTED_AT_ONCE = 500
FORGOTTEN = 500  # expired sessions per count, so that no single request pays for a large backlog


class RedisSessionStore:
    """A SessionStore on a connection that somebody else closes."""

    def __init__(self, connection: RedisConnection, *, clock: Callable[[], float] = time.time) -> None:
        self._connection, self._clock = connection, clock
        self._client = connection.client
        self._put = connection.client.register_script(PUT_SESSION)
        self._renew = connection.client.register_script(RENEW_SESSION)

    async def get(self, key: SessionKey) -> StoredSession | None:
        found = await self._connection.call(lambda: self._read([key]))
        return found[0]

    async def put(self, key: SessionKey, body: bytes, expected: int, ttl: float) -> StoredSession | None:
        now = self._clock()
        names = [name_session(key), name_index(key.workspace), name_deadlines(key.workspace)]
        arguments: list[Any] = [expected, body, repr(now), to_milliseconds(ttl), encode_member(key), repr(now + ttl)]
        done = await self._connection.call(lambda: self._put(keys=names, args=arguments))
        return StoredSession(key, expected + 1, body, now) if done else None

    async def renew(self, key: SessionKey, ttl: float) -> None:
        arguments: list[Any] = [to_milliseconds(ttl), repr(self._clock() + ttl), encode_member(key)]
        names = [name_session(key), name_deadlines(key.workspace)]
        await self._connection.call(lambda: self._renew(keys=names, args=arguments))

    async def delete(self, key: SessionKey) -> bool:
        async def work() -> bool:
            async with self._client.pipeline(transaction=True) as steps:
                steps.delete(name_session(key))
                steps.zrem(name_index(key.workspace), encode_member(key))
                steps.zrem(name_deadlines(key.workspace), encode_member(key))
                deleted: list[Any] = await steps.execute()
            return bool(deleted[0])

        return await self._connection.call(work)

    async def count(self, workspace: str) -> int:
        async def work() -> int:
            names = name_deadlines(workspace), name_index(workspace)
            expired: list[Any] = list(await self._client.zrangebyscore(names[0], "-inf", self._clock(), 0, FORGOTTEN))
            if expired:
                for name in names:
                    await self._client.zrem(name, *expired)
            return int(await self._client.zcard(names[0]))

        return await self._connection.call(work)

    async def list_sessions(self, owner: SessionOwner, skip: int, take: int) -> SessionPage:
        """Reads the whole index of the workspace: the list is for people, and sessions expire."""
        live = await self._connection.call(lambda: self._list_live(owner), self._connection.timeouts.background)
        return SessionPage(live[skip : skip + take], len(live))

    async def _list_live(self, owner: SessionOwner) -> list[StoredSession]:
        index = name_index(owner.workspace)
        members: list[Any] = list(await self._client.zrevrange(index, 0, -1))
        keys = [decode_member(owner.workspace, member) for member in members]
        wanted = [(member, key) for member, key in zip(members, keys, strict=True) if owner.owns(key)]
        live: list[StoredSession] = []
        for start in range(0, len(wanted), LISTED_AT_ONCE):
            batch = wanted[start : start + LISTED_AT_ONCE]
            found = await self._read([key for _, key in batch])
            gone = [member for (member, _), stored in zip(batch, found, strict=True) if stored is None]
            if gone:
                await self._client.zrem(index, *gone)
                await self._client.zrem(name_deadlines(owner.workspace), *gone)
            live += (stored for stored in found if stored is not None)
        return sorted(live, key=lambda stored: (-stored.updated, stored.key))

    async def _read(self, keys: Sequence[SessionKey]) -> list[StoredSession | None]:
        async with self._client.pipeline(transaction=False) as steps:
            for key in keys:
                steps.hmget(name_session(key), ["version", "body", "updated"])
            rows: list[Any] = await cast(Awaitable[list[Any]], steps.execute())
        return [
            None if version is None else StoredSession(key, int(version), bytes(body), float(updated))
            for key, (version, body, updated) in zip(keys, rows, strict=True)
        ]


def name_session(key: SessionKey) -> bytes:
    parts = name_index(key.workspace) + encode_member(key)
    return KEY_PREFIX + b"session:" + hashlib.sha256(parts).hexdigest().encode()


def name_index(workspace: str) -> bytes:
    return KEY_PREFIX + b"sessions:" + hashlib.sha256(encode_text(workspace)).hexdigest().encode()


def name_deadlines(workspace: str) -> bytes:
    return KEY_PREFIX + b"session-deadlines:" + hashlib.sha256(encode_text(workspace)).hexdigest().encode()


def encode_member(key: SessionKey) -> bytes:
    return msgspec.msgpack.encode([encode_text(part) for part in (key.principal, key.user, key.id)])


def decode_member(workspace: str, member: bytes) -> SessionKey:
    return SessionKey(workspace, *map(decode_text, msgspec.msgpack.decode(member)))
