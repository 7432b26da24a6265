"""Vectors by the hash of what they were made from: derived data, in a file of their own that may be thrown away."""

import asyncio
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol, Self

from gateway.stores.sqlite_ephemeral import KEYS_PER_QUERY, Lane, create_file, transaction
from gateway.stores.sqlite_migrations import APPLICATION_ID, migrate

UNUSED_SECONDS = 30 * 86_400.0  # how long the vector of a text that is gone waits for its return
TOUCH_SECONDS = 86_400.0  # a vector in use is marked once a day at most

STEPS = (
    (
        f"PRAGMA application_id = {APPLICATION_ID}",
        "CREATE TABLE vectors (key BLOB PRIMARY KEY, value BLOB NOT NULL, used REAL NOT NULL)",
        "CREATE INDEX vectors_used ON vectors (used)",
    ),
)
PUT = """INSERT INTO vectors (key, value, used) VALUES (?, ?, ?)
    ON CONFLICT (key) DO UPDATE SET value = excluded.value, used = excluded.used"""


class VectorStore(Protocol):
    """Vectors under the hash of model and text; what is not used for a month is forgotten."""

    async def get_many(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """The vectors among `keys` that are kept, which counts as use; raises StoreError."""
        ...

    async def put_many(self, vectors: Mapping[bytes, bytes]) -> None:
        """Keep these vectors; raises StoreError when they could not be kept."""
        ...

    async def sweep(self) -> int:
        """Forget what has not been used for a month; how many that were, unless the store forgets by itself."""
        ...

    async def close(self) -> None:
        """Release files and threads; the store is not used afterwards."""
        ...


class MemoryVectors:
    """A VectorStore that a restart empties."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._kept: dict[bytes, tuple[bytes, float]] = {}

    async def get_many(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        found = {key: self._kept[key][0] for key in keys if key in self._kept}
        await self.put_many(found)
        return found

    async def put_many(self, vectors: Mapping[bytes, bytes]) -> None:
        now = self._clock()
        self._kept.update((key, (value, now)) for key, value in vectors.items())

    async def sweep(self) -> int:
        before, oldest = len(self._kept), self._clock() - UNUSED_SECONDS
        self._kept = {key: entry for key, entry in self._kept.items() if entry[1] >= oldest}
        return before - len(self._kept)

    async def close(self) -> None:
        self._kept.clear()


class SqliteVectors:
    """A VectorStore in a SQLite file that all workers of a machine share."""

    def __init__(self, lane: Lane, clock: Callable[[], float]) -> None:
        self._lane = lane
        self._clock = clock

    @classmethod
    async def open(cls, path: Path, *, clock: Callable[[], float] = time.time) -> Self:
        """Open the file, made when absent; raises CorruptStore for a damaged or foreign one."""
        await asyncio.to_thread(create_file, path)
        lane = Lane(path, "vectors")
        await lane.open(_prepare)
        return cls(lane, clock)

    async def get_many(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = {}
        stale: list[bytes] = []
        oldest = self._clock() - TOUCH_SECONDS
        for some in _chunks(keys):  # each its own operation, so that a large index does not run into the deadline
            rows = await self._lane.run(partial(_select, keys=some))
            found.update((key, value) for key, value, _ in rows)
            stale += [key for key, _, used in rows if used < oldest]
        for some in _chunks(stale):
            await self._touch(some)
        return found

    async def put_many(self, vectors: Mapping[bytes, bytes]) -> None:
        now = self._clock()
        for some in _chunks(list(vectors)):
            await self._write(PUT, [(key, vectors[key], now) for key in some])

    async def sweep(self) -> int:
        oldest = self._clock() - UNUSED_SECONDS
        return await self._lane.run(
            lambda connection: connection.execute("DELETE FROM vectors WHERE used < ?", (oldest,)).rowcount
        )

    async def close(self) -> None:
        await self._lane.close()

    async def _touch(self, keys: Sequence[bytes]) -> None:
        now = self._clock()
        await self._write("UPDATE vectors SET used = ? WHERE key = ?", [(now, key) for key in keys])

    async def _write(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        def work(connection: sqlite3.Connection) -> None:
            with transaction(connection):
                connection.executemany(statement, rows)

        await self._lane.run(work)


def _prepare(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    migrate(connection, STEPS)


def _select(connection: sqlite3.Connection, keys: Sequence[bytes]) -> list[tuple[bytes, bytes, float]]:
    marks = ",".join("?" * len(keys))
    return connection.execute(f"SELECT key, value, used FROM vectors WHERE key IN ({marks})", keys).fetchall()


def _chunks(keys: Sequence[bytes]) -> Iterable[Sequence[bytes]]:
    return (keys[start : start + KEYS_PER_QUERY] for start in range(0, len(keys), KEYS_PER_QUERY))
