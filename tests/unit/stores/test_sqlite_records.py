"""Records in a file that other processes use too, that may be locked or full, and that an older gateway made."""

import asyncio
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.domain.record import Author, RecordBatch, RecordKey, RecordWrite
from gateway.errors import CorruptStore, StoreError, StoreFull, VersionConflict
from gateway.stores.open import Stores, open_stores
from gateway.stores.sqlite_connection import SqliteThread, SqliteThreads
from gateway.stores.sqlite_migrations import MIGRATIONS, migrate
from gateway.stores.sqlite_records import BATCH_ROWS, SELECT_HEAD, SqliteRecordStore
from tests.support.limits import with_limits

ADA = Author("ada", "update")
STYLE = RecordKey("default", "contexts", "style")
NORMAL = 1

COMMIT_MANY = """
import asyncio, sys
from gateway.domain.record import Author, RecordKey, RecordWrite
from gateway.stores.open import open_stores

async def main():
    stores = await open_stores(f"sqlite:///{sys.argv[1]}")
    write = RecordWrite(RecordKey("default", "contexts", "style"), b"{}")
    for number in range(50):
        await stores.records.commit([write], Author(sys.argv[2], "update"))
    await stores.close()

asyncio.run(main())
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "gateway.db"


@pytest.fixture
async def stores(path: Path) -> AsyncIterator[Stores]:
    stores = await open_stores(f"sqlite:///{path}")
    yield stores
    await stores.close()


def threads_of(stores: Stores) -> SqliteThreads:
    assert isinstance(stores.records, SqliteRecordStore)
    return stores.records.threads


def commit_from_processes(path: Path) -> None:
    command = [sys.executable, "-c", COMMIT_MANY, str(path)]
    writers = [subprocess.Popen([*command, f"w{n}"]) for n in range(3)]
    assert [writer.wait(30) for writer in writers] == [0, 0, 0]


def damage(path: Path) -> bytes:
    """What the file holds, with junk in the middle."""
    with path.open("r+b") as file:
        file.seek(8 * 4096)
        file.write(b"\xa5" * 8 * 4096)
    return path.read_bytes()


async def trace(thread: SqliteThread) -> list[str]:
    """The statements that the thread runs from now on."""
    statements: list[str] = []
    await thread.run(lambda connection: connection.set_trace_callback(statements.append))
    return statements


async def test_a_commit_reaches_the_disk_before_it_is_acknowledged(stores: Stores) -> None:
    ran = await trace(threads_of(stores).writer)
    await stores.records.commit([RecordWrite(STYLE, b"{}")], ADA)
    assert ran[:2] == ["PRAGMA synchronous = FULL", "BEGIN IMMEDIATE"]
    assert ran[-2:] == ["COMMIT", "PRAGMA synchronous = NORMAL"]


async def test_a_refused_commit_leaves_the_writer_as_it_was(stores: Stores) -> None:
    writer = threads_of(stores).writer
    with pytest.raises(VersionConflict):
        await stores.records.commit([RecordWrite(STYLE, b"{}", 3)], ADA)
    (mode,) = await writer.run(lambda connection: connection.execute("PRAGMA synchronous").fetchone())
    assert mode == NORMAL
    await stores.ephemeral.put("a", b"one")
    assert await stores.ephemeral.get_many(["a"]) == {"a": b"one"}


async def test_asking_for_changes_when_there_are_none_reads_one_row(stores: Stores) -> None:
    await stores.records.commit([RecordWrite(STYLE, b"{}")], ADA)
    here = (await stores.records.load()).position
    ran = await trace(threads_of(stores).reader)
    assert await stores.records.read_changes(here) == RecordBatch(here, ())
    assert ran == [SELECT_HEAD]


async def test_a_large_load_leaves_room_for_the_reads_of_chats(stores: Stores) -> None:
    keys = [RecordKey("default", "contexts", f"c{n}") for n in range(4 * BATCH_ROWS)]
    await stores.records.commit([RecordWrite(key, b"x" * 20_000) for key in keys], ADA)
    ran = await trace(threads_of(stores).reader)
    everything, _ = await asyncio.gather(stores.records.load(), stores.ephemeral.get_many(["a"]))
    assert len(everything.records) == len(keys)
    (place,) = (number for number, statement in enumerate(ran) if "FROM ephemeral" in statement)
    assert len(ran) - place >= 4  # it waited for one part of the load at most


async def test_records_survive_a_reopening_with_their_history(stores: Stores, path: Path) -> None:
    await stores.records.commit([RecordWrite(STYLE, b"{}")], ADA)
    before = await stores.records.load()
    await stores.close()
    again = await open_stores(f"sqlite:///{path}")
    assert await again.records.load() == before
    assert await again.records.read_changes(before.position) == RecordBatch(before.position, ())
    await again.close()


async def test_a_file_of_the_first_form_is_brought_forward_with_what_it_holds(path: Path) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    migrate(connection, MIGRATIONS[:1])
    connection.execute("INSERT INTO ephemeral VALUES (x'61', x'62', NULL)")
    connection.close()
    stores = await open_stores(f"sqlite:///{path}")
    assert await stores.ephemeral.get_many(["a"]) == {"a": b"b"}
    assert len(await stores.records.commit([RecordWrite(STYLE, b"{}", 0)], ADA)) == 1
    await stores.close()


def test_two_files_have_two_histories(tmp_path: Path) -> None:
    epochs = set()
    for name in ("one.db", "two.db"):
        connection = sqlite3.connect(tmp_path / name, isolation_level=None)
        migrate(connection)
        epochs.add(connection.execute(SELECT_HEAD).fetchone())
        connection.close()
    assert len(epochs) == 2


async def test_processes_that_commit_at_once_lose_nothing(stores: Stores, path: Path) -> None:
    start = (await stores.records.load()).position
    await asyncio.to_thread(commit_from_processes, path)
    kept, total = await stores.records.list_versions(STYLE, 0, 200)
    assert total == 150
    assert [record.version for record in kept] == list(range(150, 0, -1))
    found = await stores.records.read_changes(start)
    assert found is not None
    assert (found.records, found.position.number) == ((kept[0],), 150)


@with_limits(loaded=8, quiet=2.5)  # seconds
async def test_a_locked_file_refuses_a_commit_soon_while_reads_go_on(stores: Stores, path: Path, limits: float) -> None:
    (kept,) = await stores.records.commit([RecordWrite(STYLE, b"1")], ADA)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    began = time.monotonic()
    committing = asyncio.create_task(stores.records.commit([RecordWrite(STYLE, b"2")], ADA))
    assert (await stores.records.load()).records == (kept,)
    with pytest.raises(StoreError, match="locked"):
        await committing
    assert time.monotonic() - began < limits
    other.execute("ROLLBACK")
    other.close()
    assert (await stores.records.commit([RecordWrite(STYLE, b"3", 1)], ADA))[0].version == 2


async def test_a_full_disk_refuses_the_whole_commit_and_recovers(stores: Stores) -> None:
    writer = threads_of(stores).writer
    (kept,) = await stores.records.commit([RecordWrite(STYLE, b"1")], ADA)
    here = (await stores.records.load()).position
    # SQLite answers exactly as on a full disk when a file may not grow beyond its page limit.
    await writer.run(lambda connection: connection.execute("PRAGMA max_page_count = 8"))
    large = RecordWrite(STYLE._replace(alias="large"), b"x" * 1_000_000)
    with pytest.raises(StoreFull, match="full"):
        await stores.records.commit([RecordWrite(STYLE, b"2"), large], ADA)
    assert (await stores.records.load()).records == (kept,)
    assert await stores.records.read_changes(here) == RecordBatch(here, ())
    await writer.run(lambda connection: connection.execute("PRAGMA max_page_count = 100000"))
    assert len(await stores.records.commit([RecordWrite(STYLE, b"2"), large], ADA)) == 2


async def test_a_damaged_file_is_refused_and_left_alone(stores: Stores, path: Path) -> None:
    keys = [RecordKey("default", "contexts", f"c{n}") for n in range(100)]
    await stores.records.commit([RecordWrite(key, b"x" * 2000) for key in keys], ADA)
    await stores.close()
    before = damage(path)
    with pytest.raises(CorruptStore, match="damaged"):
        await open_stores(f"sqlite:///{path}")
    assert damage(path) == before
