"""What every RecordStore promises, run on each engine."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.domain.record import Author, FeedPosition, Record, RecordBatch, RecordKey, RecordWrite
from gateway.domain.redis_address import redis_address
from gateway.errors import StoreError, VersionConflict
from gateway.stores.memory_records import MemoryRecordStore
from gateway.stores.protocols import PRUNE_LIMIT, AuditFilter, RecordStore
from gateway.stores.redis_connection import RedisTimeouts
from gateway.stores.redis_ephemeral import RedisEphemeralStore
from gateway.stores.redis_records import RedisRecordStore
from gateway.stores.sqlite_ephemeral import SqliteEphemeralStore
from gateway.stores.sqlite_records import SqliteRecordStore
from tests.support.redis_server import RedisServer, running_redis

ADA, BOB = Author("ada", "update"), Author("bob", "import")
STYLE, TONE = RecordKey("default", "contexts", "style"), RecordKey("default", "contexts", "tone")
ANY = AuditFilter()
LONG_AGO = 0.0


class Clock:
    """Time that passes by a second per question."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


@dataclass
class Engine:
    """A place for records, and a way to open it once more, as another gateway does."""

    open: Callable[[], Awaitable[RecordStore]]


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_redis() as server:
        yield server


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "sqlite", "redis"])
async def engine(
    request: pytest.FixtureRequest, tmp_path: Path, server: RedisServer, clock: Clock
) -> AsyncIterator[Engine]:
    async with AsyncExitStack() as stack:
        shared = MemoryRecordStore(clock=clock)

        async def memory() -> RecordStore:
            return shared

        async def sqlite() -> RecordStore:
            store = await SqliteEphemeralStore.open(tmp_path / "gateway.db")
            stack.push_async_callback(store.close)
            return SqliteRecordStore(store.threads, clock=clock)

        async def redis() -> RecordStore:
            # The suite asks what is kept, not how fast: a busy machine gets the time that it needs.
            store = await RedisEphemeralStore.open(redis_address(server.url), RedisTimeouts(call=10))
            stack.push_async_callback(store.close)
            return RedisRecordStore(store.connection, clock=clock)

        if request.param == "redis":
            with server.client() as client:
                client.flushall()
        yield Engine({"memory": memory, "sqlite": sqlite, "redis": redis}[request.param])


@pytest.fixture
async def store(engine: Engine) -> RecordStore:
    return await engine.open()


def put(key: RecordKey, body: bytes = b"{}", expected: int | None = None) -> RecordWrite:
    return RecordWrite(key, body, expected)


def delete(key: RecordKey, expected: int | None = None) -> RecordWrite:
    return RecordWrite(key, None, expected)


async def save(store: RecordStore, *writes: RecordWrite, author: Author = ADA) -> list[Record]:
    return await store.commit(writes, author)


async def loaded(store: RecordStore) -> dict[RecordKey, Record]:
    records = (await store.load()).records
    assert len({record.key for record in records}) == len(records)
    return {record.key: record for record in records}


async def seen(store: RecordStore, since: FeedPosition) -> RecordBatch:
    found = await store.read_changes(since)
    assert found is not None
    assert len({record.key for record in found.records}) == len(found.records)
    return found


async def refused(store: RecordStore, *writes: RecordWrite) -> tuple[Any, int]:
    with pytest.raises(VersionConflict) as caught:
        await save(store, *writes)
    return caught.value.key, caught.value.actual


async def test_an_empty_store_holds_nothing(store: RecordStore) -> None:
    everything = await store.load()
    assert everything.records == ()
    assert (everything.position.number, bool(everything.position.epoch)) == (0, True)
    assert await store.list_versions(STYLE, 0, 10) == ([], 0)
    assert await store.find_version(STYLE, 1) is None
    assert await store.list_audit("default", ANY, 0, 10) == ([], 0)
    assert await store.prune(1, 1e12) == 0


async def test_what_is_committed_is_returned_and_loaded(store: RecordStore, clock: Clock) -> None:
    (made,) = await store.commit([RecordWrite(STYLE, b'{"a":1}', 0)], Author("ada", "create"))
    assert made == Record(STYLE, made.id, 1, b'{"a":1}', clock.now, "ada", "create")
    assert made.id
    assert await loaded(store) == {STYLE: made}
    assert await store.find_version(STYLE, 1) == made


async def test_an_object_keeps_its_id_until_it_is_made_anew(store: RecordStore) -> None:
    first = RecordWrite(STYLE, b"1", id="my-own-id")
    (made,) = await save(store, first)
    (changed,) = await save(store, replace(first, id="ignored"))
    (gone,) = await save(store, delete(STYLE))
    (anew,) = await save(store, put(STYLE))
    assert [record.id for record in (made, changed, gone)] == ["my-own-id"] * 3
    assert anew.id not in ("my-own-id", "ignored", "")


async def test_new_objects_have_ids_of_their_own(store: RecordStore) -> None:
    made = await save(store, put(STYLE), put(TONE), put(STYLE._replace(workspace="other")))
    assert len({record.id for record in made}) == 3


async def test_zero_expects_that_there_is_none(store: RecordStore) -> None:
    await save(store, put(STYLE, expected=0))
    assert await refused(store, put(STYLE, b"2", 0)) == (STYLE, 1)
    await save(store, delete(STYLE, 1))
    (anew,) = await save(store, put(STYLE, b"3", 0))
    assert anew.version == 3


async def test_a_number_expects_exactly_that_version(store: RecordStore) -> None:
    await save(store, put(STYLE))
    (second,) = await save(store, put(STYLE, b"2", 1))
    for stale in (1, 3, -1, 2**70):
        assert await refused(store, put(STYLE, b"3", stale)) == (STYLE, 2)
        assert await refused(store, delete(STYLE, stale)) == (STYLE, 2)
    assert await loaded(store) == {STYLE: second}
    assert await refused(store, put(TONE, b"3", 1)) == (TONE, 0)


async def test_a_deleted_object_has_no_version_to_expect(store: RecordStore) -> None:
    await save(store, put(STYLE))
    await save(store, delete(STYLE))
    for expected in (1, 2):
        assert await refused(store, put(STYLE, b"2", expected)) == (STYLE, 0)
        assert await refused(store, delete(STYLE, expected)) == (STYLE, 0)


async def test_none_expects_nothing(store: RecordStore) -> None:
    versions = [(await save(store, put(STYLE)))[0].version for _ in range(3)]
    assert versions == [1, 2, 3]


async def test_deleting_what_does_not_exist_changes_nothing(store: RecordStore) -> None:
    await save(store, put(STYLE))
    await save(store, delete(STYLE))
    before = (await store.load()).position
    assert await save(store, delete(STYLE), delete(TONE), delete(TONE._replace(kind="agents"), 0)) == []
    assert await seen(store, before) == RecordBatch(before, ())
    assert (await store.list_audit("default", ANY, 0, 10))[1] == 2


async def test_a_commit_of_nothing_is_nothing(store: RecordStore) -> None:
    before = (await store.load()).position
    assert await save(store) == []
    assert await seen(store, before) == RecordBatch(before, ())


async def test_a_conflict_in_the_last_write_undoes_all(store: RecordStore) -> None:
    (kept,) = await save(store, put(STYLE))
    before = (await store.load()).position
    fresh = TONE._replace(alias="fresh")
    assert await refused(store, put(TONE), delete(STYLE), put(fresh, b"{}", 7)) == (fresh, 0)
    assert await loaded(store) == {STYLE: kept}
    assert await seen(store, before) == RecordBatch(before, ())
    assert await store.list_versions(TONE, 0, 10) == ([], 0)
    assert (await store.list_audit("default", ANY, 0, 10))[1] == 1


async def test_versions_go_on_after_a_deletion(store: RecordStore) -> None:
    first = await save(store, put(STYLE, b"1"))
    second = await save(store, delete(STYLE))
    assert await loaded(store) == {}
    third = await save(store, put(STYLE, b"3"))
    assert await loaded(store) == {STYLE: third[0]}
    assert await store.list_versions(STYLE, 0, 10) == ([*third, *second, *first], 3)
    assert (second[0].version, second[0].body) == (2, None)


async def test_versions_come_newest_first_in_pages(store: RecordStore) -> None:
    made = [(await save(store, put(STYLE, b"%d" % n)))[0] for n in range(7)]
    newest = made[::-1]
    assert await store.list_versions(STYLE, 0, 3) == (newest[:3], 7)
    assert await store.list_versions(STYLE, 3, 3) == (newest[3:6], 7)
    assert await store.list_versions(STYLE, 6, 3) == (newest[6:], 7)
    assert await store.list_versions(STYLE, 7, 3) == ([], 7)
    assert await store.list_versions(STYLE, 0, 0) == ([], 7)
    assert await store.list_versions(STYLE, 10**30, 10**30) == ([], 7)
    assert await store.list_versions(STYLE, 0, 10**30) == (newest, 7)


async def test_one_version_is_found_by_its_number(store: RecordStore) -> None:
    made = [(await save(store, put(STYLE, b"%d" % n)))[0] for n in range(3)]
    assert [await store.find_version(STYLE, n) for n in (1, 2, 3)] == made
    assert [await store.find_version(STYLE, n) for n in (0, -1, 4, 10**30, -(10**30))] == [None] * 5


async def test_the_feed_says_nothing_when_nothing_happened(store: RecordStore) -> None:
    await save(store, put(STYLE))
    here = (await store.load()).position
    assert await seen(store, here) == RecordBatch(here, ())


async def test_the_feed_tells_the_latest_of_what_changed(store: RecordStore) -> None:
    start = (await store.load()).position
    await save(store, put(STYLE, b"1"))
    middle = (await seen(store, start)).position
    (latest,) = await save(store, put(STYLE, b"2"))
    (other,) = await save(store, put(TONE))
    from_start, from_middle = await seen(store, start), await seen(store, middle)
    assert {r.key: r for r in from_start.records} == {STYLE: latest, TONE: other}
    assert from_start == from_middle
    assert (await store.load()).position == from_start.position
    assert from_start.position.number > middle.number > start.number


async def test_the_feed_tells_deletions(store: RecordStore) -> None:
    await save(store, put(STYLE), put(TONE))
    here = (await store.load()).position
    (gone,) = await save(store, delete(STYLE))
    assert (await seen(store, here)).records == (gone,)
    assert (gone.version, gone.body) == (2, None)


async def test_the_feed_tells_of_many_changes_at_once(store: RecordStore) -> None:
    start = (await store.load()).position
    keys = [RecordKey("default", "content", f"node-{n}") for n in range(1234)]
    made = await save(store, *(put(key, b'{"n":1}') for key in keys))
    assert [record.key for record in made] == keys
    found = await seen(store, start)
    assert {record.key: record for record in found.records} == {record.key: record for record in made}
    assert await loaded(store) == {record.key: record for record in made}
    assert await seen(store, found.position) == RecordBatch(found.position, ())


async def test_the_feed_tells_what_another_gateway_wrote(engine: Engine) -> None:
    one, two = await engine.open(), await engine.open()
    start = (await one.load()).position
    assert (await two.load()).position == start
    (mine,) = await save(one, put(STYLE))
    (theirs,) = await save(two, put(TONE), author=BOB)
    for store in (one, two):
        found = await seen(store, start)
        assert {r.key: r for r in found.records} == {STYLE: mine, TONE: theirs}
        assert await loaded(store) == {STYLE: mine, TONE: theirs}
    assert await refused(two, put(STYLE, b"2", 0)) == (STYLE, 1)


async def test_a_position_of_another_history_asks_for_a_load(store: RecordStore) -> None:
    await save(store, put(STYLE))
    here = (await store.load()).position
    assert await store.read_changes(FeedPosition("another", here.number)) is None
    assert await store.read_changes(FeedPosition("another", 0)) is None
    assert await store.read_changes(FeedPosition("", 0)) is None
    assert await store.read_changes(FeedPosition(here.epoch, here.number + 1)) is None


async def test_a_load_during_writes_shows_no_half_of_a_commit(engine: Engine) -> None:
    writer, reader = await engine.open(), await engine.open()
    pairs = [(RecordKey("default", "contexts", f"a{n}"), RecordKey("default", "agents", f"b{n}")) for n in range(60)]
    for pair in pairs:
        await save(writer, *(put(key, b"0") for key in pair))
    position = (await reader.load()).position

    async def write() -> None:
        for number in range(1, 61):
            await save(writer, *(put(key, b"%d" % number) for key in pairs[-number]))

    writing = asyncio.create_task(write())
    known: dict[RecordKey, bytes | None] = {key: b"0" for pair in pairs for key in pair}
    while not writing.done():
        await asyncio.sleep(0)  # an engine without I/O would leave the writer no turn
        bodies = {key: record.body for key, record in (await loaded(reader)).items()}
        assert [pair for pair in pairs if bodies[pair[0]] != bodies[pair[1]]] == []
        found = await seen(reader, position)
        known |= {record.key: record.body for record in found.records}
        position = found.position
        assert [pair for pair in pairs if known[pair[0]] != known[pair[1]]] == []
    await writing


async def test_the_audit_tells_who_did_what_newest_first(store: RecordStore) -> None:
    (first,) = await store.commit([RecordWrite(STYLE, b"1", changes=b'[{"op":"add"}]')], Author("ada", "create"))
    (second,) = await store.commit([RecordWrite(STYLE, None, changes=b"[]")], Author("bob", "delete"))
    lines, total = await store.list_audit("default", ANY, 0, 10)
    assert total == 2
    assert [(e.key, e.version, e.at, e.by, e.action, e.changes) for e in lines] == [
        (STYLE, 2, second.at, "bob", "delete", b"[]"),
        (STYLE, 1, first.at, "ada", "create", b'[{"op":"add"}]'),
    ]
    assert lines[0].number > lines[1].number


async def test_the_audit_comes_in_pages(store: RecordStore) -> None:
    await save(store, *(put(RecordKey("default", "contexts", f"c{n}")) for n in range(5)))
    everything, total = await store.list_audit("default", ANY, 0, 10)
    assert ([entry.key.alias for entry in everything], total) == (["c4", "c3", "c2", "c1", "c0"], 5)
    assert await store.list_audit("default", ANY, 1, 2) == (everything[1:3], 5)
    assert await store.list_audit("default", ANY, 4, 2) == (everything[4:], 5)
    assert await store.list_audit("default", ANY, 5, 2) == ([], 5)
    assert await store.list_audit("default", ANY, 0, 0) == ([], 5)
    assert await store.list_audit("default", ANY, 10**30, 10**30) == ([], 5)


async def test_the_audit_is_filtered_by_kind_alias_and_author(store: RecordStore) -> None:
    agent = RecordKey("default", "agents", "style")
    await save(store, put(STYLE), put(TONE), put(agent))
    await save(store, put(STYLE), put(agent), author=BOB)

    async def found(**wanted: str) -> list[tuple[str, str, str]]:
        lines, total = await store.list_audit("default", AuditFilter(**wanted), 0, 10)
        assert len(lines) == total
        assert (await store.list_audit("default", AuditFilter(**wanted), 1, 1))[0] == lines[1:2]
        return [(entry.key.kind, entry.key.alias, entry.by) for entry in lines]

    by_ada = [("agents", "style", "ada"), ("contexts", "tone", "ada"), ("contexts", "style", "ada")]
    assert await found(by="ada") == by_ada
    assert await found(kind="agents") == [("agents", "style", "bob"), ("agents", "style", "ada")]
    assert await found(kind="contexts", alias="style", by="bob") == [("contexts", "style", "bob")]
    assert len(await found(alias="style")) == 4
    assert await found(by="nobody") == []
    assert await found(kind="") == []


async def test_a_long_audit_is_filtered_to_its_end(store: RecordStore) -> None:
    await save(store, put(TONE), author=BOB)
    await save(store, *(put(RecordKey("default", "content", f"n{n}")) for n in range(1300)))
    await save(store, put(STYLE), author=BOB)
    lines, total = await store.list_audit("default", AuditFilter(by="bob"), 0, 10)
    assert ([entry.key for entry in lines], total) == ([STYLE, TONE], 2)
    assert (await store.list_audit("default", ANY, 1000, 2))[1] == 1302


async def test_workspaces_are_apart(store: RecordStore) -> None:
    elsewhere = STYLE._replace(workspace="other")
    (mine,) = await save(store, put(STYLE, b"mine", 0))
    (theirs,) = await save(store, put(elsewhere, b"theirs", 0), author=BOB)
    assert await loaded(store) == {STYLE: mine, elsewhere: theirs}
    await save(store, delete(elsewhere))
    assert await loaded(store) == {STYLE: mine}
    assert (await store.list_versions(STYLE, 0, 10))[1] == 1
    assert (await store.list_audit("default", AuditFilter(by="bob"), 0, 10)) == ([], 0)
    assert (await store.list_audit("other", ANY, 0, 10))[1] == 2
    assert (await store.list_audit("", ANY, 0, 10)) == ([], 0)


async def test_kinds_are_apart_and_words_do_not_run_together(store: RecordStore) -> None:
    keys = [
        RecordKey("a", "b", "c"),
        RecordKey("ab", "", "c"),
        RecordKey("a", "bc", ""),
        RecordKey("", "ab", "c"),
        RecordKey("a", "draft:b", "c"),
    ]
    keys += [
        RecordKey("a\x00b", "c", ""),
        RecordKey("a", "b\x00c", ""),
        RecordKey("a:b", "c", ""),
        RecordKey("a", "b:c", ""),
    ]
    made = await save(store, *(put(key, b"%d" % n) for n, key in enumerate(keys)))
    assert await loaded(store) == {record.key: record for record in made}
    assert len(made) == len(keys)


HOSTILE = ["", " ", "a\x00b", "\ud800", "'; DROP TABLE objects; --", "%_*?[", "nai\u0308ve", "naïve", "日本語", "🧭"]
HOSTILE += ["\r\n$5\r\n", "{tag}", "\u2028", "return redis.call('FLUSHALL')", "A", "a", "x" * 10_000, "1", "version"]


async def test_words_are_any_text_and_come_back_exactly(engine: Engine) -> None:
    store = await engine.open()
    made = []
    for word in HOSTILE:
        write = RecordWrite(RecordKey(word, word, word), b"{}", 0, word or None, b"[]")
        made += await store.commit([write], Author(word, word))
    other = await engine.open()
    assert await loaded(other) == {record.key: record for record in made}
    for word, record in zip(HOSTILE, made, strict=True):
        assert record.id == word or not word
        assert await other.list_versions(RecordKey(word, word, word), 0, 5) == ([record], 1)
        lines, total = await other.list_audit(word, AuditFilter(word, word, word), 0, 5)
        assert ([(e.key, e.by, e.action) for e in lines], total) == ([(record.key, word, word)], 1)


BODIES = [b"", b"\x00", bytes(range(256)), b"null", b"\xff\xfe", b" 1 2 3 ", b"\n", b"x" * 1_000_000]


async def test_bodies_and_changes_are_any_bytes(store: RecordStore) -> None:
    for number, body in enumerate(BODIES, 1):
        (made,) = await store.commit([RecordWrite(STYLE, body, number - 1, changes=body)], ADA)
        assert (made.body, made.version) == (body, number)
        assert (await loaded(store))[STYLE] == made
        assert await store.find_version(STYLE, number) == made
        assert type((await loaded(store))[STYLE].body) is bytes
    lines, _ = await store.list_audit("default", ANY, 0, 20)
    assert [entry.changes for entry in lines] == BODIES[::-1]


async def test_a_large_set_of_policies_is_loaded_whole(store: RecordStore) -> None:
    bodies = {RecordKey("default", "contexts", f"c{n}"): b"%04d" % n * 5000 for n in range(1000)}
    for start in range(0, 1000, 250):
        await save(store, *(put(key, bodies[key]) for key in list(bodies)[start : start + 250]))
    assert {key: record.body for key, record in (await loaded(store)).items()} == bodies


async def test_of_many_who_expect_the_same_version_one_wins(engine: Engine) -> None:
    stores = [await engine.open() for _ in range(2)]
    await save(stores[0], put(STYLE))
    attempts = [stores[n % 2].commit([put(STYLE, b"%d" % n, 1)], Author(f"{n}", "update")) for n in range(50)]
    answers = await asyncio.gather(*attempts, return_exceptions=True)
    (won,) = (answer for answer in answers if not isinstance(answer, BaseException))
    lost = [answer for answer in answers if isinstance(answer, BaseException)]
    assert {(type(answer), getattr(answer, "actual", None)) for answer in lost} == {(VersionConflict, 2)}
    assert await loaded(stores[1]) == {STYLE: won[0]}
    assert won[0].body == won[0].by.encode()
    assert (await stores[0].list_versions(STYLE, 0, 10))[1] == 2


async def test_concurrent_commits_get_numbers_of_their_own(engine: Engine) -> None:
    stores = [await engine.open() for _ in range(2)]
    made = await asyncio.gather(*(save(stores[n % 2], put(STYLE, b"%d" % n)) for n in range(40)))
    assert sorted(record.version for (record,) in made) == list(range(1, 41))
    lines, total = await stores[0].list_audit("default", ANY, 0, 100)
    assert total == 40
    assert [entry.version for entry in lines] == list(range(40, 0, -1))
    assert len({entry.number for entry in lines}) == 40


async def test_pruning_keeps_the_newest_versions(store: RecordStore) -> None:
    made = [(await save(store, put(STYLE, b"%d" % n)))[0] for n in range(6)]
    (few,) = await save(store, put(TONE))
    here = (await store.load()).position
    assert await store.prune(2, LONG_AGO) == 4
    assert await store.list_versions(STYLE, 0, 10) == ([made[5], made[4]], 2)
    assert [await store.find_version(STYLE, n) for n in (1, 4)] == [None, None]
    assert await store.prune(2, LONG_AGO) == 0
    assert await loaded(store) == {STYLE: made[5], TONE: few}
    assert await seen(store, here) == RecordBatch(here, ())
    (after,) = await save(store, put(STYLE, b"7", 6))
    assert after.version == 7
    assert (await store.list_versions(STYLE, 0, 10))[1] == 3


@pytest.mark.parametrize("keep", [1, 0, -5])
async def test_pruning_always_keeps_the_current_version(store: RecordStore, keep: int) -> None:
    await save(store, put(STYLE, b"1"))
    (current,) = await save(store, put(STYLE, b"2"))
    await save(store, put(TONE))
    (gone,) = await save(store, delete(TONE))
    assert await store.prune(keep, LONG_AGO) == 2
    assert await loaded(store) == {STYLE: current}
    assert await store.list_versions(TONE, 0, 10) == ([gone], 1)
    (anew,) = await save(store, put(TONE, b"3", 0))
    assert anew.version == 3


async def test_pruning_forgets_old_lines_of_every_workspace(store: RecordStore) -> None:
    elsewhere = STYLE._replace(workspace="other")
    old = [*await save(store, put(STYLE)), *await save(store, put(elsewhere))]
    (new,) = await save(store, put(STYLE))
    assert await store.prune(10**30, new.at) == 2
    assert [entry.at for entry in (await store.list_audit("default", ANY, 0, 10))[0]] == [new.at]
    assert await store.list_audit("other", ANY, 0, 10) == ([], 0)
    assert len(await loaded(store)) == 2
    assert await store.find_version(STYLE, 1) == old[0]
    (line,) = await save(store, put(elsewhere))
    assert (await store.list_audit("other", ANY, 0, 10))[0][0].at == line.at


async def test_pruning_does_a_bounded_amount_at_a_time(store: RecordStore) -> None:
    keys = [RecordKey("default", "content", f"n{n}") for n in range(700)]
    for _ in range(3):
        await save(store, *(put(key) for key in keys))
    counts: list[int] = []
    while counts[-1:] != [0]:
        counts.append(await store.prune(1, 1e12))
        assert len(counts) < 20
    assert sum(counts) == 1400 + 2100
    assert max(counts) <= PRUNE_LIMIT
    assert len(await loaded(store)) == 700
    assert (await store.list_audit("default", ANY, 0, 10)) == ([], 0)


async def test_a_conflict_is_a_store_error_that_names_the_version(store: RecordStore) -> None:
    await save(store, put(STYLE))
    with pytest.raises(StoreError, match="'style' is at version 1"):
        await save(store, put(STYLE, b"{}", 5))


class LastWins(MemoryRecordStore):
    """A mutant: asks for no version."""

    async def commit(self, writes: Sequence[RecordWrite], author: Author) -> list[Record]:
        return await super().commit([replace(write, expected=None) for write in writes], author)


class Piecemeal(MemoryRecordStore):
    """A mutant: makes the changes one by one until one fails."""

    async def commit(self, writes: Sequence[RecordWrite], author: Author) -> list[Record]:
        return [record for write in writes for record in await super(Piecemeal, self).commit([write], author)]


class Discreet(MemoryRecordStore):
    """A mutant: its feed keeps deletions to itself."""

    async def read_changes(self, since: FeedPosition) -> RecordBatch | None:
        found = await super().read_changes(since)
        return found and replace(found, records=tuple(r for r in found.records if r.body is not None))


class Trusting(MemoryRecordStore):
    """A mutant: takes any position for one of its own."""

    async def read_changes(self, since: FeedPosition) -> RecordBatch | None:
        return await super().read_changes(FeedPosition((await self.load()).position.epoch, 0))


class Indiscreet(MemoryRecordStore):
    """A mutant: shows everybody's audit to everybody."""

    async def list_audit(self, workspace: str, wanted: AuditFilter, skip: int, take: int) -> Any:
        found = [await super(Indiscreet, self).list_audit(name, wanted, skip, take) for name in ("default", "other")]
        return [line for lines, _ in found for line in lines], sum(total for _, total in found)


class Thorough(MemoryRecordStore):
    """A mutant: pruning leaves one version less."""

    async def prune(self, keep: int, before: float) -> int:
        return await super().prune(max(1, keep) - 1, before)


class Restarting(MemoryRecordStore):
    """A mutant: an object that is made anew begins with version 1."""

    async def commit(self, writes: Sequence[RecordWrite], author: Author) -> list[Record]:
        made = await super().commit(writes, author)
        for record in made:
            if record.body is None:
                del self._versions[record.key]
        return made


MUTANTS: list[tuple[type[MemoryRecordStore], Callable[[RecordStore], Awaitable[None]]]] = [
    (LastWins, test_a_number_expects_exactly_that_version),
    (LastWins, test_zero_expects_that_there_is_none),
    (Piecemeal, test_a_conflict_in_the_last_write_undoes_all),
    (Discreet, test_the_feed_tells_deletions),
    (Trusting, test_a_position_of_another_history_asks_for_a_load),
    (Trusting, test_the_feed_says_nothing_when_nothing_happened),
    (Indiscreet, test_workspaces_are_apart),
    (Thorough, test_pruning_keeps_the_newest_versions),
    (Restarting, test_versions_go_on_after_a_deletion),
]


@pytest.mark.parametrize(("mutant", "promise"), MUTANTS)
async def test_an_engine_that_breaks_a_promise_is_caught(
    mutant: type[MemoryRecordStore], promise: Callable[[RecordStore], Awaitable[None]]
) -> None:
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        await promise(mutant(clock=Clock()))
