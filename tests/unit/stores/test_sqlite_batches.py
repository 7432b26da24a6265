"""Appended values in a SQLite file: several processes, kills, full disks, what is swept, and what was there before."""

import asyncio
import random
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from gateway.errors import StoreError, StoreFull
from gateway.stores import sqlite_batches
from gateway.stores.sqlite_batches import SWEPT_ROWS, append_batch, find_values, hash_keys
from gateway.stores.sqlite_connection import SWEEP_SECONDS
from gateway.stores.sqlite_ephemeral import SqliteEphemeralStore
from gateway.stores.sqlite_migrations import MIGRATIONS, migrate

BEFORE_BATCHES, BEFORE_BUCKETS = MIGRATIONS[:-2], MIGRATIONS[:-1]
APPEND_FOR_EVER = """
import asyncio, itertools, pathlib, sys
from gateway.stores.sqlite_ephemeral import SqliteEphemeralStore

async def main():
    store = await SqliteEphemeralStore.open(pathlib.Path(sys.argv[1]))
    for batch in itertools.count(int(sys.argv[2])):
        await store.append_many({f"{batch}:{n}": b"%d" % n * 20 for n in range(100)}, 3600)
        print(batch, flush=True)

asyncio.run(main())
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "gateway.db"


async def query(store: SqliteEphemeralStore, statement: str) -> list[tuple[int, ...]]:
    return await store.threads.reader.run(lambda connection: connection.execute(statement).fetchall())


def append_until_killed(path: Path, start: int, acknowledgements: int) -> int:
    """Run a writer, kill -9 it after so many acknowledged batches; the number that follows the last of them."""
    command = [sys.executable, "-c", APPEND_FOR_EVER, str(path), str(start)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        lines = [writer.stdout.readline() for _ in range(acknowledgements)]
        writer.send_signal(signal.SIGKILL)
    return int(lines[-1]) + 1


async def test_a_killed_process_loses_no_acknowledged_batch(path: Path) -> None:
    chance, acknowledged = random.Random(7), 0
    for _ in range(3):
        acknowledged = append_until_killed(path, acknowledged, chance.randint(50, 150))
    store = await SqliteEphemeralStore.open(path)
    wanted = {f"{batch}:{n}": b"%d" % n * 20 for batch in range(acknowledged) for n in (0, 50, 99)}
    assert await store.find_appended(list(wanted)) == wanted
    assert await query(store, "SELECT count(*) FROM batch_segments") == [(1,)]  # some of them were indexed
    assert await query(store, "PRAGMA integrity_check") == [("ok",)]
    await store.close()


async def test_processes_that_share_a_file_find_each_others_values_at_once(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_batches, "LISTED_BYTES", 64)
    stores = [await SqliteEphemeralStore.open(path) for _ in range(3)]
    for number in range(60):
        await stores[number % 3].append_many({f"a{number}": b"%d" % number, "shared": b"%d" % number}, 60)
        for store in stores:
            found = await store.find_appended([f"a{number}", "shared", "a0"])
            assert found == {f"a{number}": b"%d" % number, "shared": b"%d" % number, "a0": b"0"}
    together = (store.append_many({f"b{n}": b"x"}, 60) for n, store in enumerate(stores * 10))
    await asyncio.gather(*together)
    assert len(await stores[0].find_appended([f"b{n}" for n in range(30)])) == 30
    await asyncio.gather(*(store.close() for store in stores))


async def test_what_an_earlier_release_wrote_is_found_until_it_expires_or_is_replaced(path: Path) -> None:
    old = sqlite3.connect(path, isolation_level=None)
    migrate(old, BEFORE_BATCHES)
    old.execute("INSERT INTO ephemeral VALUES (x'61', x'31', 100), (x'62', x'32', 10), (x'63', x'33', 100)")
    old.close()
    store = await SqliteEphemeralStore.open(path, clock=lambda: 50.0)
    await store.append_many({"c": b"-"}, 60)
    assert await store.find_appended(["a", "b", "c"]) == {"a": b"1", "c": b"-"}
    await store.close()


async def test_what_an_earlier_release_indexed_hash_by_hash_is_found_and_leaves_the_file(path: Path) -> None:
    old = sqlite3.connect(path, isolation_level=None)
    migrate(old, BEFORE_BUCKETS)
    for number, key in enumerate((b"a", b"b"), 1):
        old.execute("INSERT INTO batch_rows VALUES (?, 100, ?)", (number, msgspec.msgpack.encode({key: key * 2})))
        old.execute("INSERT INTO batch_index VALUES (0, ?, ?)", (*hash_keys(b"", [key]), number))
    old.execute("INSERT INTO batch_segments VALUES (0, 2, 2)")
    old.close()
    now = 50.0
    store = await SqliteEphemeralStore.open(path, clock=lambda: now)
    await store.append_many({"b": b"-"}, 3600)
    assert await store.find_appended(["a", "b", "c"]) == {"a": b"aa", "b": b"-"}
    now = 101.0 + SWEEP_SECONDS
    for _ in range(3):
        await store.append_many({"c": b"x"}, 60)
    assert await store.find_appended(["a", "b", "c"]) == {"b": b"-", "c": b"x"}
    assert await query(store, "SELECT count(*) FROM batch_index") == [(0,)]
    await store.close()


async def test_a_full_disk_fails_the_batch_keeps_the_rest_and_recovers(path: Path) -> None:
    store = await SqliteEphemeralStore.open(path)
    await store.append_many({"a": b"one"}, 60)
    [(pages,)] = await query(store, "PRAGMA page_count")
    await store.threads.writer.run(lambda connection: connection.execute(f"PRAGMA max_page_count = {pages + 1}"))
    with pytest.raises(StoreFull):
        await store.append_many({"a": b"two", "b": b"x" * 100_000}, 60)
    assert await store.find_appended(["a", "b"]) == {"a": b"one"}
    await store.threads.writer.run(lambda connection: connection.execute("PRAGMA max_page_count = 100000"))
    await store.append_many({"a": b"two", "b": b"x" * 100_000}, 60)
    assert len((await store.find_appended(["a", "b"]))["b"]) == 100_000
    await store.close()


async def test_a_locked_file_fails_batches_while_others_are_found(path: Path) -> None:
    store = await SqliteEphemeralStore.open(path)
    await store.append_many({"a": b"one"}, 60)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    writing = asyncio.create_task(store.append_many({"b": b"two"}, 60))
    await asyncio.sleep(0.05)
    assert await store.find_appended(["a", "b"]) == {"a": b"one"}
    with pytest.raises(StoreError):
        await writing
    other.close()
    await store.append_many({"b": b"two"}, 60)
    assert await store.find_appended(["a", "b"]) == {"a": b"one", "b": b"two"}
    await store.close()


async def test_expired_batches_leave_the_file_in_bounded_steps(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, limit in (("LISTED_BYTES", 8), ("LISTED_ROWS", 1), ("SEGMENT_SIZE", 16), ("SWEPT_HASHES", 8)):
        monkeypatch.setattr(sqlite_batches, name, limit)
    now = 1000.0
    store = await SqliteEphemeralStore.open(path, clock=lambda: now)
    for number in range(SWEPT_ROWS + 10):
        await store.append_many({str(number): b"x"}, 1)
    counts = "SELECT (SELECT count(*) FROM batch_rows), (SELECT count(*) FROM batch_segments)"
    assert await query(store, counts) == [(SWEPT_ROWS + 10, 4)]
    now += SWEEP_SECONDS + 1
    await store.append_many({"kept": b"y"}, 3600)
    assert await query(store, counts) == [(11, 4)]
    for _ in range(12):
        await store.append_many({"kept": b"y"}, 3600)
    assert (await query(store, counts))[0] == (13, 2)  # the last segment still leads to some of them
    assert await store.find_appended(["0", "kept"]) == {"kept": b"y"}
    assert await query(store, "SELECT count(DISTINCT id / 128) FROM batch_buckets") == [(2,)]
    await store.close()


async def test_buckets_whose_segment_an_earlier_release_dropped_leave_the_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, limit in (("LISTED_BYTES", 8), ("LISTED_ROWS", 1), ("SEGMENT_SIZE", 4), ("SWEEP_SECONDS", 0)):
        monkeypatch.setattr(sqlite_batches, name, limit)
    store = await SqliteEphemeralStore.open(path)
    for number in range(20):
        await store.append_many({str(number): b"x"}, 3600)
    await store.threads.writer.run(
        lambda connection: connection.execute("DELETE FROM batch_segments WHERE segment < 2")
    )
    await store.append_many({"last": b"x"}, 3600)
    assert await query(store, "SELECT min(id / 128) FROM batch_buckets") == [(2,)]
    await store.close()


async def test_numbers_are_not_used_twice(path: Path) -> None:
    now = 1000.0
    store = await SqliteEphemeralStore.open(path, clock=lambda: now)
    for _ in range(3):
        await store.append_many({"a": b"x"}, 1)
        now += SWEEP_SECONDS + 1
    assert await query(store, "SELECT number FROM batch_rows") == [(3,)]
    await store.close()


def test_keys_with_the_same_hash_are_told_apart(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_batches, "hash_keys", lambda _, ends: [7 for _ in ends])
    monkeypatch.setattr(sqlite_batches, "LISTED_ROWS", 0)  # everything is indexed at once
    connection = sqlite3.connect(path, isolation_level=None)
    migrate(connection)
    for key in (b"a", b"b", b"c"):
        append_batch(connection, {key: key * 2}, 10)
    assert find_values(connection, [b"a", b"b", b"d"], 5) == {b"a": b"aa", b"b": b"bb"}
    connection.close()


def test_hashes_fit_beside_the_number_of_a_row() -> None:
    hashes = hash_keys(b"", [b"%d" % number for number in range(10_000)])
    assert hash_keys(b"a:", [b"b"]) == hash_keys(b"", [b"a:b"])
    assert max(hashes) < 2**31
    assert len(set(hashes)) > 9_990
