import asyncio
import time

import pytest

from gateway.domain.record import Author, RecordKey, RecordWrite
from gateway.errors import StoreError
from gateway.settings import VersionSettings
from gateway.stores.knowledge_records import KnowledgeRecords
from gateway.stores.memory_ephemeral import MemoryEphemeralStore
from gateway.stores.memory_records import MemoryRecordStore
from gateway.stores.protocols import AuditFilter
from gateway.stores.retention import LEASE_KEY, prune_all, prune_periodically

KEY = RecordKey("default", "contexts", "seo")


async def save_versions(times: int) -> MemoryRecordStore:
    records = MemoryRecordStore()
    for number in range(times):
        await records.commit([RecordWrite(KEY, b'{"name": "%d"}' % number)], Author("anna", "update"))
    return records


async def test_the_newest_versions_are_kept() -> None:
    records = await save_versions(7)
    await prune_all(records, VersionSettings(keep=3), time.time())
    kept, total = await records.list_versions(KEY, 0, 10)
    assert ([one.version for one in kept], total) == ([7, 6, 5], 3)


async def test_the_audit_is_kept_by_its_age() -> None:
    records = await save_versions(4)
    now = time.time()
    await prune_all(records, VersionSettings(keep=50, audit_days=1), now + 86_000)
    assert (await records.list_audit("default", AuditFilter(), 0, 10))[1] == 4
    await prune_all(records, VersionSettings(keep=50, audit_days=1), now + 86_500)
    assert (await records.list_audit("default", AuditFilter(), 0, 10))[1] == 0


async def run_briefly(
    records: MemoryRecordStore, store: MemoryEphemeralStore, knowledge: KnowledgeRecords | None = None
) -> None:
    known = knowledge or KnowledgeRecords()
    task = asyncio.create_task(prune_periodically(records, known, store, VersionSettings(keep=1)))
    await asyncio.sleep(0.05)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_only_one_of_several_replicas_prunes() -> None:
    records, store = await save_versions(3), MemoryEphemeralStore()
    assert await store.lease(LEASE_KEY, "another replica", 60)
    await run_briefly(records, store)
    assert (await records.list_versions(KEY, 0, 10))[1] == 3


async def test_versions_of_the_knowledge_graph_are_deleted_too() -> None:
    knowledge, key = KnowledgeRecords(), RecordKey("default", "entities", "lamp")
    graph = await knowledge.open()
    assert graph is not None
    for _ in range(3):
        await graph.commit([RecordWrite(key, b"{}")], Author("anna", "update"))
    await run_briefly(await save_versions(1), MemoryEphemeralStore(), knowledge)
    assert (await graph.list_versions(key, 0, 10))[1] == 1


async def test_a_store_that_fails_is_tried_again_later(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(MemoryEphemeralStore):
        async def lease(self, key: str, owner: str, ttl: float) -> bool:
            raise StoreError("It is down.")

    await run_briefly(await save_versions(1), Broken())
    assert "old versions are not deleted for now: It is down." in caplog.text


async def test_it_prunes_as_soon_as_it_runs() -> None:
    records = await save_versions(3)
    await run_briefly(records, MemoryEphemeralStore())
    assert (await records.list_versions(KEY, 0, 10))[1] == 1
