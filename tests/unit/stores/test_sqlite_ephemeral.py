import asyncio
import contextlib
import random
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gateway.errors import CorruptStore, StoreError
from gateway.stores.open import open_stores
from gateway.stores.sqlite_connection import BUSY_SECONDS, SWEEP_ROWS, SWEEP_SECONDS, SqliteThread
from gateway.stores.sqlite_ephemeral import SqliteEphemeralStore
from gateway.stores.sqlite_migrations import MIGRATIONS
from tests.support.limits import with_limits

WRITE_FOR_EVER = """
import asyncio, itertools, pathlib, sys
from gateway.stores.sqlite_ephemeral import SqliteEphemeralStore

async def main():
    store = await SqliteEphemeralStore.open(pathlib.Path(sys.argv[1]))
    for number in itertools.count(int(sys.argv[2])):
        await store.put(f"key:{number}", b"%d" % number * 50, ttl=3600)
        print(number, flush=True)

asyncio.run(main())
"""

PUT_NEW_ONCE = """
import asyncio, pathlib, sys
from gateway.stores.sqlite_ephemeral import SqliteEphemeralStore

async def main():
    store = await SqliteEphemeralStore.open(pathlib.Path(sys.argv[1]))
    print((await store.put_new("secret", sys.argv[2].encode())).decode())
    await store.close()

asyncio.run(main())
"""


@pytest.fixture(autouse=True)
def patient_callers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a thread may wait for its turn longer than callers do. Tests with limits leave it at that."""
    if "limits" not in request.fixturenames:
        monkeypatch.setattr(SqliteThread.run, "__defaults__", (30.0,))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "gateway.db"


def query(path: Path, statement: str) -> list[tuple[object, ...]]:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        return connection.execute(statement).fetchall()


def overwrite(path: Path, start: int, junk: bytes) -> bytes:
    """Put `junk` into the file at `start` and return what the file holds now."""
    with path.open("r+b" if path.exists() else "wb") as file:
        file.seek(start)
        file.write(junk)
    return path.read_bytes()


def write_until_killed(path: Path, start: int, acknowledgements: int) -> int:
    """Run a writer, kill -9 it after so many acknowledged writes; the number that follows the last of them."""
    command = [sys.executable, "-c", WRITE_FOR_EVER, str(path), str(start)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        lines = [writer.stdout.readline() for _ in range(acknowledgements)]
        writer.send_signal(signal.SIGKILL)
    return int(lines[-1]) + 1


async def test_values_survive_a_reopening(path: Path) -> None:
    store = await SqliteEphemeralStore.open(path)
    await store.put("a", b"one", ttl=3600)
    await store.put_new("b", b"two")
    await store.close()
    again = await SqliteEphemeralStore.open(path)
    assert await again.get_many(["a", "b"]) == {"a": b"one", "b": b"two"}
    await again.close()


async def test_two_open_stores_see_each_others_writes_at_once(path: Path) -> None:
    one, two = await SqliteEphemeralStore.open(path), await SqliteEphemeralStore.open(path)
    await one.put("a", b"one")
    assert await two.get_many(["a"]) == {"a": b"one"}
    assert await two.put_new("a", b"two") == b"one"
    await asyncio.gather(one.close(), two.close())


def test_workers_that_start_together_agree_on_one_value(path: Path) -> None:
    command = [sys.executable, "-c", PUT_NEW_ONCE, str(path)]
    workers = [subprocess.Popen([*command, f"w{n}"], stdout=subprocess.PIPE, text=True) for n in range(4)]
    answers = [worker.communicate(timeout=30)[0].strip() for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0, 0, 0]
    assert len(set(answers)) == 1
    assert answers[0].startswith("w")


async def test_opening_waits_for_a_worker_that_is_still_making_the_file(path: Path) -> None:
    maker = sqlite3.connect(path, isolation_level=None)
    maker.execute("BEGIN EXCLUSIVE")
    opening = asyncio.create_task(SqliteEphemeralStore.open(path))
    await asyncio.sleep(1.3 * BUSY_SECONDS)
    assert not opening.done()
    maker.close()
    store = await opening
    assert await store.put_new("a", b"one") == b"one"
    await store.close()


async def test_a_killed_process_loses_no_acknowledged_write(path: Path) -> None:
    chance, acknowledged = random.Random(7), 0
    for _ in range(3):
        acknowledged = write_until_killed(path, acknowledged, chance.randint(50, 300))
    store = await SqliteEphemeralStore.open(path)
    kept = await store.get_many([f"key:{n}" for n in range(acknowledged)])
    await store.close()
    assert acknowledged > 150
    assert kept == {f"key:{n}": b"%d" % n * 50 for n in range(acknowledged)}
    assert query(path, "PRAGMA integrity_check") == [("ok",)]


async def test_file_and_folder_belong_to_their_owner_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = (await open_stores("sqlite:///./data/gateway.db")).ephemeral
    await store.put("a", b"one")
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "data").iterdir()}
    assert modes == {"gateway.db": 0o600, "gateway.db-wal": 0o600, "gateway.db-shm": 0o600}
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700
    await store.close()


async def test_four_slashes_name_an_absolute_path(path: Path) -> None:
    store = (await open_stores(f"sqlite:///{path}")).ephemeral
    await store.close()
    assert query(path, "SELECT count(*) FROM ephemeral") == [(0,)]


@pytest.mark.parametrize("url", ["", "mysql://:hunter2@host", "sqlite://", "sqlite:///", "sqlite:x.db", "sqlite:///./"])
async def test_a_url_that_names_no_store_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(StoreError) as caught:
        await open_stores(url)
    assert "sqlite:///./data/gateway.db" in str(caught.value)
    assert "hunter2" not in str(caught.value)


async def test_a_file_that_is_no_database_is_refused_and_left_alone(path: Path) -> None:
    before = overwrite(path, 0, b"certainly not a database" * 100)
    with pytest.raises(CorruptStore, match=r"gateway\.db is damaged"):
        await SqliteEphemeralStore.open(path)
    assert overwrite(path, 0, b"") == before


async def test_a_damaged_page_is_found_on_opening(path: Path) -> None:
    store = await SqliteEphemeralStore.open(path)
    await asyncio.gather(*(store.put(f"key:{n}", b"x" * 500) for n in range(200)))
    await store.close()
    before = overwrite(path, 2 * 4096, b"\xa5" * 8 * 4096)
    with pytest.raises(CorruptStore, match="damaged"):
        await SqliteEphemeralStore.open(path)
    assert overwrite(path, 0, b"") == before


async def test_a_newer_form_is_refused_with_a_way_out(path: Path) -> None:
    await (await SqliteEphemeralStore.open(path)).close()
    query(path, f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    with pytest.raises(CorruptStore, match="run a newer gateway"):
        await SqliteEphemeralStore.open(path)


async def test_the_database_of_another_program_is_refused_and_left_alone(path: Path) -> None:
    query(path, "CREATE TABLE invoices (id INTEGER)")
    with pytest.raises(CorruptStore, match="another program"):
        await SqliteEphemeralStore.open(path)
    assert query(path, "SELECT name FROM sqlite_master") == [("invoices",)]


@with_limits(loaded=(5, 20), quiet=(0.5, 3.5))  # seconds of a read, of all writes
async def test_a_locked_file_fails_writes_soon_while_reads_and_the_loop_go_on(
    path: Path, limits: tuple[float, float]
) -> None:
    read_time, write_time = limits
    store = await SqliteEphemeralStore.open(path)
    await store.put("a", b"one")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    started = time.monotonic()
    writes = [asyncio.create_task(store.put(f"b{n}", b"two")) for n in range(5)]
    await asyncio.sleep(0.05)
    assert await store.get_many(["a"]) == {"a": b"one"}
    assert time.monotonic() - started < read_time
    failures = await asyncio.gather(*writes, return_exceptions=True)
    assert [type(failure) for failure in failures] == [StoreError] * 5
    assert time.monotonic() - started < write_time
    other.execute("ROLLBACK")
    other.close()
    await store.put("b", b"three")
    assert await store.get_many(["b"]) == {"b": b"three"}
    await store.close()


async def test_a_full_disk_fails_the_write_keeps_the_rest_and_recovers(path: Path) -> None:
    store = await SqliteEphemeralStore.open(path)
    await store.put("a", b"one")
    # SQLite answers exactly as on a full disk when a file may not grow beyond its page limit.
    await store.threads.writer.run(lambda connection: connection.execute("PRAGMA max_page_count = 8"))
    with pytest.raises(StoreError, match="full"):
        await store.put("b", b"x" * 100_000)
    assert await store.get_many(["a", "b"]) == {"a": b"one"}
    await store.threads.writer.run(lambda connection: connection.execute("PRAGMA max_page_count = 100000"))
    await store.put("b", b"x" * 100_000)
    assert len(await store.get_many(["a", "b"])) == 2
    await store.close()


async def test_expired_rows_leave_the_file_in_bounded_steps(path: Path) -> None:
    now = 1000.0
    store = await SqliteEphemeralStore.open(path, clock=lambda: now)
    many = SWEEP_ROWS + 10
    await asyncio.gather(*(store.put(f"key:{n}", b"x", ttl=1) for n in range(many)))
    await store.put("kept", b"x")
    now += SWEEP_SECONDS + 1

    async def rows() -> int:
        count = "SELECT count(*) FROM ephemeral"
        return int(await store.threads.reader.run(lambda connection: connection.execute(count).fetchone()[0]))

    await store.put("kept", b"y")
    assert await rows() == 11
    await store.put("kept", b"z")
    assert await rows() == 1
    await store.close()


async def test_a_closed_store_says_so(path: Path) -> None:
    store = await SqliteEphemeralStore.open(path)
    await store.close()
    with pytest.raises(StoreError, match="closed"):
        await store.put("a", b"one")


async def test_a_place_where_nothing_can_be_made_is_a_store_error(tmp_path: Path) -> None:
    overwrite(tmp_path / "file", 0, b"")
    for place in (tmp_path, tmp_path / "file" / "gateway.db", tmp_path / "file" / "sub" / "gateway.db"):
        with pytest.raises(StoreError, match="cannot be created"):
            await SqliteEphemeralStore.open(place)


@pytest.mark.parametrize("value", [b"value", None])
async def test_a_value_is_bound_without_a_search_for_its_adapter(path: Path, value: bytes | None) -> None:
    kind = (type(value), sqlite3.PrepareProtocol)
    sqlite3.adapters.pop(kind, None)
    store = await SqliteEphemeralStore.open(path)
    await store.close()
    assert sqlite3.adapters[kind](value) is value
