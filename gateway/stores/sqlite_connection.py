"""Connections to a SQLite file, each in a thread of its own: the event loop never touches SQLite."""

import asyncio
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import NoneType
from typing import NamedTuple, Self, TypeVar

from gateway.errors import CorruptStore, StoreError, StoreFull
from gateway.stores.sqlite_migrations import migrate

BUSY_SECONDS = 1.0  # how long one statement waits for another process's write lock
OPERATION_SECONDS = 2.0  # how long a caller waits, including the queue ahead of it
OPEN_SECONDS = 10.0  # how long workers that start together wait for each other
OPEN_RETRY_SECONDS = 0.02
KEYS_PER_QUERY = 500
CHECKPOINT_PAGES = 8000  # batches change the same pages of the indexes again and again: they are copied less often
# Python lets go of the interpreter and fights for it again with each statement: one writes as many rows as it can.
ROWS_PER_STATEMENT = 64
PREPARED_STATEMENTS = 512  # that a connection keeps: those that insert rows differ by how many there are
SWEEP_SECONDS = 60.0
SWEEP_ROWS = 500  # per sweep, so that no single write pays for a large backlog

DAMAGED = "The store {path} is damaged ({error}). It was not changed: restore a backup, or move it away."

Key = TypeVar("Key")
Result = TypeVar("Result")


class ExpirySweeper:
    """Deletes some expired rows now and then, with other writes; `statement` takes a time and a number of rows."""

    def __init__(self, statement: str) -> None:
        self._statement = statement
        self._next = 0.0

    def sweep(self, connection: sqlite3.Connection, now: float) -> None:
        """Call it in the writer's thread, within its transaction."""
        if now >= self._next:
            deleted = connection.execute(self._statement, (now, SWEEP_ROWS)).rowcount
            self._next = now if deleted == SWEEP_ROWS else now + SWEEP_SECONDS


class SqliteThread:
    """One connection in one thread."""

    def __init__(self, path: Path, name: str) -> None:
        self._path = path
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"sqlite-{name}")
        self._connection: sqlite3.Connection | None = None

    async def open(self, prepare: Callable[[sqlite3.Connection], None]) -> None:
        """Connect and `prepare` the connection; both are retried while other workers do the same."""
        try:
            await self._call(lambda: self._connect(prepare), OPEN_SECONDS + BUSY_SECONDS)
        except BaseException:
            self._thread.shutdown(wait=False)
            raise

    async def run(self, work: Callable[[sqlite3.Connection], Result], seconds: float = OPERATION_SECONDS) -> Result:
        """The result of `work`; StoreError if SQLite fails or does not answer in time."""
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
            # Work that is still queued at the deadline never runs; work that already runs may still take effect.
            async with asyncio.timeout(seconds):
                return await asyncio.get_running_loop().run_in_executor(self._thread, self._translate_errors, work)
        except TimeoutError:
            raise StoreError(f"The store {self._path} did not answer within {seconds:g} s.") from None

    def _translate_errors(self, work: Callable[[], Result]) -> Result:
        try:
            return work()
        except CorruptStore as error:
            raise CorruptStore(f"The store {self._path} cannot be used: {error}. It was not changed.") from error
        except sqlite3.Error as error:
            if _get_primary_code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                raise CorruptStore(DAMAGED.format(path=self._path, error=error)) from error
            kind = StoreFull if _get_primary_code(error) == sqlite3.SQLITE_FULL else StoreError
            raise kind(f"The store {self._path} failed: {error}.") from error

    def _connect(self, prepare: Callable[[sqlite3.Connection], None]) -> None:
        deadline = time.monotonic() + OPEN_SECONDS
        while self._connection is None:
            try:
                self._connection = _open_connection(self._path, prepare)
            except sqlite3.Error as error:
                # SQLite does not wait by itself while another worker switches the file to WAL.
                if _get_primary_code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(OPEN_RETRY_SECONDS)


class SqliteThreads(NamedTuple):
    """The writer and the reader of one file: reads go on while writes wait for a lock."""

    writer: SqliteThread
    reader: SqliteThread

    @classmethod
    async def open(cls, path: Path) -> Self:
        """Open the file, created if absent; raises CorruptStore for a damaged, newer or foreign one."""
        await asyncio.to_thread(create_file, path)
        threads = cls(SqliteThread(path, "writer"), SqliteThread(path, "reader"))
        await threads.writer.open(_prepare_writer)
        try:
            await threads.reader.open(_prepare_reader)
        except BaseException:
            await threads.writer.close()
            raise
        return threads

    async def close(self) -> None:
        await self.reader.close()
        await self.writer.close()


def create_file(path: Path) -> None:
    """Create the file for its owner only; SQLite gives its -wal and -shm files the same mode."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # An existing file is not opened here: closing it would drop the locks that this process has on it.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        if not path.is_file():
            raise StoreError(f"The store {path} cannot be created: its path is not a regular file.") from None
    except OSError as error:
        raise StoreError(f"The store {path} cannot be created: {error.strerror}.") from error


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")  # A deferred one could fail halfway when another process writes.
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        connection.rollback()
        raise


def enable_wal(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")  # survives a kill; a power cut may cost the last moments


def insert_rows(connection: sqlite3.Connection, statement: str, values: Sequence[object], width: int) -> int:
    """Insert rows, whose values follow each other, with as few statements as possible; returns how many changed."""
    changed = 0
    for start in range(0, len(values), ROWS_PER_STATEMENT * width):
        part = values[start : start + ROWS_PER_STATEMENT * width]
        changed += connection.execute(_repeat_row(statement, len(part) // width, width), part).rowcount
    return changed


@cache
def _repeat_row(statement: str, count: int, width: int) -> str:
    row = f"({', '.join('?' * width)})"
    return statement.format(", ".join([row] * count))


def split_keys(keys: Sequence[Key]) -> Iterable[Sequence[Key]]:
    """The keys in groups that are small enough for one query."""
    return (keys[start : start + KEYS_PER_QUERY] for start in range(0, len(keys), KEYS_PER_QUERY))


def _open_connection(path: Path, prepare: Callable[[sqlite3.Connection], None]) -> sqlite3.Connection:
    # For a type without an adapter, Python looks in vain for a way to convert each value that it binds, which takes
    # longer than to bind it. Of all types that SQLite has, these two are not exempt from that.
    sqlite3.register_adapter(bytes, bytes)
    sqlite3.register_adapter(NoneType, {None: None}.get)
    connection = sqlite3.connect(
        path, timeout=BUSY_SECONDS, isolation_level=None, cached_statements=PREPARED_STATEMENTS
    )
    try:
        prepare(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def check_pages(connection: sqlite3.Connection) -> None:
    """Raises CorruptStore for a damaged file; that takes about 3 ms per MB."""
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise CorruptStore(f"it is damaged ({verdict})")


def _prepare_writer(connection: sqlite3.Connection) -> None:
    check_pages(connection)
    enable_wal(connection)
    connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
    migrate(connection)


def _prepare_reader(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA query_only = ON")


def _get_primary_code(error: sqlite3.Error) -> int:
    """SQLite's result code without its extension; 0 for errors that Python's module raises itself."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
