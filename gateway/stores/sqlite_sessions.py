"""Sessions in the embedded store."""

import sqlite3
import time
from collections.abc import Callable

from gateway.domain.session import SessionKey
from gateway.stores.codec import decode_text, encode_text
from gateway.stores.protocols import SessionOwner, SessionPage, StoredSession
from gateway.stores.sqlite_connection import ExpirySweeper, SqliteThreads, transaction

ONE = "workspace = ? AND principal = ? AND user = ? AND id = ?"
COLUMNS = "workspace, principal, user, id, version, body, updated"
SELECT = f"SELECT {COLUMNS} FROM sessions WHERE {ONE} AND expires > ?"
PUT = f"""INSERT INTO sessions ({COLUMNS}, expires) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (workspace, principal, user, id) DO UPDATE SET version = excluded.version, body = excluded.body,
    updated = excluded.updated, expires = excluded.expires"""
RENEW = f"UPDATE sessions SET expires = ? WHERE {ONE} AND expires > ?"
DELETE = f"DELETE FROM sessions WHERE {ONE} AND version = coalesce(?, version) RETURNING expires"
OWNED = "workspace = ?1 AND (?2 IS NULL OR principal = ?2) AND (?3 IS NULL OR user = ?3) AND expires > ?4"
COUNT = f"SELECT count(*) FROM sessions WHERE {OWNED}"
LIST = f"""SELECT {COLUMNS} FROM sessions WHERE {OWNED}
    ORDER BY updated DESC, workspace, principal, user, id LIMIT ?5 OFFSET ?6"""
SWEEP = "DELETE FROM sessions WHERE rowid IN (SELECT rowid FROM sessions WHERE expires <= ? ORDER BY expires LIMIT ?)"

Row = tuple[bytes, bytes, bytes, bytes, int, bytes, float]


class SqliteSessionStore:
    """A SessionStore in a file that somebody else closes."""

    def __init__(self, threads: SqliteThreads, *, clock: Callable[[], float] = time.time) -> None:
        self._threads, self._clock = threads, clock
        self._sweeper = ExpirySweeper(SWEEP)

    async def get(self, key: SessionKey) -> StoredSession | None:
        row = (*encode_session_key(key), self._clock())
        found = await self._threads.reader.run(lambda connection: connection.execute(SELECT, row).fetchone())
        return None if found is None else decode_row(found)

    async def put(self, key: SessionKey, body: bytes, expected: int, ttl: float) -> StoredSession | None:
        name, now = encode_session_key(key), self._clock()

        def work(connection: sqlite3.Connection) -> StoredSession | None:
            with transaction(connection):
                current = connection.execute(SELECT, (*name, now)).fetchone()
                if (decode_row(current).version if current is not None else 0) != expected:
                    return None
                connection.execute(PUT, (*name, expected + 1, body, now, now + ttl))
                self._sweeper.sweep(connection, now)
            return StoredSession(key, expected + 1, body, now)

        return await self._threads.writer.run(work)

    async def renew(self, key: SessionKey, ttl: float) -> None:
        now = self._clock()
        row = (now + ttl, *encode_session_key(key), now)

        def work(connection: sqlite3.Connection) -> None:
            with transaction(connection):
                connection.execute(RENEW, row)

        await self._threads.writer.run(work)

    async def delete(self, key: SessionKey, expected: int | None = None) -> bool:
        name, now = encode_session_key(key), self._clock()

        def work(connection: sqlite3.Connection) -> bool:
            with transaction(connection):
                deleted = connection.execute(DELETE, (*name, expected)).fetchall()
            return any(expires > now for (expires,) in deleted)

        return await self._threads.writer.run(work)

    async def count(self, workspace: str) -> int:
        row = (encode_text(workspace), None, None, self._clock())
        (total,) = await self._threads.reader.run(lambda connection: connection.execute(COUNT, row).fetchone())
        return int(total)

    async def list_sessions(self, owner: SessionOwner, skip: int, take: int) -> SessionPage:
        names = (owner.workspace, owner.principal, owner.user)
        wanted = (*(None if name is None else encode_text(name) for name in names), self._clock())

        def work(connection: sqlite3.Connection) -> SessionPage:
            (total,) = connection.execute(COUNT, wanted).fetchone()
            rows = connection.execute(LIST, (*wanted, take, skip)).fetchall()
            return SessionPage([decode_row(row) for row in rows], total)

        return await self._threads.reader.run(work)


def encode_session_key(key: SessionKey) -> tuple[bytes, bytes, bytes, bytes]:
    return encode_text(key.workspace), encode_text(key.principal), encode_text(key.user), encode_text(key.id)


def decode_row(row: Row) -> StoredSession:
    workspace, principal, user, identity, version, body, updated = row
    key = SessionKey(decode_text(workspace), decode_text(principal), decode_text(user), decode_text(identity))
    return StoredSession(key, version, body, updated)
