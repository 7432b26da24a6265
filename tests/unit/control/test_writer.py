"""Changes that are valid alone but not together: only one of them is made, on whichever replicas they arrive."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from gateway.control.writer import Change, PolicyWriter
from gateway.domain.record import Author, RecordKey, RecordWrite
from gateway.errors import InvalidObject, StoreError
from gateway.extraction.extract import DocumentCache
from gateway.links.cache import LinkCache
from gateway.policies.context_compiler import PolicySource
from gateway.policies.materials import PolicyMaterials
from gateway.policies.repository import PolicyRepository
from gateway.settings import DocumentSettings, LinkSettings
from gateway.stores.memory_ephemeral import MemoryEphemeralStore
from gateway.stores.memory_records import MemoryRecordStore
from tests.support.control_plane import ANNA, known_types

CONTEXT = {"resources": {"one": {"type": "text", "data": {"content": "One."}}}}


class Cluster:
    """Two replicas on one store."""

    def __init__(self, directory: Path) -> None:
        self.store, self.records = MemoryEphemeralStore(), MemoryRecordStore()
        materials = PolicyMaterials(
            DocumentCache(DocumentSettings()), LinkCache(MemoryEphemeralStore(), LinkSettings())
        )
        source = PolicySource(directory, known_types(), materials)
        self.replicas = [PolicyRepository(source, self.records) for _ in range(2)]

    async def start(self) -> None:
        for replica in self.replicas:
            await replica.start()
        write = RecordWrite(RecordKey(ANNA.workspace, "contexts", "seo"), orjson.dumps(CONTEXT))
        await self.replicas[0].commit([write], Author("anna", "create"))

    def writers(self, **options: Any) -> list[PolicyWriter]:
        return [PolicyWriter(replica, self.store, **options) for replica in self.replicas]


@pytest.fixture
async def cluster(tmp_path: Path) -> Cluster:
    made = Cluster(tmp_path)
    await made.start()
    return made


async def change(
    writer: PolicyWriter, replica: PolicyRepository, kind: str, alias: str, body: dict[str, Any] | None
) -> bool:
    """Read, check, wait, commit; whether it was possible."""
    async with writer.lock(ANNA.workspace):
        entry = replica.entries(ANNA.workspace)[kind].get(alias)
        try:
            await writer.check(ANNA.workspace, {(kind, alias): body})
        except InvalidObject:
            return False
        await asyncio.sleep(0.01)
        await writer.commit(ANNA, "update", [Change(kind, alias, body, entry.record if entry else None)])
        return True


async def race(cluster: Cluster, writers: list[PolicyWriter]) -> tuple[bool, bool]:
    """One replica deletes a context while the other assigns it to an agent."""
    one, two = cluster.replicas
    deleted, used = await asyncio.gather(
        change(writers[0], one, "contexts", "seo", None), change(writers[1], two, "agents", "a", {"contexts": ["seo"]})
    )
    for replica in cluster.replicas:
        await replica.refresh()
    return deleted, used


async def test_of_two_changes_that_exclude_each_other_one_is_made(cluster: Cluster) -> None:
    deleted, used = await race(cluster, cluster.writers())
    assert (deleted, used) in ((True, False), (False, True))
    assert [replica.error for replica in cluster.replicas] == [None, None]


class UnlockedWriter(PolicyWriter):
    """A writer without a lock."""

    @asynccontextmanager
    async def lock(self, workspace: str, *, renew: bool = False) -> AsyncGenerator[None]:
        await self._policies.refresh()
        yield


async def test_without_a_lock_between_replicas_both_would_be_made(cluster: Cluster) -> None:
    """The test above can fail."""
    assert await race(cluster, [UnlockedWriter(replica, cluster.store) for replica in cluster.replicas]) == (True, True)
    assert all(replica.error is not None for replica in cluster.replicas)


async def test_a_lock_is_released_at_once(cluster: Cluster) -> None:
    one, two = cluster.writers()
    began = asyncio.get_running_loop().time()
    for writer in (one, two, one, two):
        async with writer.lock("default"):
            pass
    assert asyncio.get_running_loop().time() - began < 1


async def test_whoever_waits_too_long_for_the_lock_is_refused(cluster: Cluster) -> None:
    one, two = cluster.writers(patience=0.05)
    async with one.lock("default"):
        with pytest.raises(StoreError, match="busy"):
            async with two.lock("default"):
                pass
        async with two.lock("another workspace"):
            pass
