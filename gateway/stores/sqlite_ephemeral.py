"""The embedded store: one SQLite file, shared by all workers of a machine."""

import asyncio
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Self, TypeVar

from gateway.errors import CorruptStore, StoreError, StoreFull
from gateway.stores.codec import counted, encoded
from gateway.stores.sqlite_migrations import migrate

BUSY_SECONDS = 1.0  # how long one statement waits for another process's write lock
OPERATION_SECONDS = 2.0  # how long a caller waits, the queue before it included
OPEN_SECONDS = 10.0  # how long workers that start together wait for each other
SWEEP_SECONDS = 60.0
SWEEP_ROWS = 500  # per sweep, so that no single write pays for a large backlog
KEYS_PER_QUERY = 500

PUT = """INSERT INTO ephemeral (key, value, expires) VALUES (?, ?, ?)
    ON CONFLICT (key) DO UPDATE SET value = excluded.value, expires = excluded.expires"""
PUT_NEW = """INSERT INTO ephemeral (key, value, expires) VALUES (?, ?, NULL)
    ON CONFLICT (key) DO UPDATE SET value = excluded.value, expires = NULL WHERE ephemeral.expires <= ?"""
LEASE = PUT + " WHERE ephemeral.value = excluded.value OR ephemeral.expires <= ?"
LIVE = "SELECT value, expires FROM ephemeral WHERE key = ? AND (expires IS NULL OR expires > ?)"
SWEEP = "DELETE FROM ephemeral WHERE key IN (SELECT key FROM ephemeral WHERE expires <= ? ORDER BY expires LIMIT ?)"

DAMAGED = "The store {path} is damaged ({error}). It was left as it is: restore a copy of it, or move it away."

Result = TypeVar("Result")


class Lane:
    """One connection in one thread of its own; the loop never touches SQLite."""

    def __init__(self, path: Path, name: str) -> None:
        self._path = path
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"sqlite-{name}")
        self._connection: sqlite3.Connection | None = None

    async def open(self, prepare: Callable[[sqlite3.Connection], None]) -> None:
        """Connect and `prepare` the connection; both are tried again while other workers do the same."""
        try:
            await self._call(lambda: self._open(prepare), OPEN_SECONDS + BUSY_SECONDS)
        except BaseException:
            self._thread.shutdown(wait=False)
            raise

    async def run(self, work: Callable[[sqlite3.Connection], Result], seconds: float = OPERATION_SECONDS) -> Result:
        """The result of `work`; StoreError when SQLite fails or does not answer in time."""
        connection = self._connection
        if connection is None:
            raise StoreError(f"The store {self._path} is closed.")
        return await self._call(lambda: work(connection), seconds)

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await self._call(connection.close, OPERATION_SECONDS)
        self._thread.shutdown(wait=False)

    async def _call(self, work: Callable[[], Result], seconds: float) -> Result:
        try:
            # What still waits in the queue at the deadline is never run; what already runs may still take effect.
            async with asyncio.timeout(seconds):
                return await asyncio.get_running_loop().run_in_executor(self._thread, self._guarded, work)
        except TimeoutError:
            raise StoreError(f"The store {self._path} did not answer within {seconds:g} s.") from None

    def _guarded(self, work: Callable[[], Result]) -> Result:
        try:
            return work()
        except CorruptStore as error:
            raise CorruptStore(f"The store {self._path} cannot be used: {error}. It was left as it is.") from error
        except sqlite3.Error as error:
            if _primary_code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                raise CorruptStore(DAMAGED.format(path=self._path, error=error)) from error
            kind = StoreFull if _primary_code(error) == sqlite3.SQLITE_FULL else StoreError
            raise kind(f"The store {self._path} failed: {error}.") from error

    def _open(self, prepare: Callable[[sqlite3.Connection], None]) -> None:
        deadline = time.monotonic() + OPEN_SECONDS
        while self._connection is None:
            try:
                self._connection = _connect(self._path, prepare)
            except sqlite3.Error as error:
                # SQLite does not wait on its own while another worker switches the file to WAL.
                if _primary_code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.02)


class Lanes(NamedTuple):
    """The two ways into one file; a process has one writer, whatever it writes."""

    writes: Lane
    reads: Lane


class SqliteStore:
    """An EphemeralStore in a file; reads have their own lane, so that they go on while writes wait for a lock."""

    def __init__(self, lanes: Lanes, clock: Callable[[], float]) -> None:
        self.lanes = lanes
        self._writes, self._reads = lanes
        self._clock = clock
        self._next_sweep = 0.0

    @classmethod
    async def open(cls, path: Path, *, clock: Callable[[], float] = time.time) -> Self:
        """Open the file, made when absent; raises CorruptStore for a damaged, newer or foreign one."""
        await asyncio.to_thread(create_file, path)
        lanes = Lanes(Lane(path, "writes"), Lane(path, "reads"))
        await lanes.writes.open(_prepare_writes)
        try:
            await lanes.reads.open(_prepare_reads)
        except BaseException:
            await lanes.writes.close()
            raise
        return cls(lanes, clock)

    async def put(self, key: str, value: bytes, ttl: float | None = None) -> None:
        now = self._clock()
        row = (encoded(key), value, None if ttl is None else now + ttl)

        def work(connection: sqlite3.Connection) -> None:
            with transaction(connection):
                connection.execute(PUT, row)
                self._sweep(connection, now)

        await self._writes.run(work)

    async def put_new(self, key: str, value: bytes) -> bytes:
        name, now = encoded(key), self._clock()

        def work(connection: sqlite3.Connection) -> bytes:
            with transaction(connection):
                connection.execute(PUT_NEW, (name, value, now))
                (kept,) = connection.execute("SELECT value FROM ephemeral WHERE key = ?", (name,)).fetchone()
                return bytes(kept)

        return await self._writes.run(work)

    async def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        if not keys:
            return {}
        names, now = {encoded(key): key for key in keys}, self._clock()
        rows = await self._reads.run(lambda connection: _select(connection, list(names), now))
        return {names[name]: value for name, value in rows}

    async def add(self, key: str, amount: int, ttl: float) -> int:
        name, now = encoded(key), self._clock()

        def work(connection: sqlite3.Connection) -> int:
            with transaction(connection):
                value, expires = connection.execute(LIVE, (name, now)).fetchone() or (b"0", now + ttl)
                total = counted(key, value) + amount
                connection.execute(PUT, (name, b"%d" % total, expires))
                self._sweep(connection, now)
            return total

        return await self._writes.run(work)

    async def lease(self, key: str, owner: str, ttl: float) -> bool:
        now = self._clock()
        row = (encoded(key), encoded(owner), now + ttl, now)

        def work(connection: sqlite3.Connection) -> bool:
            with transaction(connection):
                return connection.execute(LEASE, row).rowcount == 1

        return await self._writes.run(work)

    async def close(self) -> None:
        await self._reads.close()
        await self._writes.close()

    def _sweep(self, connection: sqlite3.Connection, now: float) -> None:
        """Delete some expired rows now and then; runs in the writing thread."""
        if now >= self._next_sweep:
            swept = connection.execute(SWEEP, (now, SWEEP_ROWS)).rowcount
            self._next_sweep = now if swept == SWEEP_ROWS else now + SWEEP_SECONDS


def create_file(path: Path) -> None:
    """Make the file for its owner only; SQLite gives its -wal and -shm files the same mode."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # An existing file is not opened here: closing it would drop the locks that this process holds on it.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        if not path.is_file():
            raise StoreError(f"The store {path} cannot be made: something else is in its place.") from None
    except OSError as error:
        raise StoreError(f"The store {path} cannot be made: {error.strerror}.") from error


def _connect(path: Path, prepare: Callable[[sqlite3.Connection], None]) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
    try:
        prepare(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare_writes(connection: sqlite3.Connection) -> None:
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise CorruptStore(f"it is damaged ({verdict})")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")  # survives a kill; a power cut may cost the last moments
    migrate(connection)


def _prepare_reads(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA query_only = ON")


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")  # A deferred one could fail halfway when another process writes.
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        connection.rollback()
        raise


def _select(connection: sqlite3.Connection, names: list[bytes], now: float) -> list[tuple[bytes, bytes]]:
    rows: list[tuple[bytes, bytes]] = []
    for start in range(0, len(names), KEYS_PER_QUERY):
        some = names[start : start + KEYS_PER_QUERY]
        marks = ",".join("?" * len(some))
        query = f"SELECT key, value FROM ephemeral WHERE key IN ({marks}) AND (expires IS NULL OR expires > ?)"
        rows += connection.execute(query, (*some, now))
    return rows


def _primary_code(error: sqlite3.Error) -> int:
    """SQLite's result code without its extension; 0 for errors that Python's module raises on its own."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
