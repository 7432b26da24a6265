"""Two audits are one list, whichever page of it is read."""

import random

import pytest

from gateway.control.audit import AuditLog, merge_pages
from gateway.domain.record import AuditEntry, Author, RecordKey, RecordWrite
from gateway.knowledge.repository import KnowledgeRepository
from gateway.stores.memory_records import MemoryRecordStore
from gateway.stores.protocols import AuditEntryPage, AuditFilter


class Entries:
    """An audit in memory that counts how many entries were read."""

    def __init__(self, kind: str, moments: list[int]) -> None:
        times = sorted(moments, reverse=True)
        self.entries = [
            AuditEntry(number, RecordKey("w", kind, str(number)), 1, float(at), "anna", "create", b"")
            for number, at in enumerate(times)
        ]
        self.read = 0

    async def __call__(self, skip: int, take: int) -> AuditEntryPage:
        page = self.entries[skip : skip + take]
        self.read += len(page)
        return AuditEntryPage(page, len(self.entries))


@pytest.mark.parametrize("seed", range(40))
async def test_every_page_is_a_part_of_the_whole(seed: int) -> None:
    draw = random.Random(seed)
    sizes = draw.choice([0, 1, 7, 30]), draw.choice([0, 1, 7, 30])
    first, second = (
        Entries(kind, [draw.randrange(12) for _ in range(size)])
        for kind, size in zip(("contexts", "entities"), sizes, strict=True)
    )
    whole = sorted([*first.entries, *second.entries], key=lambda one: -one.at)
    for skip in range(len(whole) + 2):
        page = await merge_pages(first, second, skip, 5)
        assert (page.entries, page.total) == (whole[skip : skip + 5], len(whole))


async def test_a_page_far_back_reads_no_more_than_others() -> None:
    first, second = Entries("contexts", list(range(0, 40_000, 2))), Entries("entities", list(range(1, 40_000, 2)))
    page = await merge_pages(first, second, 30_000, 10)
    assert [one.at for one in page.entries] == [float(at) for at in range(9_999, 9_989, -1)]
    assert first.read + second.read < 60


async def test_changes_of_policies_and_of_the_graph_are_in_one_log_with_who_made_them() -> None:
    records, knowledge = MemoryRecordStore(), KnowledgeRepository()
    await knowledge.start()
    log = AuditLog(records, knowledge)
    anna = Author("anna", "create", "key-1")
    await records.commit([RecordWrite(RecordKey("w", "agents", "a"), b"{}")], anna)
    entity = RecordWrite(RecordKey("w", "entities", "e"), b'{"type": "T", "name": "N"}', 0, changes=b'[{"to": 1}]')
    await knowledge.commit([entity], anna)
    found = await log.list_page("w", AuditFilter(), 0, 10)
    assert [(one.key.kind, one.by, one.author_key) for one in found.entries] == [
        ("entities", "anna", "key-1"),
        ("agents", "anna", "key-1"),
    ]
    assert found.entries[0].changes == b'[{"to": 1}]'
    assert (await log.list_page("w", AuditFilter(kind="entities"), 0, 10)).total == 1
    assert (await log.list_page("w", AuditFilter(kind="agents"), 0, 10)).total == 1
    assert (await log.list_page("w", AuditFilter(by="key-1"), 1, 10)).total == 2
    assert (await log.list_page("other", AuditFilter(), 0, 10)).total == 0
