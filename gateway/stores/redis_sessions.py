"""Sessions in the shared store.

A session is a hash that expires, under the digest of its key. Sorted sets list the keys by the time of their last
change, one for each choice that a list can make (the workspace, one of its keys, one of its users, both): a page takes
as long as it is large. Another one lists them by when they expire; expired sessions are dropped from all by lists and
counts.
"""

import hashlib
import time
from collections.abc import Awaitable, Callable, Sequence
from itertools import product
from typing import Any, cast

import msgspec

from gateway.domain.session import SessionKey
from gateway.stores.codec import decode_text, encode_text
from gateway.stores.protocols import SessionOwner, SessionPage, StoredSession
from gateway.stores.redis_connection import KEY_PREFIX, RedisConnection
from gateway.stores.redis_ephemeral import to_milliseconds
from gateway.stores.redis_scripts import DELETE_SESSION, PUT_SESSION, RENEW_SESSION

FORGOTTEN = 500  # expired sessions per count or list, so that no single request pays for a large backlog


class RedisSessionStore:
    """A SessionStore on a connection that somebody else closes."""

    def __init__(self, connection: RedisConnection, *, clock: Callable[[], float] = time.time) -> None:
        self._connection, self._clock = connection, clock
        self._client = connection.client
        self._put = connection.client.register_script(PUT_SESSION)
        self._renew = connection.client.register_script(RENEW_SESSION)
        self._delete = connection.client.register_script(DELETE_SESSION)

    async def get(self, key: SessionKey) -> StoredSession | None:
        found = await self._connection.call(lambda: self._read([key]))
        return found[0]

    async def put(self, key: SessionKey, body: bytes, expected: int, ttl: float) -> StoredSession | None:
        now = self._clock()
        names = [name_session(key), name_deadlines(key.workspace), *name_indexes(key)]
        arguments: list[Any] = [expected, body, repr(now), to_milliseconds(ttl), encode_member(key), repr(now + ttl)]
        done = await self._connection.call(lambda: self._put(keys=names, args=arguments))
        return StoredSession(key, expected + 1, body, now) if done else None

    async def renew(self, key: SessionKey, ttl: float) -> None:
        arguments: list[Any] = [to_milliseconds(ttl), repr(self._clock() + ttl), encode_member(key)]
        names = [name_session(key), name_deadlines(key.workspace)]
        await self._connection.call(lambda: self._renew(keys=names, args=arguments))

    async def delete(self, key: SessionKey, expected: int | None = None) -> bool:
        names = [name_session(key), name_deadlines(key.workspace), *name_indexes(key)]
        arguments: list[Any] = ["" if expected is None else expected, encode_member(key)]
        return bool(await self._connection.call(lambda: self._delete(keys=names, args=arguments)))

    async def count(self, workspace: str) -> int:
        async def work() -> int:
            await self._forget_expired(workspace)
            return int(await self._client.zcard(name_deadlines(workspace)))

        return await self._connection.call(work)

    async def list_sessions(self, owner: SessionOwner, skip: int, take: int) -> SessionPage:
        async def work() -> SessionPage:
            await self._forget_expired(owner.workspace)
            index = name_index(owner)
            total = int(await self._client.zcard(index))
            members: list[Any] = list(await self._client.zrevrange(index, skip, skip + take - 1))
            keys = [decode_member(owner.workspace, member) for member in members]
            found = await self._read(keys) if keys else []
            gone = [key for key, stored in zip(keys, found, strict=True) if stored is None]
            await self._forget(gone)
            return SessionPage([stored for stored in found if stored is not None], total - len(gone))

        return await self._connection.call(work, self._connection.timeouts.background)

    async def _forget_expired(self, workspace: str) -> None:
        deadlines = name_deadlines(workspace)
        members: list[Any] = list(await self._client.zrangebyscore(deadlines, "-inf", self._clock(), 0, FORGOTTEN))
        await self._forget([decode_member(workspace, member) for member in members])

    async def _forget(self, keys: Sequence[SessionKey]) -> None:
        if keys:
            async with self._client.pipeline(transaction=False) as steps:
                self._unlist(steps, keys)
                await steps.execute()

    def _unlist(self, steps: Any, keys: Sequence[SessionKey]) -> None:
        for key in keys:
            for name in (name_deadlines(key.workspace), *name_indexes(key)):
                steps.zrem(name, encode_member(key))

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
    parts = name_index(SessionOwner(key.workspace)) + encode_member(key)
    return KEY_PREFIX + b"session:" + hashlib.sha256(parts).hexdigest().encode()


def name_index(owner: SessionOwner) -> bytes:
    """The set of one choice of sessions."""
    names = [None if name is None else encode_text(name) for name in (owner.workspace, owner.principal, owner.user)]
    return KEY_PREFIX + b"sessions:" + hashlib.sha256(msgspec.msgpack.encode(names)).hexdigest().encode()


def name_indexes(key: SessionKey) -> list[bytes]:
    """The sets of all choices that a session belongs to."""
    choices = product((None, key.principal), (None, key.user))
    return [name_index(SessionOwner(key.workspace, principal, user)) for principal, user in choices]


def name_deadlines(workspace: str) -> bytes:
    return KEY_PREFIX + b"session-deadlines:" + hashlib.sha256(encode_text(workspace)).hexdigest().encode()


def encode_member(key: SessionKey) -> bytes:
    return msgspec.msgpack.encode([encode_text(part) for part in (key.principal, key.user, key.id)])


def decode_member(workspace: str, member: bytes) -> SessionKey:
    return SessionKey(workspace, *map(decode_text, msgspec.msgpack.decode(member)))
