"""Vectors in a SQLite file of their own: they can be computed again, so the file may be deleted."""

import asyncio
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, Self

from gateway.stores.protocols import TOUCH_SECONDS, UNUSED_SECONDS
from gateway.stores.sqlite_connection import SqliteThread, create_file, enable_wal, split_keys, transaction
from gateway.stores.sqlite_migrations import VECTOR_MIGRATIONS, migrate

PUT = """INSERT INTO vectors (key, value, used) VALUES (?, ?, ?)
    ON CONFLICT (key) DO UPDATE SET value = excluded.value, used = excluded.used"""
SELECT_MANY = "SELECT key, value, used FROM vectors WHERE key IN ({marks})"
TOUCH = "UPDATE vectors SET used = ? WHERE key = ?"
SWEEP = "DELETE FROM vectors WHERE used < ?"


class VectorRow(NamedTuple):
    """A row of the table `vectors`."""

    key: bytes
    value: bytes
    used: float


class SqliteVectorStore:
    """A VectorStore in a file that all workers on a machine share."""

    def __init__(self, thread: SqliteThread, *, clock: Callable[[], float] = time.time) -> None:
        self._thread = thread
        self._clock = clock

    @classmethod
    async def open(cls, path: Path, *, clock: Callable[[], float] = time.time) -> Self:
        """Open the file, created if absent; raises CorruptStore for a damaged or foreign one."""
        await asyncio.to_thread(create_file, path)
        thread = SqliteThread(path, "vectors")
        await thread.open(_prepare)
        return cls(thread, clock=clock)

    async def get_many(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = {}
        stale: list[bytes] = []
        oldest = self._clock() - TOUCH_SECONDS
        for batch in split_keys(keys):  # each its own operation, so that a large index does not run into the deadline
            rows = await self._thread.run(partial(_select, keys=batch))
            found.update((row.key, row.value) for row in rows)
            stale += [row.key for row in rows if row.used < oldest]
        now = self._clock()
        for batch in split_keys(stale):
            await self._write(TOUCH, [(now, key) for key in batch])
        return found

    async def put_many(self, vectors: Mapping[bytes, bytes]) -> None:
        now = self._clock()
        for batch in split_keys(list(vectors)):
            await self._write(PUT, [(key, vectors[key], now) for key in batch])

    async def sweep(self) -> int:
        oldest = self._clock() - UNUSED_SECONDS
        return await self._thread.run(lambda connection: connection.execute(SWEEP, (oldest,)).rowcount)

    async def close(self) -> None:
        await self._thread.close()

    async def _write(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        def work(connection: sqlite3.Connection) -> None:
            with transaction(connection):
                connection.executemany(statement, rows)

        await self._thread.run(work)


def _prepare(connection: sqlite3.Connection) -> None:
    enable_wal(connection)
    migrate(connection, VECTOR_MIGRATIONS)


def _select(connection: sqlite3.Connection, keys: Sequence[bytes]) -> list[VectorRow]:
    query = SELECT_MANY.format(marks=",".join("?" * len(keys)))
    return [VectorRow(*row) for row in connection.execute(query, keys)]
