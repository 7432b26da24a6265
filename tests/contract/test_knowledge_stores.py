"""What the knowledge graph promises on every engine: kept, shared with other replicas, bounded."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import orjson
import pytest

from gateway.domain.record import Author, RecordKey, RecordWrite
from gateway.errors import QuotaExceeded, VersionConflict
from gateway.knowledge.repository import KnowledgeRepository
from gateway.settings import QuotaSettings
from gateway.stores.knowledge_records import KnowledgeRecords
from gateway.stores.open import Stores, open_stores
from gateway.stores.redis_connection import RedisTimeouts
from tests.support.redis_server import RedisServer, running_redis

ADA = Author("ada", "update")
TIDE: dict[str, Any] = {"type": "Term", "name": "Spring tide"}


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_redis() as server:
        yield server


class Engine:
    """Opens the same stores again and again, as several replicas do."""

    def __init__(self, url: str, stack: AsyncExitStack) -> None:
        self.url, self.stack = url, stack
        self.shared = KnowledgeRecords() if url == "memory:" else None

    async def open(self, **quotas: int) -> KnowledgeRepository:
        stores: Stores = await open_stores(self.url, RedisTimeouts(call=10))
        self.stack.push_async_callback(stores.close)
        repository = KnowledgeRepository(self.shared or stores.knowledge, quotas=QuotaSettings(**quotas))
        await repository.start()
        return repository


@pytest.fixture(params=["memory", "sqlite", "redis"])
async def engine(request: pytest.FixtureRequest, tmp_path: Path, server: RedisServer) -> AsyncIterator[Engine]:
    urls = {"memory": "memory:", "sqlite": f"sqlite:///{tmp_path / 'g.db'}", "redis": server.url}
    async with AsyncExitStack() as stack:
        if request.param == "redis":
            server.client().flushall()
        yield Engine(urls[request.param], stack)


def write(
    identity: str, body: dict[str, Any] | None, expected: int | None = None, kind: str = "entities"
) -> RecordWrite:
    raw = None if body is None else orjson.dumps(body)
    return RecordWrite(RecordKey("ours", kind, identity), raw, expected)


def names(repository: KnowledgeRepository, workspace: str = "ours") -> list[str]:
    return sorted(one.name for one in repository.get(workspace).graph.items.entities.values())


async def test_what_is_stored_is_there_after_a_restart_and_nowhere_else(engine: Engine) -> None:
    first = await engine.open()
    await first.commit([write("tide", TIDE), write("law", {"types": ["Term"], "text": "Twice."}, kind="axioms")], ADA)
    again = await engine.open()
    assert names(again) == ["Spring tide"]
    assert [one.text for one in again.get("ours").graph.items.axioms.values()] == ["Twice."]
    assert names(again, "theirs") == []
    assert again.get("ours").stored[("entities", "tide")].version == 1


async def test_another_replica_sees_changes_and_deletions(engine: Engine) -> None:
    here, there = await engine.open(), await engine.open()
    told: list[str | None] = []
    there.watch(told.append)
    await here.commit([write("tide", TIDE)], ADA)
    await there.refresh()
    assert (names(there), told) == (["Spring tide"], ["ours"])
    await here.commit([write("tide", {**TIDE, "name": "Neap tide"}, 1)], ADA)
    await there.refresh()
    assert (names(there), told) == (["Neap tide"], ["ours"])
    await here.commit([write("tide", None, 2)], ADA)
    await there.refresh()
    assert (names(there), told) == ([], ["ours", "ours"])
    assert not there.may_have("ours")


async def test_of_two_writers_the_second_is_told(engine: Engine) -> None:
    here, there = await engine.open(), await engine.open()
    await here.commit([write("tide", TIDE, 0)], ADA)
    with pytest.raises(VersionConflict):
        await there.commit([write("tide", TIDE, 0)], ADA)


async def test_quotas_hold_for_each_workspace_and_shrinking_is_never_refused(engine: Engine) -> None:
    here = await engine.open(entities=2)
    await here.commit([write("a", TIDE), write("b", TIDE)], ADA)
    with pytest.raises(QuotaExceeded, match="entities"):
        await here.commit([write("c", TIDE)], ADA)
    tight = await engine.open(entities=1, knowledge_bytes=1)
    await tight.commit([write("a", None)], ADA)
    with pytest.raises(QuotaExceeded, match="knowledge_bytes"):
        await tight.commit([write("b", {**TIDE, "name": "A much longer name than before"})], ADA)
    assert [(one.name, one.used) for one in tight.list_quotas("ours")][:2] == [("entities", 1), ("relationships", 0)]


async def test_what_this_release_cannot_read_is_left_out(engine: Engine) -> None:
    here = await engine.open()
    await here.commit([write("tide", TIDE), write("odd", {"colour": "from the future"})], ADA)
    assert names(here) == ["Spring tide"]


async def test_a_sqlite_file_is_made_with_the_first_item_only(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        engine = Engine(f"sqlite:///{tmp_path / 'g.db'}", stack)
        here, there = await engine.open(), await engine.open()
        assert not (tmp_path / "g-knowledge.db").exists()
        await here.commit([write("tide", TIDE)], ADA)
        assert (tmp_path / "g-knowledge.db").exists()
        await there.refresh()
        assert names(there) == ["Spring tide"]


async def test_an_emptied_server_empties_the_graph(server: RedisServer) -> None:
    async with AsyncExitStack() as stack:
        server.client().flushall()
        here = await Engine(server.url, stack).open()
        await here.commit([write("tide", TIDE)], ADA)
        server.client().flushall()
        await here.refresh()
        assert names(here) == []
