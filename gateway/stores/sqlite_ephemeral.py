"""Key-values in the embedded store: one SQLite file, shared by all workers on a machine."""

import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

from gateway.stores.codec import encode_text, parse_counter
from gateway.stores.protocols import CommonValue
from gateway.stores.sqlite_batches import BatchSweeper, append_batch, find_values
from gateway.stores.sqlite_connection import ExpirySweeper, SqliteThreads, split_keys, transaction

PUT = """INSERT INTO ephemeral (key, value, expires) VALUES (?, ?, ?)
    ON CONFLICT (key) DO UPDATE SET value = excluded.value, expires = excluded.expires"""
PUT_NEW = """INSERT INTO ephemeral (key, value, expires) VALUES (?, ?, NULL)
    ON CONFLICT (key) DO UPDATE SET value = excluded.value, expires = NULL WHERE ephemeral.expires <= ?"""
LEASE = PUT + " WHERE ephemeral.value = excluded.value OR ephemeral.expires <= ?"
SELECT_VALUE = "SELECT value FROM ephemeral WHERE key = ?"
SELECT_LIVE = "SELECT value, expires FROM ephemeral WHERE key = ? AND (expires IS NULL OR expires > ?)"
SELECT_MANY = "SELECT key, value FROM ephemeral WHERE key IN ({marks}) AND (expires IS NULL OR expires > ?)"
SWEEP = "DELETE FROM ephemeral WHERE key IN (SELECT key FROM ephemeral WHERE expires <= ? ORDER BY expires LIMIT ?)"


class SqliteEphemeralStore:
    """An EphemeralStore in a file, which it closes."""

    def __init__(self, threads: SqliteThreads, *, clock: Callable[[], float] = time.time) -> None:
        self.threads = threads
        self._clock = clock
        self._sweeper, self._batch_sweeper = ExpirySweeper(SWEEP), BatchSweeper()

    @classmethod
    async def open(cls, path: Path, *, clock: Callable[[], float] = time.time) -> Self:
        """Open the file, created if absent; raises CorruptStore for a damaged, newer or foreign one."""
        return cls(await SqliteThreads.open(path), clock=clock)

    async def put(self, key: str, value: bytes, ttl: float | None = None) -> None:
        now = self._clock()
        row = (encode_text(key), value, None if ttl is None else now + ttl)

        def work(connection: sqlite3.Connection) -> None:
            with transaction(connection):
                connection.execute(PUT, row)
                self._sweeper.sweep(connection, now)

        await self.threads.writer.run(work)

    async def append_many(self, values: Mapping[str, bytes], ttl: float, shared: Sequence[CommonValue] = ()) -> None:
        if not values and not shared:
            return
        now = self._clock()

        def work(connection: sqlite3.Connection) -> None:
            encoded = {encode_text(key): value for key, value in values.items()}
            with transaction(connection):
                append_batch(connection, encoded, now + ttl, shared)
                self._batch_sweeper.sweep(connection, now)

        await self.threads.writer.run(work)

    async def find_appended(self, keys: Sequence[str]) -> dict[str, bytes]:
        if not keys:
            return {}
        names, now = {encode_text(key): key for key in keys}, self._clock()

        def work(connection: sqlite3.Connection) -> dict[bytes, bytes]:
            found = find_values(connection, list(names), now)
            # Earlier releases, one of which another process may still run, wrote them as any other value.
            missing = [name for name in names if name not in found]
            return found | dict(_select_live(connection, missing, now))

        rows = await self.threads.reader.run(work)
        return {names[name]: value for name, value in rows.items()}

    async def put_new(self, key: str, value: bytes) -> bytes:
        name, now = encode_text(key), self._clock()

        def work(connection: sqlite3.Connection) -> bytes:
            with transaction(connection):
                connection.execute(PUT_NEW, (name, value, now))
                (stored,) = connection.execute(SELECT_VALUE, (name,)).fetchone()
                return bytes(stored)

        return await self.threads.writer.run(work)

    async def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        if not keys:
            return {}
        names, now = {encode_text(key): key for key in keys}, self._clock()
        rows = await self.threads.reader.run(lambda connection: _select_live(connection, list(names), now))
        return {names[name]: value for name, value in rows}

    async def add(self, key: str, amount: int, ttl: float) -> int:
        now = self._clock()

        def work(connection: sqlite3.Connection) -> int:
            with transaction(connection):
                total = _add(connection, key, amount, now, ttl)
                self._sweeper.sweep(connection, now)
            return total

        return await self.threads.writer.run(work)

    async def add_many(self, amounts: Mapping[str, int], ttl: float) -> dict[str, int]:
        now = self._clock()
        read = {encode_text(key): key for key, amount in amounts.items() if not amount}

        def work(connection: sqlite3.Connection) -> dict[str, int]:
            sums = dict.fromkeys(amounts, 0)
            with transaction(connection):
                for key, amount in amounts.items():
                    if amount:
                        sums[key] = _add(connection, key, amount, now, ttl)
                self._sweeper.sweep(connection, now)
                rows = _select_live(connection, list(read), now)
            return sums | {read[name]: parse_counter(read[name], value) for name, value in rows}

        if len(read) == len(amounts):
            kept = await self.get_many(list(amounts))
            return dict.fromkeys(amounts, 0) | {key: parse_counter(key, value) for key, value in kept.items()}
        return await self.threads.writer.run(work)

    async def lease(self, key: str, owner: str, ttl: float) -> bool:
        now = self._clock()
        row = (encode_text(key), encode_text(owner), now + ttl, now)

        def work(connection: sqlite3.Connection) -> bool:
            with transaction(connection):
                return connection.execute(LEASE, row).rowcount == 1

        return await self.threads.writer.run(work)

    async def close(self) -> None:
        await self.threads.close()


def _add(connection: sqlite3.Connection, key: str, amount: int, now: float, ttl: float) -> int:
    name = encode_text(key)
    value, expires = connection.execute(SELECT_LIVE, (name, now)).fetchone() or (b"0", now + ttl)
    total = parse_counter(key, value) + amount
    connection.execute(PUT, (name, b"%d" % total, expires))
    return total


def _select_live(connection: sqlite3.Connection, names: list[bytes], now: float) -> list[tuple[bytes, bytes]]:
    rows: list[tuple[bytes, bytes]] = []
    for batch in split_keys(names):
        query = SELECT_MANY.format(marks=",".join("?" * len(batch)))
        rows += connection.execute(query, (*batch, now))
    return rows
