"""Changes that are right alone and wrong together: only one of them is made, on whichever nodes they come."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from controlled import ANNA, known_types

from gateway.control.writer import Change, PolicyWriter
from gateway.domain.record import Author, RecordKey, RecordWrite
from gateway.errors import InvalidObject, StoreError
from gateway.extraction.extract import DocumentCache
from gateway.links.cache import LinkCache
from gateway.policies.context_compiler import PolicySource
from gateway.policies.materials import PolicyMaterials
from gateway.policies.repository import PolicyRepository
from gateway.settings import DocumentSettings, LinkSettings
from gateway.stores.memory_ephemeral import MemoryStore
from gateway.stores.memory_records import MemoryRecords

CONTEXT = {"resources": {"one": {"type": "text", "data": {"content": "One."}}}}


class Cluster:
    """Two nodes on one store."""

    def __init__(self, directory: Path) -> None:
        self.store, self.records = MemoryStore(), MemoryRecords()
        materials = PolicyMaterials(DocumentCache(DocumentSettings()), LinkCache(MemoryStore(), LinkSettings()))
        source = PolicySource(directory, known_types(), materials)
        self.nodes = [PolicyRepository(source, self.records) for _ in range(2)]

    async def start(self) -> None:
        for node in self.nodes:
            await node.start()
        write = RecordWrite(RecordKey(ANNA.workspace, "contexts", "seo"), orjson.dumps(CONTEXT))
        await self.nodes[0].commit([write], Author("anna", "create"))

    def desks(self) -> list[PolicyWriter]:
        return [PolicyWriter(node, self.store) for node in self.nodes]


@pytest.fixture
async def cluster(tmp_path: Path) -> Cluster:
    made = Cluster(tmp_path)
    await made.start()
    return made


async def change(
    desk: PolicyWriter, node: PolicyRepository, kind: str, alias: str, body: dict[str, Any] | None
) -> bool:
    """Look, try, dawdle, commit; whether it was possible."""
    async with desk.turn(ANNA.workspace):
        entry = node.entries(ANNA.workspace)[kind].get(alias)
        try:
            await desk.tried(ANNA.workspace, {(kind, alias): body})
        except InvalidObject:
            return False
        await asyncio.sleep(0.01)
        await desk.commit(ANNA, "update", [Change(kind, alias, body, entry.record if entry else None)])
        return True


async def race(cluster: Cluster, desks: list[PolicyWriter]) -> tuple[bool, bool]:
    """One node deletes a context while the other gives it to an agent."""
    one, two = cluster.nodes
    deleted, used = await asyncio.gather(
        change(desks[0], one, "contexts", "seo", None), change(desks[1], two, "agents", "a", {"contexts": ["seo"]})
    )
    for node in cluster.nodes:
        await node.refresh()
    return deleted, used


async def test_of_two_changes_that_exclude_each_other_one_is_made(cluster: Cluster) -> None:
    deleted, used = await race(cluster, cluster.desks())
    assert (deleted, used) in ((True, False), (False, True))
    assert [node.error for node in cluster.nodes] == [None, None]


class HastyDesk(PolicyWriter):
    """A desk whose turn counts on its own node only."""

    @asynccontextmanager
    async def turn(self, workspace: str) -> AsyncGenerator[None]:
        await self._book.refresh()
        yield


async def test_without_turns_between_nodes_both_would_be_made(cluster: Cluster) -> None:
    """The test above can fail."""
    assert await race(cluster, [HastyDesk(node, cluster.store) for node in cluster.nodes]) == (True, True)
    assert all(node.error is not None for node in cluster.nodes)


async def test_a_turn_is_given_back_at_once(cluster: Cluster) -> None:
    one, two = cluster.desks()
    began = asyncio.get_running_loop().time()
    for desk in (one, two, one, two):
        async with desk.turn("default"):
            pass
    assert asyncio.get_running_loop().time() - began < 1


async def test_a_turn_that_never_ends_is_refused_to_others(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.control.writer.PATIENCE_SECONDS", 0.05)
    one, two = cluster.desks()
    async with one.turn("default"):
        with pytest.raises(StoreError, match="busy"):
            async with two.turn("default"):
                pass
        async with two.turn("another workspace"):
            pass
