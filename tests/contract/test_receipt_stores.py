"""What every ReceiptStore promises, run on each engine."""

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from gateway.analytics.sheets import SheetMaker, read_sheets
from gateway.domain.price import TokenCount
from gateway.domain.receipt import RECEIPT_STATUSES, STARTED, Receipt, ReceiptFilter, SharedDetails
from gateway.domain.receipt_note import (
    NotedReceipt,
    NotedStart,
    NoteTemplate,
    ReceiptBatch,
    ReceiptNote,
    StartNote,
    StorableReceipt,
)
from gateway.domain.redis_address import redis_address
from gateway.errors import CorruptStore, StoreError
from gateway.ids import encode_id_time, read_id_time
from gateway.stores import memory_receipts, protocols, redis_receipts, sqlite_receipt_notes, sqlite_receipt_pruning
from gateway.stores.memory_receipts import MemoryReceiptStore
from gateway.stores.protocols import ReceiptStore
from gateway.stores.redis_connection import RedisTimeouts
from gateway.stores.redis_receipts import RedisReceiptStore
from gateway.stores.sqlite_migrations import RECEIPT_MIGRATIONS, migrate
from gateway.stores.sqlite_receipts import SqliteReceiptStore
from gateway.stores.sqlite_statistics import SqliteStatisticsStore
from tests.support.redis_server import RedisServer, running_redis

ANY = ReceiptFilter()
EACH = (
    ReceiptFilter(session="s"),
    ReceiptFilter(agent="a"),
    ReceiptFilter(content="c"),
    ReceiptFilter(resource="x/y"),
    ReceiptFilter(status="ok"),
)
BEGIN = 1_700_000_000.0  # when the first receipt of a test is made
PLENTY = 10**12  # bytes
LEASE = 0.05


def make(number: int, workspace: str = "default", **fields: Any) -> Receipt:
    """The receipt of the exchange that began `number` seconds after the first."""
    id = f"{encode_id_time(BEGIN + number)}{number:012x}"
    summary = b'{"model":"m%d"}' % number
    return Receipt(id, workspace, **{"status": "ok", "summary": summary, "details": b'{"turns":[]}', **fields})


@dataclass
class Engine:
    """A place for receipts, and a way to open it once more, as another worker does."""

    open: Callable[[], Awaitable[ReceiptStore]]


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_redis() as server:
        yield server


@pytest.fixture(params=["memory", "sqlite", "sqlite that counts", "redis"])
async def engine(request: pytest.FixtureRequest, tmp_path: Path, server: RedisServer) -> AsyncIterator[Engine]:
    async with AsyncExitStack() as stack:
        shared = MemoryReceiptStore()

        async def memory() -> ReceiptStore:
            return shared

        async def sqlite() -> ReceiptStore:
            store = await SqliteReceiptStore.open(tmp_path / "receipts.db")
            stack.push_async_callback(store.close)
            return store

        async def counting() -> ReceiptStore:
            store = await SqliteReceiptStore.open(tmp_path / "receipts.db")
            stack.push_async_callback(store.close)
            store.tally = SheetMaker(lambda model: None).tally  # noted receipts are stored in lists then
            return store

        async def redis() -> ReceiptStore:
            store = await RedisReceiptStore.open(redis_address(server.url), RedisTimeouts(background=10))
            stack.push_async_callback(store.close)
            return store

        if request.param == "redis":
            server.client().flushall()
        yield Engine(
            {"memory": memory, "sqlite": sqlite, "sqlite that counts": counting, "redis": redis}[request.param]
        )


@pytest.fixture
async def store(engine: Engine) -> ReceiptStore:
    return await engine.open()


async def wait_until(check: Callable[[], Awaitable[bool]]) -> None:
    end = time.monotonic() + 10
    while not await check():
        assert time.monotonic() < end, "it did not happen in time"
        await asyncio.sleep(0.01)


async def list_numbers(store: ReceiptStore, criteria: ReceiptFilter = ANY, workspace: str = "default") -> list[int]:
    page = await store.list_page(workspace, criteria, None, 100)
    assert page.next is None
    return [int(receipt.id[14:], 16) for receipt in page.receipts]


async def test_a_receipt_comes_back_as_it_was_written(store: ReceiptStore) -> None:
    written = make(1, session="s\ud800", agent="writer", content="corporate/blog", resources=("a/b", "c/d"))
    await store.write(ReceiptBatch([written]), "boot")
    assert await store.find("default", written.id) == written
    page = await store.list_page("default", ANY, None, 10)
    assert page.receipts == [replace(written, details=b"")]
    assert (await store.list_page("default", ANY, None, 10, whole=True)).receipts == [written]


SHARED = SharedDetails(b'{"selection":{},"tokens":1}')
WHOLE = b'{"selection":{},"tokens":1,"turns":[]}'


async def test_shared_details_come_back_as_if_they_were_the_receipt_s_own(store: ReceiptStore) -> None:
    begun = make(2, status=STARTED)
    await store.write(ReceiptBatch([make(1), begun]), "boot")
    await store.write(ReceiptBatch([replace(begun, status="ok", shared=SHARED), make(3, shared=SHARED)]), "boot")
    page = await store.list_page("default", ANY, None, 10, whole=True)
    assert [(one.details, one.shared) for one in page.receipts] == [
        (WHOLE, None),
        (WHOLE, None),
        (b'{"turns":[]}', None),
    ]
    assert await store.find("default", make(3).id) == make(3, details=WHOLE)


async def test_a_shared_summary_comes_back_as_if_it_were_the_receipt_s_own(store: ReceiptStore) -> None:
    common = SharedDetails(b'{"selection":{}}', b'{"model":"m","error":null}')
    begun = make(1, status=STARTED, summary=b'{"at":1}')
    await store.write(ReceiptBatch([begun]), "boot")
    await store.write(
        ReceiptBatch([replace(begun, status="ok", shared=common), make(2, summary=b'{"at":2}', shared=common)]), "boot"
    )
    for whole in (False, True):
        page = await store.list_page("default", ANY, None, 10, whole)
        assert [one.summary for one in page.receipts] == [
            b'{"at":2,"model":"m","error":null}',
            b'{"at":1,"model":"m","error":null}',
        ]
    assert await store.find("default", begun.id) == replace(
        begun, status="ok", summary=b'{"at":1,"model":"m","error":null}', details=b'{"selection":{},"turns":[]}'
    )


async def test_shared_details_stay_as_long_as_a_receipt_has_them(store: ReceiptStore) -> None:
    other = SharedDetails(b'{"selection":{}}')
    await store.write(ReceiptBatch([make(1, shared=other), make(200, shared=SHARED)]), "boot")
    await store.write(ReceiptBatch([make(300, shared=SHARED)]), "boot")
    assert await store.prune(read_id_time(make(300).id), PLENTY) == 2
    assert await store.find("default", make(300).id) == make(300, details=WHOLE)
    await store.write(ReceiptBatch([make(301, shared=other)]), "boot")
    assert await store.find("default", make(301).id) == make(301, details=b'{"selection":{},"turns":[]}')


async def test_sqlite_keeps_shared_details_once_and_deletes_them_with_their_receipts(tmp_path: Path) -> None:
    file = tmp_path / "receipts.db"
    store = await SqliteReceiptStore.open(file)
    try:
        other = SharedDetails(b'{"selection":{}}')
        await store.write(ReceiptBatch([make(number, shared=other) for number in range(100)]), "boot")
        await store.write(ReceiptBatch([make(200, shared=SHARED)]), "boot")
        assert count_rows(file, "receipt_details") == 2
        assert await store.prune(read_id_time(make(200).id), PLENTY) == 100
        assert count_rows(file, "receipt_details") == 1
        assert await store.prune(read_id_time(make(400).id), PLENTY) == 1
        assert count_rows(file, "receipt_details") == 0
    finally:
        await store.close()


async def test_a_file_of_the_first_version_is_read_and_written_on(tmp_path: Path) -> None:
    file = tmp_path / "receipts.db"
    old = make(1, agent="writer")
    with closing(sqlite3.connect(file)) as connection:
        migrate(connection, RECEIPT_MIGRATIONS[:1])
        columns = "workspace, id, status, agent, resources, summary, details"
        values = (b"default", bytes.fromhex(old.id), "ok", b"writer", b"", old.summary, old.details)
        connection.execute(f"INSERT INTO receipts ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", values)
        connection.commit()
    store = await SqliteReceiptStore.open(file)
    try:
        await store.write(ReceiptBatch([make(2, shared=SHARED), make(3, status="error")]), "boot")
        assert await store.find("default", old.id) == old
        assert await list_numbers(store, ReceiptFilter(status="ok")) == [2, 1]
        assert await list_numbers(store, ReceiptFilter(status="error")) == [3]
    finally:
        await store.close()


def count_rows(file: Path, table: str) -> int:
    with closing(sqlite3.connect(file)) as connection:
        return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 127, 200, 1000])
async def test_batches_of_any_size_are_written_whole(
    store: ReceiptStore, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocols, "RECEIPT_SCAN_SECONDS", 60.0)  # on a busy machine a page would end earlier
    await store.write(ReceiptBatch([make(number, resources=("x/y", f"x/{number}")) for number in range(count)]), "boot")
    expected = [make(number).id for number in reversed(range(count))]
    for criteria in (ANY, ReceiptFilter(resource="x/y")):
        assert [one.id for one in (await store.list_page("default", criteria, None, 1001)).receipts] == expected
    assert await list_numbers(store, ReceiptFilter(resource=f"x/{count - 1}")) == [count - 1]


@pytest.mark.parametrize("id", ["", "no id", "ab", "A" * 26, "0" * 26, "0" * 25, "\ud800"])
async def test_an_id_that_nothing_has_finds_nothing(store: ReceiptStore, id: str) -> None:
    await store.write(ReceiptBatch([make(1)]), "boot")
    assert await store.find("default", id) is None
    assert not await store.delete("default", id)


async def test_another_workspace_neither_sees_nor_deletes_a_receipt(store: ReceiptStore) -> None:
    mine = make(1, session="s", agent="a", content="c", resources=("x/y",))
    await store.write(ReceiptBatch([mine]), "boot")
    assert await store.find("other", mine.id) is None
    assert not await store.delete("other", mine.id)
    for criteria in EACH:
        assert await list_numbers(store, criteria) == [1]
        assert await list_numbers(store, criteria, "other") == []
    assert await list_numbers(store, ANY, "other") == []


async def test_a_list_is_paged_newest_first_by_the_last_id(store: ReceiptStore) -> None:
    await store.write(ReceiptBatch([make(number) for number in (3, 1, 5, 2, 4)]), "boot")
    first = await store.list_page("default", ANY, None, 2)
    second = await store.list_page("default", ANY, first.next, 2)
    await store.write(ReceiptBatch([make(6)]), "boot")
    third = await store.list_page("default", ANY, second.next, 2)
    numbers = [[int(one.id[14:], 16) for one in page.receipts] for page in (first, second, third)]
    assert numbers == [[5, 4], [3, 2], [1]]
    assert third.next is None
    assert (await store.list_page("default", ANY, None, 6)).next is None


FILTERS: tuple[tuple[ReceiptFilter, list[int]], ...] = (
    (ReceiptFilter(session="s1"), [3, 1]),
    (ReceiptFilter(agent="writer"), [4, 1]),
    (ReceiptFilter(content="blog"), [3, 2]),
    (ReceiptFilter(resource="a/b"), [4, 2]),
    (ReceiptFilter(status="error"), [4]),
    (ReceiptFilter(status="ok"), [3, 2, 1]),
    (ReceiptFilter(begin=BEGIN + 2), [4, 3, 2]),
    (ReceiptFilter(end=BEGIN + 3), [2, 1]),
    (ReceiptFilter(begin=BEGIN + 2, end=BEGIN + 4), [3, 2]),
    (ReceiptFilter(begin=BEGIN + 2, resource="a/b", agent="writer"), [4]),
    (ReceiptFilter(resource="a/b", content="blog"), [2]),
    (ReceiptFilter(session="s1", content="blog", status="ok"), [3]),
    (ReceiptFilter(agent="writer", status="ok"), [1]),
    (ReceiptFilter(session="s1", status="error"), []),
    (ReceiptFilter(agent="writers"), []),
)


@pytest.mark.parametrize(("criteria", "expected"), FILTERS)
async def test_filters_can_be_combined(store: ReceiptStore, criteria: ReceiptFilter, expected: list[int]) -> None:
    await store.write(
        ReceiptBatch(
            [
                make(1, session="s1", agent="writer"),
                make(2, content="blog", resources=("a/b", "a/c")),
                make(3, session="s1", content="blog", resources=("a/bc",)),
                make(4, agent="writer", status="error", resources=("a/b",)),
                make(5, "other", session="s1", agent="writer", content="blog", resources=("a/b",)),
            ]
        ),
        "boot",
    )
    assert await list_numbers(store, criteria) == expected


async def test_a_page_looks_at_a_bounded_number_of_receipts(
    store: ReceiptStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocols, "RECEIPT_SCAN", 3)
    others = [make(number, session="s", agent="writer") for number in range(9)]
    await store.write(ReceiptBatch([*others, make(9, session="s", agent="editor")]), "boot")
    wanted, after, found = ReceiptFilter(session="s", agent="editor", begin=BEGIN), None, []
    while True:
        page = await store.list_page("default", wanted, after, 5)
        found.append(len(page.receipts))
        if (after := page.next) is None:
            break
        assert len(found) < 10
    assert found == [1, 0, 0, 0]


async def test_a_page_that_takes_long_ends(store: ReceiptStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocols, "RECEIPT_SCAN_SECONDS", 0.0)
    monkeypatch.setattr(protocols, "RECEIPT_SCAN_LEAST", 4)
    await store.write(ReceiptBatch([make(number, session="s") for number in range(9)]), "boot")
    page = await store.list_page("default", ReceiptFilter(session="s", agent="nobody"), None, 5)
    assert (page.receipts, page.next) == ([], make(5).id)


async def test_what_has_started_is_finished_once_and_never_changes_again(store: ReceiptStore) -> None:
    begun = make(1, status=STARTED, resources=("a/b",))
    done = replace(begun, status="ok", resources=("a/b", "c/d"), summary=b'{"seconds":1}')
    await store.write(ReceiptBatch([begun]), "boot")
    assert await list_numbers(store, ReceiptFilter(status=STARTED)) == [1]
    await store.write(ReceiptBatch([done]), "boot")
    await store.write(ReceiptBatch([replace(done, status="error")]), "boot")
    await store.write(ReceiptBatch([begun]), "boot")
    assert await store.find("default", done.id) == done
    for status in RECEIPT_STATUSES:
        assert await list_numbers(store, ReceiptFilter(status=status)) == ([1] if status == "ok" else [])
    assert await list_numbers(store, ReceiptFilter(resource="c/d")) == [1]
    assert await store.sweep() == 0


async def test_a_sweep_spares_what_living_processes_have_begun(engine: Engine) -> None:
    mine, theirs = await engine.open(), await engine.open()
    await mine.renew("dead", LEASE)
    await theirs.renew("alive", 60)
    await mine.write(ReceiptBatch([make(1, status=STARTED), make(2)]), "dead")
    await theirs.write(ReceiptBatch([make(3, status=STARTED)]), "alive")
    assert await theirs.sweep() == 0
    swept = [0]

    async def is_swept() -> bool:
        swept[0] += await theirs.sweep()
        return swept[0] > 0

    await wait_until(is_swept)
    assert await list_numbers(theirs, ReceiptFilter(status="aborted")) == [1]
    assert await list_numbers(theirs, ReceiptFilter(status=STARTED)) == [3]
    assert (swept, await theirs.sweep()) == ([1], 0)


async def test_a_process_that_said_goodbye_is_swept_at_once(store: ReceiptStore) -> None:
    await store.renew("one", 60)
    await store.write(ReceiptBatch([make(1, status=STARTED)]), "one")
    await store.renew("one", 0)
    assert await store.sweep() == 1


async def test_a_process_that_never_said_it_was_alive_is_swept(store: ReceiptStore) -> None:
    await store.renew("one", 0)
    await store.write(ReceiptBatch([make(1, status=STARTED)]), "one")
    assert await store.sweep() == 1


async def test_a_process_that_was_swept_too_early_has_the_last_word(store: ReceiptStore) -> None:
    begun = make(1, status=STARTED)
    await store.renew("slow", 0)
    await store.write(ReceiptBatch([begun]), "slow")
    assert await store.sweep() == 1
    await store.write(ReceiptBatch([replace(begun, status="ok")]), "slow")
    assert await list_numbers(store, ReceiptFilter(status="ok")) == [1]
    assert await list_numbers(store, ReceiptFilter(status="aborted")) == []
    await store.write(ReceiptBatch([replace(begun, status="error")]), "slow")
    assert await list_numbers(store, ReceiptFilter(status="ok")) == [1]


async def test_a_deleted_receipt_is_in_no_list(store: ReceiptStore) -> None:
    gone = make(1, session="s", agent="a", content="c", resources=("x/y", "x/z"))
    await store.write(ReceiptBatch([gone, make(2)]), "boot")
    assert await store.delete("default", gone.id)
    assert not await store.delete("default", gone.id)
    assert await store.find("default", gone.id) is None
    assert await list_numbers(store) == [2]
    for criteria in EACH:
        assert await list_numbers(store, criteria) == ([2] if criteria.status else [])


async def test_old_receipts_are_pruned_in_bounded_steps(store: ReceiptStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (memory_receipts, sqlite_receipt_pruning, redis_receipts):
        monkeypatch.setattr(module, "PRUNE_LIMIT", 2)
    await store.write(ReceiptBatch([make(number, resources=("x/y",)) for number in range(1, 6)]), "boot")
    before = read_id_time(make(4).id)
    assert [await store.prune(before, PLENTY) for _ in range(3)] == [2, 1, 0]
    assert await list_numbers(store) == await list_numbers(store, ReceiptFilter(resource="x/y")) == [5, 4]


async def test_the_oldest_go_while_all_are_too_large(store: ReceiptStore) -> None:
    await store.write(ReceiptBatch([make(number, details=b'"%s"' % (b"x" * 2000)) for number in range(500)]), "boot")
    kept = 500
    while deleted := await store.prune(0, 400_000):
        kept -= deleted
    assert 0 <= kept < 200
    page = await store.list_page("default", ANY, None, 1000)
    assert [one.id for one in page.receipts] == [make(number).id for number in range(499, 499 - kept, -1)]
    await store.write(ReceiptBatch([make(1000)]), "boot")
    assert await store.prune(0, 400_000) == 0


async def test_whoever_has_the_most_makes_room(store: ReceiptStore) -> None:
    """A tenant's receipts are not evicted by those of another, however many these are and however new."""
    details = b'"%s"' % (b"x" * 2000)
    quiet = [replace(make(number, details=details), workspace="quiet") for number in range(20)]
    for start in range(0, 600, 100):
        await store.write(
            ReceiptBatch([make(1000 + number, details=details) for number in range(start, start + 100)]), "boot"
        )
    await store.write(ReceiptBatch(quiet), "boot")
    while await store.prune(0, 400_000):
        pass
    left = await store.list_page("quiet", ANY, None, 1000)
    assert [one.id for one in left.receipts] == [one.id for one in reversed(quiet)]
    loud = (await store.list_page("default", ANY, None, 1000)).receipts
    assert 0 < len(loud) < 200
    assert loud[0].id == make(1599).id


async def test_memory_drops_the_oldest_of_whoever_has_the_most() -> None:
    store = MemoryReceiptStore(capacity=10)
    await store.write(ReceiptBatch([replace(make(number), workspace="quiet") for number in range(3)]), "boot")
    for number in range(100, 200):
        await store.write(ReceiptBatch([make(number)]), "boot")
    assert await list_numbers(store, workspace="quiet") == [2, 1, 0]
    assert await list_numbers(store) == list(range(199, 192, -1))


async def test_writing_nothing_is_fine(store: ReceiptStore) -> None:
    await store.write(ReceiptBatch([]), "boot")
    assert await list_numbers(store) == []


async def test_memory_keeps_only_so_many() -> None:
    store = MemoryReceiptStore(capacity=3)
    await store.write(ReceiptBatch([make(number) for number in range(5)]), "boot")
    assert await list_numbers(store) == [4, 3, 2]


async def test_a_server_that_does_not_answer_is_an_error_and_recovers(server: RedisServer) -> None:
    timeouts = RedisTimeouts(background=0.2, connect=1.0, probe_interval=0.05)
    store = await RedisReceiptStore.open(redis_address(server.url), timeouts)
    try:
        server.freeze()
        with pytest.raises(StoreError):
            await store.write(ReceiptBatch([make(1)]), "boot")
    finally:
        server.thaw()

    async def is_written() -> bool:
        try:
            await store.write(ReceiptBatch([make(1)]), "boot")
        except StoreError:
            return False
        return True

    await wait_until(is_written)
    assert (await store.find("default", make(1).id)) == make(1)
    await store.close()


async def test_a_file_of_another_program_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "receipts.db"
    file.write_bytes(b"this is no database" * 100)
    with pytest.raises(CorruptStore):
        await SqliteReceiptStore.open(file)
    assert file.read_bytes() == b"this is no database" * 100


async def test_a_damaged_page_is_found_on_opening(tmp_path: Path) -> None:
    file = tmp_path / "receipts.db"
    store = await SqliteReceiptStore.open(file)
    await store.write(ReceiptBatch([make(number) for number in range(200)]), "boot")
    await store.close()
    whole = file.read_bytes()
    file.write_bytes(damaged := whole[:8192] + b"\xa5" * 4096 + whole[12288:])
    with pytest.raises(CorruptStore, match="damaged"):
        await SqliteReceiptStore.open(file)
    assert file.read_bytes() == damaged


COMMON = SharedDetails(b'{"selection":{}}', b'{"model":"m"}')
EDITOR = NoteTemplate("default", "editor", "site/page", ("a/b", "c/d"), COMMON, b"{}", b'"up"')
WRITER = NoteTemplate("default", "writer", None, (), COMMON, b'{"budget":5}', b'"up"')


def note(number: float, template: NoteTemplate = EDITOR) -> NotedReceipt:
    """A receipt of which only what differs is noted; its number has three decimals."""
    id = f"{encode_id_time(BEGIN + number)}{round(number * 1000):012x}"
    times = [1.001, 1.002, 1.003, 1.004]
    usage, tokens = b'{"prompt_tokens":3,"completion_tokens":1}', TokenCount(3, 0, 1)
    return NotedReceipt(template, ReceiptNote(id, 0.25, 200, usage, tokens, None, 200, 0.125, 1.0, times))


def start(number: float, template: NoteTemplate = EDITOR) -> NotedStart:
    """What is noted of the same exchange while it goes on."""
    return NotedStart(template, StartNote(note(number).id, 1.0, [1.001, 1.002, 1.003, 1.004]))


async def list_ids(store: ReceiptStore, criteria: ReceiptFilter = ANY, take: int = 100) -> list[str]:
    """The ids of all pages, in their order."""
    found: list[str] = []
    after = None
    while True:
        page = await store.list_page("default", criteria, after, take)
        found += [one.id for one in page.receipts]
        after = page.next
        if after is None:
            return found


async def test_a_noted_receipt_comes_back_written_out(store: ReceiptStore) -> None:
    await store.write(ReceiptBatch([note(1.001), note(1.002), note(1.003, WRITER)]), "boot")
    for one in (note(1.002), note(1.003, WRITER)):
        assert await store.find("default", one.id) == one.render().merge_shared()
    found = await store.find("default", note(1.003).id)
    assert found is not None
    assert found.summary == (
        b'{"at":"2023-11-14T22:13:21.003Z","seconds":0.25,"http_status":200,'
        b'"usage":{"prompt_tokens":3,"completion_tokens":1},"cached_tokens":0,"cost":null,"model":"m"}'
    )
    assert found.details == (
        b'{"selection":{},"scope":{"budget":5},"turns":[{"upstream":"up","status":200,"first_byte_ms":125.000,'
        b'"usage":{"prompt_tokens":3,"completion_tokens":1},"cached_tokens":0,"cost":null}],"tools":[],'
        b'"timings":{"decode_ms":1.000,"scope_ms":1.000,"build_ms":1.000,"compose_ms":1.000,"first_byte_ms":125.000,'
        b'"total_ms":250.000}}'
    )
    page = await store.list_page("default", ANY, None, 10, whole=True)
    assert page.receipts == [one.render().merge_shared() for one in (note(1.003, WRITER), note(1.002), note(1.001))]
    assert await store.find("other", note(1.001).id) is None
    assert await store.find("default", note(1.0015).id) is None


async def test_redis_writes_out_noted_receipts_call_by_call(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.client().flushall()
    store = await RedisReceiptStore.open(redis_address(server.url), RedisTimeouts(background=10))
    rendered, written, write = list[str](), list[int](), store._write_some

    def render(one: NotedReceipt) -> Receipt:
        rendered.append(one.id)
        return real(one)

    async def write_some(receipts: Sequence[Receipt], boot: str) -> None:
        written.append(len(rendered))
        await write(receipts, boot)

    real = NotedReceipt.render
    monkeypatch.setattr(NotedReceipt, "render", render)
    monkeypatch.setattr(store, "_write_some", write_some)
    size = redis_receipts.WRITTEN
    notes = [note(1 + number / 1000) for number in range(2 * size + 1)]
    await store.write(ReceiptBatch(notes), "boot")
    assert written == [size, 2 * size, 2 * size + 1]
    assert await list_ids(store) == [one.id for one in reversed(notes)]
    await store.close()


@pytest.mark.parametrize("take", [1, 2, 3, 7, 100])
async def test_pages_and_filters_go_over_noted_and_other_receipts(store: ReceiptStore, take: int) -> None:
    """Lists of several templates and batches, whose ids mingle with each other and with those of single receipts."""
    notes = [note(number / 10, EDITOR if number % 3 else WRITER) for number in range(60)]
    others = [
        replace(note(number / 10 + 0.05).render(), agent="editor", resources=("a/b",), status=status)
        for number, status in ((3, "ok"), (4, "error"), (17, "ok"), (33, STARTED), (59, "ok"))
    ]
    for batch in (notes[::2], others, notes[1::2]):
        await store.write(ReceiptBatch(batch), "boot")
    rendered = sorted([*(one.render() for one in notes), *others], key=lambda one: one.id, reverse=True)
    middle = read_id_time(note(2.5).id)
    for criteria in (
        ANY,
        *(ReceiptFilter(agent=name) for name in ("editor", "writer", "nobody")),
        *(ReceiptFilter(resource=name) for name in ("a/b", "c/d", "e/f")),
        *(ReceiptFilter(status=name) for name in ("ok", "error", STARTED)),
        ReceiptFilter(content="site/page"),
        ReceiptFilter(session="s"),
        ReceiptFilter(content="site/page", resource="c/d", agent="editor", status="ok"),
        ReceiptFilter(begin=middle),
        ReceiptFilter(end=middle, agent="writer"),
        ReceiptFilter(begin=middle, end=middle + 1.05),
    ):
        wanted = [
            one.id
            for one in rendered
            if criteria.matches(one)
            and (criteria.begin is None or read_id_time(one.id) >= criteria.begin)
            and (criteria.end is None or read_id_time(one.id) < criteria.end)
        ]
        assert await list_ids(store, criteria, take) == wanted, criteria


async def test_a_noted_receipt_is_deleted_alone(store: ReceiptStore) -> None:
    notes = [note(1 + number / 100) for number in range(4)]
    await store.write(ReceiptBatch(notes), "boot")
    for gone, left in ((3, [2, 1, 0]), (0, [2, 1]), (2, [1]), (1, [])):
        assert await store.delete("default", notes[gone].id)
        assert not await store.delete("default", notes[gone].id)
        for criteria in (ANY, ReceiptFilter(agent="editor"), ReceiptFilter(resource="c/d")):
            assert await list_ids(store, criteria) == [notes[one].id for one in left]


async def test_noted_receipts_are_pruned_by_age_and_size(store: ReceiptStore) -> None:
    await store.write(ReceiptBatch([note(1), note(1.1), make(2), note(500), note(500.1, WRITER)]), "boot")
    assert await store.prune(BEGIN, PLENTY) == 0
    gone = 0
    while count := await store.prune(read_id_time(note(400).id), PLENTY):
        gone += count
    assert gone == 3
    assert await list_ids(store, ReceiptFilter(resource="a/b")) == [note(500).id]
    while await store.prune(BEGIN, 0):
        pass
    assert await list_ids(store) == []


async def test_whose_receipts_take_the_most_is_found_without_reading_all_lists(tmp_path: Path) -> None:
    store = await SqliteReceiptStore.open(tmp_path / "receipts.db")
    await store.close()
    with closing(sqlite3.connect(tmp_path / "receipts.db")) as connection:
        for workspace, count in ((b"small", 1000), (b"large", 3000)):
            ids = [number.to_bytes(13, "big") for number in range(count)]
            rows = [(workspace, id, id, b"", b"", 2, b"x" * 1000) for id in ids]
            columns = "workspace, first, last, resources, shared, receipts, body"
            connection.executemany(f"INSERT INTO receipt_notes ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
        asked: list[str] = []
        connection.set_trace_callback(asked.append)
        found = sqlite_receipt_pruning.find_largest(connection, used=8_000_000)
        assert found == (b"large", 6000, 6_000_000)
        connection.set_trace_callback(None)
        plans = [str(row[3]) for query in asked for row in connection.execute(f"EXPLAIN QUERY PLAN {query}")]
        assert [plan for plan in plans if plan.startswith("SCAN receipt") and "COVERING" not in plan] == []


async def test_what_is_left_of_a_list_is_pruned_no_later_than_before(store: ReceiptStore) -> None:
    await store.write(ReceiptBatch([note(1), note(1.1)]), "boot")
    await store.write(ReceiptBatch([note(500)]), "boot")
    assert await store.delete("default", note(1.1).id)
    assert await store.prune(read_id_time(note(400).id), PLENTY) == 1
    assert await list_ids(store) == [note(500).id]


async def test_a_noted_receipt_without_what_it_shared_is_still_json(tmp_path: Path) -> None:
    file = tmp_path / "receipts.db"
    store = await SqliteReceiptStore.open(file)
    store.tally = SheetMaker(lambda model: None).tally
    await store.write(ReceiptBatch([note(1)]), "boot")
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("DELETE FROM receipt_details")
        connection.commit()
    found = await store.find("default", note(1).id)
    assert found is not None
    assert "selection" not in msgspec.json.decode(found.details)
    assert "model" not in msgspec.json.decode(found.summary)
    await store.close()


async def test_noted_receipts_that_are_written_again_are_there_once(store: ReceiptStore) -> None:
    notes = [note(1 + number / 100) for number in range(4)]
    for _ in range(2):
        await store.write(ReceiptBatch(notes), "boot")
    assert await list_ids(store) == [one.id for one in reversed(notes)]


async def test_after_a_write_that_seemed_to_fail_nothing_is_stored_or_counted_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, notes = tmp_path / "receipts.db", [note(1 + number / 100) for number in range(4)]
    store = await SqliteReceiptStore.open(file)
    statistics = await SqliteStatisticsStore.open(file)
    store.tally = SheetMaker(lambda model: None).tally
    run = store._writer.run

    async def run_too_long(*given: Any) -> Any:
        await run(*given)
        raise StoreError("It did not answer in time.")

    with monkeypatch.context() as patched:
        patched.setattr(store._writer, "run", run_too_long)
        with pytest.raises(StoreError):
            await store.write(ReceiptBatch(notes[:2]), "boot")
    await store.write(ReceiptBatch(notes), "boot")
    assert await list_ids(store) == [one.id for one in reversed(notes)]
    waiting = await statistics.read_uncounted(10)
    counted = read_sheets(waiting.sheets).exchanges.values()
    assert (waiting.receipts, sum(tally.counters[0] for tally in counted)) == ([], 4)
    await statistics.close()
    await store.close()


async def test_what_seemed_not_to_be_stored_may_be_written_again_among_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, notes = tmp_path / "receipts.db", [note(1 + number / 100) for number in range(4)]
    store = await SqliteReceiptStore.open(file)
    statistics = await SqliteStatisticsStore.open(file)
    store.tally = SheetMaker(lambda model: None).tally
    run = store._writer.run

    async def run_too_long(*given: Any) -> Any:
        await run(*given)
        raise StoreError("It did not answer in time.")

    with monkeypatch.context() as patched:
        patched.setattr(store._writer, "run", run_too_long)
        with pytest.raises(StoreError):
            await store.write(ReceiptBatch(notes[:2]), "boot")
    for again in ([notes[0], notes[2]], [notes[1], notes[3]]):
        await store.write(ReceiptBatch(again), "boot")
    assert await list_ids(store) == [one.id for one in reversed(notes)]
    waiting = await statistics.read_uncounted(10)
    counted = read_sheets(waiting.sheets).exchanges.values()
    assert (waiting.receipts, sum(tally.counters[0] for tally in counted)) == ([], 4)
    await statistics.close()
    await store.close()


async def test_what_seemed_not_to_be_stored_may_stand_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Noted receipts are written out if another one of their batch was finished before."""
    file, known, noted = tmp_path / "receipts.db", make(1), note(1.01)
    store = await SqliteReceiptStore.open(file)
    statistics = await SqliteStatisticsStore.open(file)
    store.tally = SheetMaker(lambda model: None).tally
    await store.write(ReceiptBatch([known]), "boot")
    run = store._writer.run

    async def run_too_long(*given: Any) -> Any:
        outcome = await run(*given)
        if await store.find("default", noted.id) is not None:
            raise StoreError("It did not answer in time.")
        return outcome

    with monkeypatch.context() as patched:
        patched.setattr(store._writer, "run", run_too_long)
        with pytest.raises(StoreError):
            await store.write(ReceiptBatch([known, noted]), "boot")
    await store.write(ReceiptBatch([noted]), "boot")
    waiting = await statistics.read_uncounted(10)
    counted = read_sheets(waiting.sheets).exchanges.values()
    assert ([one.id for one in waiting.receipts], sum(tally.counters[0] for tally in counted)) == ([noted.id], 1)
    assert await store.delete("default", noted.id)
    assert await store.find("default", noted.id) is None
    await statistics.close()
    await store.close()


async def test_what_is_stored_is_found_without_reading_lists_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that failed has as long to look for a thousand receipts as for a single one."""
    store = await SqliteReceiptStore.open(tmp_path / "receipts.db")
    store.tally = SheetMaker(lambda model: None).tally
    notes = [note(1 + number / 1000, WRITER if number % 2 else EDITOR) for number in range(500)]
    lists = 10
    for first in range(lists // 2):
        await store.write(ReceiptBatch(notes[first :: lists // 2]), "boot")
    opened = []

    def open_list(row: sqlite_receipt_notes.NoteRow) -> list[sqlite_receipt_notes.NotePosition]:
        opened.append(row.number)
        return real(row)

    real = sqlite_receipt_notes.open_list
    monkeypatch.setattr(sqlite_receipt_notes, "open_list", open_list)
    late = note(1.9)
    left = await store._drop_stored(ReceiptBatch([*notes, late]))
    assert [one.id for one in left] == [late.id]
    assert len(opened) == lists
    await store.close()


async def test_noted_receipts_wait_to_be_counted_when_figures_begin(tmp_path: Path) -> None:
    store = await SqliteReceiptStore.open(tmp_path / "receipts.db")
    store.tally = SheetMaker(lambda model: None).tally
    await store.write(ReceiptBatch([make(1), note(2), note(2.1, WRITER)]), "boot")
    statistics = await SqliteStatisticsStore.open(tmp_path / "receipts.db")
    assert len((await statistics.read_uncounted(10)).receipts) == 3
    assert await store.find("default", note(2).id) == note(2).render().merge_shared()
    assert len(await list_ids(store)) == 3
    await statistics.close()
    await store.close()


async def test_a_file_of_the_release_before_lists_gets_them(tmp_path: Path) -> None:
    file = tmp_path / "receipts.db"
    with closing(sqlite3.connect(file)) as connection:
        migrate(connection, RECEIPT_MIGRATIONS[:4])
        values = (b"default", bytes.fromhex(make(1).id), b"", b'{"at":1}', b"{}")
        connection.execute(
            "INSERT INTO receipts (workspace, id, status, resources, summary, details) VALUES (?, ?, 'ok', ?, ?, ?)",
            values,
        )
        connection.commit()
    store = await SqliteReceiptStore.open(file)
    store.tally = SheetMaker(lambda model: None).tally
    await store.write(ReceiptBatch([note(0.5), note(1.4)]), "boot")
    assert await list_ids(store) == [note(1.4).id, make(1).id, note(0.5).id]
    await store.close()
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("SELECT count(*), sum(receipts) FROM receipt_notes").fetchone() == (1, 2)


async def test_a_noted_start_comes_back_written_out(store: ReceiptStore) -> None:
    await store.write(ReceiptBatch([start(1.001), start(1.002), start(1.003, WRITER)]), "boot")
    for one in (start(1.001), start(1.003, WRITER)):
        assert await store.find("default", one.id) == one.render().merge_shared()
    found = await store.find("default", start(1.003).id)
    assert found is not None
    assert (found.status, found.agent) == (STARTED, "writer")
    assert found.summary == (
        b'{"at":"2023-11-14T22:13:21.003Z","seconds":null,"http_status":null,'
        b'"usage":null,"cached_tokens":0,"cost":null,"model":"m"}'
    )
    assert found.details == (
        b'{"selection":{},"scope":{"budget":5},"turns":[],"tools":[],"timings":{"decode_ms":1.000,"scope_ms":1.000,'
        b'"build_ms":1.000,"compose_ms":1.000,"first_byte_ms":null,"total_ms":null}}'
    )
    assert await store.find("other", start(1.001).id) is None
    assert await list_ids(store, ReceiptFilter(status=STARTED, resource="a/b")) == [start(1.002).id, start(1.001).id]


@pytest.mark.parametrize("ends_as", ["noted", "single"])
@pytest.mark.parametrize("counts", [True, False])
async def test_a_noted_start_ends_once(store: ReceiptStore, ends_as: str, counts: bool) -> None:
    if isinstance(store, SqliteReceiptStore) and counts:
        store.tally = SheetMaker(lambda model: None).tally
    numbers = [1 + number / 100 for number in range(6)]
    await store.write(ReceiptBatch([start(one) for one in numbers]), "boot")
    ended = [note(one) for one in numbers]
    final: list[StorableReceipt] = [*ended] if ends_as == "noted" else [one.render() for one in ended]
    await store.write(ReceiptBatch(final[:2]), "boot")
    assert await list_ids(store) == [one.id for one in reversed(ended)]
    assert await list_ids(store, ReceiptFilter(status=STARTED)) == [one.id for one in reversed(ended[2:])]
    assert await list_ids(store, ReceiptFilter(status="ok", agent="editor")) == [ended[1].id, ended[0].id]
    assert await list_ids(store, ReceiptFilter(resource="c/d"), take=1) == [one.id for one in reversed(ended)]
    assert await store.find("default", ended[0].id) == ended[0].render().merge_shared()
    await store.write(ReceiptBatch(final[2:]), "boot")
    assert await list_ids(store, ReceiptFilter(status=STARTED)) == []
    assert await list_ids(store, ReceiptFilter(status="ok")) == [one.id for one in reversed(ended)]


async def test_noted_starts_of_a_process_that_is_gone_are_swept(store: ReceiptStore) -> None:
    if isinstance(store, SqliteReceiptStore):
        store.tally = SheetMaker(lambda model: None).tally
    await store.renew("alive", 60)
    await store.renew("gone", 60)
    await store.write(ReceiptBatch([start(1), start(1.1), start(1.2, WRITER)]), "gone")
    await store.write(ReceiptBatch([start(1.3)]), "alive")
    await store.write(ReceiptBatch([note(1.1)]), "gone")
    assert await store.sweep() == 0
    await store.renew("gone", 0)
    assert await store.sweep() == 2
    assert await store.sweep() == 0
    assert await list_ids(store) == [one.id for one in (start(1.3), start(1.2), note(1.1), start(1))]
    assert await list_ids(store, ReceiptFilter(status="aborted")) == [start(1.2).id, start(1).id]
    assert await list_ids(store, ReceiptFilter(status=STARTED)) == [start(1.3).id]
    swept = await store.find("default", start(1).id)
    assert swept == replace(start(1).render().merge_shared(), status="aborted")


async def test_a_swept_start_is_replaced_by_what_its_process_says(store: ReceiptStore) -> None:
    if isinstance(store, SqliteReceiptStore):
        store.tally = SheetMaker(lambda model: None).tally
    await store.renew("slow", 60)
    await store.write(ReceiptBatch([start(1), start(1.1)]), "slow")
    await store.renew("slow", 0)
    assert await store.sweep() == 2
    await store.renew("slow", 60)
    await store.write(ReceiptBatch([note(1), note(2)]), "slow")
    assert await list_ids(store, ReceiptFilter(status="ok")) == [note(2).id, note(1).id]
    assert await list_ids(store) == [note(2).id, start(1.1).id, note(1).id]
    assert await store.find("default", note(1).id) == note(1).render().merge_shared()


async def test_a_noted_start_is_deleted_alone_and_comes_back_with_its_end(store: ReceiptStore) -> None:
    if isinstance(store, SqliteReceiptStore):
        store.tally = SheetMaker(lambda model: None).tally
    await store.write(ReceiptBatch([start(1), start(1.1), start(1.2)]), "boot")
    assert await store.delete("default", start(1.1).id)
    assert not await store.delete("default", start(1.1).id)
    assert await list_ids(store) == [start(1.2).id, start(1).id]
    await store.write(ReceiptBatch([note(1.1), note(1)]), "boot")
    assert await list_ids(store) == [start(1.2).id, note(1.1).id, note(1).id]
    assert await list_ids(store, ReceiptFilter(status=STARTED)) == [start(1.2).id]


async def test_lists_of_starts_go_with_the_last_that_ends(tmp_path: Path) -> None:
    file = tmp_path / "receipts.db"
    store = await SqliteReceiptStore.open(file)
    store.tally = SheetMaker(lambda model: None).tally
    for begin in (1, 2):
        await store.write(
            ReceiptBatch([start(begin + number / 100, WRITER if number % 2 else EDITOR) for number in range(6)]), "boot"
        )
    with closing(sqlite3.connect(file)) as connection:

        def count_lists() -> int:
            (count,) = connection.execute("SELECT count(*) FROM receipt_starts").fetchone()
            return int(count)

        left = [count_lists()]
        for numbers in ((1.00, 1.01, 2.00), (1.02, 1.03, 2.02), (1.04, 2.04), (1.05, 2.01, 2.03, 2.05)):
            await store.write(
                ReceiptBatch([note(one, WRITER if round(one * 100) % 2 else EDITOR) for one in numbers]), "boot"
            )
            left.append(count_lists())
    assert left == [4, 4, 4, 2, 0]
    await store.close()


async def test_starts_whose_end_seemed_not_to_be_stored_end_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, numbers = tmp_path / "receipts.db", [1 + number / 100 for number in range(4)]
    store = await SqliteReceiptStore.open(file)
    statistics = await SqliteStatisticsStore.open(file)
    store.tally = SheetMaker(lambda model: None).tally
    run = store._writer.run

    async def run_too_long(*given: Any) -> Any:
        await run(*given)
        raise StoreError("It did not answer in time.")

    for receipts in ([start(one) for one in numbers[:2]], [note(one) for one in numbers]):
        with monkeypatch.context() as patched:
            patched.setattr(store._writer, "run", run_too_long)
            with pytest.raises(StoreError):
                await store.write(ReceiptBatch(receipts), "boot")
        await store.write(ReceiptBatch(receipts), "boot")
    assert await list_ids(store) == [note(one).id for one in reversed(numbers)]
    assert await list_ids(store, ReceiptFilter(status=STARTED)) == []
    waiting = await statistics.read_uncounted(10)
    counted = read_sheets(waiting.sheets).exchanges.values()
    assert (waiting.receipts, sum(tally.counters[0] for tally in counted)) == ([], 4)
    await statistics.close()
    await store.close()


async def test_swept_starts_wait_to_be_counted(tmp_path: Path) -> None:
    file = tmp_path / "receipts.db"
    store = await SqliteReceiptStore.open(file)
    statistics = await SqliteStatisticsStore.open(file)
    store.tally = SheetMaker(lambda model: None).tally
    await store.write(ReceiptBatch([start(1), start(1.1), start(1.2)]), "gone")
    await store.write(ReceiptBatch([note(1.1)]), "gone")
    assert await store.sweep() == 2
    waiting = await statistics.read_uncounted(10)
    assert [(one.id, one.status) for one in waiting.receipts] == [
        (start(1).id, "aborted"),
        (start(1.2).id, "aborted"),
    ]
    assert len(waiting.sheets) == 1
    await statistics.close()
    await store.close()


async def test_a_deleted_receipt_does_not_come_back_as_started(store: ReceiptStore) -> None:
    if isinstance(store, SqliteReceiptStore):
        store.tally = SheetMaker(lambda model: None).tally
    await store.write(ReceiptBatch([start(1), start(1.1), start(1.2)]), "boot")
    await store.write(ReceiptBatch([note(1.1), note(1.2).render()]), "boot")
    assert await store.delete("default", note(1.1).id)
    assert await store.delete("default", note(1.2).id)
    assert await list_ids(store) == [start(1).id]
    assert await store.find("default", note(1.1).id) is None
    await store.write(ReceiptBatch([note(1)]), "boot")
    assert await list_ids(store) == [note(1).id]
