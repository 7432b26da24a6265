"""What every ContentStore promises beside its records, run on each engine."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from gateway.domain.content import ActivityKind, Backlink, NodeActivity, NodeLink
from gateway.domain.record import Author, FeedPosition, Record, RecordIndex, RecordKey, RecordWrite
from gateway.stores.content import ACTIVITY_PER_USER
from gateway.stores.open import Stores, open_stores
from gateway.stores.redis_connection import RedisTimeouts
from tests.support.redis_server import RedisServer, running_redis

ADA, BOB = Author("ada", "create"), Author("bob", "update")
PAGE, TASK = RecordKey("default", "content", "page"), RecordKey("default", "content", "täsk \ud800")
VIEW, EDIT = ActivityKind.VIEW, ActivityKind.EDIT


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_redis() as server:
        yield server


@dataclass
class Place:
    """Stores, and a way to open them once more."""

    url: str
    stores: Stores


@pytest.fixture(params=["memory", "sqlite", "redis"])
async def place(request: pytest.FixtureRequest, tmp_path: Path, server: RedisServer) -> AsyncIterator[Place]:
    async with AsyncExitStack() as stack:
        url = {"memory": "memory:", "sqlite": f"sqlite:///{tmp_path}/gateway.db", "redis": server.url}[request.param]
        stores = await open_stores(url, RedisTimeouts(call=10, body=10, background=10))
        stack.push_async_callback(stores.close)
        if request.param == "redis":
            await stores.ephemeral.connection.client.flushall()  # type: ignore[attr-defined]
        yield Place(url, stores)


def write(
    key: RecordKey, outline: bytes | None, *links: NodeLink, body: bytes | None = b'{"body":"long"}'
) -> RecordWrite:
    return RecordWrite(key, body, outline=outline, links=links)


async def load_one(stores: Stores) -> Record:
    (record,) = (await stores.records.load()).records
    return record


async def test_everybody_loads_the_outline_and_reads_the_whole_body(place: Place) -> None:
    stores = place.stores
    (made,) = await stores.records.commit([write(TASK, b'{"key":"t"}')], ADA)
    loaded = await load_one(stores)
    assert (loaded.body, loaded.whole_bytes, loaded.size) == (b'{"key":"t"}', 15, 15)
    changed = await stores.records.read_changes(FeedPosition((await stores.records.load()).position.epoch, 0))
    assert changed is not None
    assert changed.records == (loaded,)
    found = await stores.records.read([TASK, PAGE])
    assert list(found) == [TASK]
    assert (found[TASK].body, found[TASK].version, found[TASK].id) == (b'{"body":"long"}', 1, made.id)
    assert (found[TASK].by, found[TASK].created_by, found[TASK].at) == ("ada", "ada", loaded.at)


async def test_a_new_version_has_its_own_outline_and_keeps_its_creator(place: Place) -> None:
    stores = place.stores
    await stores.records.commit([write(PAGE, b'{"a":1}')], ADA)
    await stores.records.commit([write(PAGE, b'{"a":2}', body=b'{"body":"longer"}')], BOB)
    assert (await load_one(stores)).body == b'{"a":2}'
    found = (await stores.records.read([PAGE]))[PAGE]
    assert (found.body, found.version, found.by, found.created_by) == (b'{"body":"longer"}', 2, "bob", "ada")
    versions = await stores.records.list_versions(PAGE, 0, 10)
    assert [one.body for one in versions.records] == [b'{"body":"longer"}', b'{"body":"long"}']


async def test_a_version_without_an_outline_is_loaded_whole(place: Place) -> None:
    stores = place.stores
    await stores.records.commit([write(PAGE, b"{}", NodeLink("link", "a"))], ADA)
    await stores.records.commit([write(PAGE, None)], ADA)
    loaded = await load_one(stores)
    assert (loaded.body, loaded.whole_bytes) == (b'{"body":"long"}', None)


async def test_what_was_deleted_is_neither_read_nor_linked(place: Place) -> None:
    stores = place.stores
    await stores.records.commit([write(PAGE, b"{}", NodeLink("link", "task"))], ADA)
    await stores.records.commit([RecordWrite(PAGE, None)], BOB)
    assert (await stores.records.load()).records == ()
    assert await stores.records.read([PAGE]) == {}
    assert await stores.content.list_backlinks("default", ["task"], 10) == []
    await stores.records.commit([write(PAGE, b"{}")], BOB)
    assert (await stores.records.read([PAGE]))[PAGE].created_by == "bob"


async def test_backlinks_follow_the_links_of_the_current_version(place: Place) -> None:
    stores = place.stores
    links = (NodeLink("link", "b"), NodeLink("cites", "b"), NodeLink("link", "c"), NodeLink("link", "b"))
    await stores.records.commit([write(PAGE, b"{}", *links), write(TASK, b"{}", NodeLink("link", "b/path"))], ADA)
    both = [Backlink("cites", "page"), Backlink("link", "page"), Backlink("link", TASK.alias)]
    assert await stores.content.list_backlinks("default", ["b", "b/path"], 10) == both
    assert await stores.content.list_backlinks("default", ["b", "b/path"], 2) == both[:2]
    assert await stores.content.list_backlinks("other", ["b"], 10) == []
    await stores.records.commit([write(PAGE, b"{}", NodeLink("link", "c"))], ADA)
    assert await stores.content.list_backlinks("default", ["b"], 10) == []
    assert await stores.content.list_backlinks("default", ["c"], 10) == [Backlink("link", "page")]


async def test_what_was_written_without_an_outline_is_given_one_later(place: Place) -> None:
    stores = place.stores
    await stores.records.commit([write(PAGE, None), write(TASK, None)], ADA)
    before = await stores.records.load()
    old = {record.key: record for record in before.records}
    await stores.records.commit([write(TASK, None, body=b'{"body":"newer"}')], BOB)
    links = (NodeLink("link", "x"),)
    await stores.content.index([RecordIndex(old[PAGE], b"{}", links), RecordIndex(old[TASK], b"{}", links)])
    after = {record.key: record for record in (await stores.records.load()).records}
    assert (after[PAGE].body, after[PAGE].whole_bytes, after[PAGE].version, after[PAGE].by) == (b"{}", 15, 1, "ada")
    assert after[TASK].body == b'{"body":"newer"}'
    assert await stores.content.list_backlinks("default", ["x"], 10) == [Backlink("link", "page")]
    changed = await stores.records.read_changes(before.position)
    assert changed is not None
    assert [record.key for record in changed.records] == [TASK]


async def test_the_last_view_and_the_last_edit_of_a_node_are_remembered(place: Place) -> None:
    content = place.stores.content
    noted = [
        NodeActivity("a", "ada", VIEW, 1.0),
        NodeActivity("b", "ada", EDIT, 2.0),
        NodeActivity("a", "ada", VIEW, 3.5),
    ]
    await content.note("default", noted)
    await content.note("default", [NodeActivity("a", "ada", VIEW, 2.0), NodeActivity("a", "bob", VIEW, 9.0)])
    await content.note("other", [NodeActivity("z", "ada", VIEW, 9.0)])
    assert await content.list_recent("default", "ada", 0.0, 10) == [noted[2], noted[1]]
    assert await content.list_recent("default", "ada", 2.5, 10) == [noted[2]]
    assert await content.list_recent("default", "ada", 0.0, 1) == [noted[2]]
    assert await content.list_recent("default", "nobody", 0.0, 10) == []


async def test_a_users_activity_is_bounded(place: Place) -> None:
    content = place.stores.content
    many = [NodeActivity(f"n{number}", "ada", VIEW, float(number)) for number in range(ACTIVITY_PER_USER + 20)]
    await content.note("default", [NodeActivity("e", "ada", EDIT, 1.0)])
    for start in range(0, len(many), 100):
        await content.note("default", many[start : start + 100])
    found = await content.list_recent("default", "ada", 0.0, 10_000)
    assert len(found) == ACTIVITY_PER_USER + 1
    assert found[0] == many[-1]
    assert found[-2] == many[20]
