import asyncio
import time

import pytest

from gateway.domain.record import Author, RecordKey, RecordWrite
from gateway.errors import StoreError
from gateway.settings import VersionSettings
from gateway.stores.memory_ephemeral import MemoryStore
from gateway.stores.memory_records import MemoryRecords
from gateway.stores.protocols import AuditFilter
from gateway.stores.retention import LEASE, forget, prune

KEY = RecordKey("default", "contexts", "seo")


async def saved(times: int) -> MemoryRecords:
    records = MemoryRecords()
    for number in range(times):
        await records.commit([RecordWrite(KEY, b'{"name": "%d"}' % number)], Author("anna", "update"))
    return records


async def test_the_newest_versions_are_kept() -> None:
    records = await saved(7)
    await prune(records, VersionSettings(keep=3), time.time())
    kept, total = await records.versions(KEY, 0, 10)
    assert ([one.version for one in kept], total) == ([7, 6, 5], 3)


async def test_the_audit_is_kept_by_its_age() -> None:
    records = await saved(4)
    now = time.time()
    await prune(records, VersionSettings(keep=50, audit_days=1), now + 86_000)
    assert (await records.audit("default", AuditFilter(), 0, 10))[1] == 4
    await prune(records, VersionSettings(keep=50, audit_days=1), now + 86_500)
    assert (await records.audit("default", AuditFilter(), 0, 10))[1] == 0


async def run_briefly(records: MemoryRecords, store: MemoryStore) -> None:
    task = asyncio.create_task(forget(records, store, VersionSettings(keep=1)))
    await asyncio.sleep(0.05)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_only_one_of_several_nodes_forgets() -> None:
    records, store = await saved(3), MemoryStore()
    assert await store.lease(LEASE, "another node", 60)
    await run_briefly(records, store)
    assert (await records.versions(KEY, 0, 10))[1] == 3


async def test_a_store_that_fails_is_tried_again_later(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(MemoryStore):
        async def lease(self, key: str, owner: str, ttl: float) -> bool:
            raise StoreError("It is down.")

    await run_briefly(await saved(1), Broken())
    assert "old versions stay for now: It is down." in caplog.text


async def test_it_forgets_as_soon_as_it_runs() -> None:
    records = await saved(3)
    await run_briefly(records, MemoryStore())
    assert (await records.versions(KEY, 0, 10))[1] == 1
