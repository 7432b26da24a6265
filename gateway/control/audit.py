"""Who changed what: the audit of the policies and that of the knowledge graph, which has a store of its own, as one."""

from collections.abc import Awaitable, Callable

import msgspec

from gateway.domain.knowledge import KNOWLEDGE_KINDS
from gateway.knowledge.repository import KnowledgeRepository
from gateway.stores.protocols import AuditEntryPage, AuditFilter, RecordStore

ReadAudit = Callable[[int, int], Awaitable[AuditEntryPage]]  # skip, take → matching entries, newest first


class AuditLog(msgspec.Struct, frozen=True):
    """The changes of every workspace."""

    records: RecordStore
    knowledge: KnowledgeRepository

    async def list_page(self, workspace: str, wanted: AuditFilter, skip: int, take: int) -> AuditEntryPage:
        """The matching entries, newest first; raises StoreError."""

        async def read_policies(skip: int, take: int) -> AuditEntryPage:
            return await self.records.list_audit(workspace, wanted, skip, take)

        async def read_knowledge(skip: int, take: int) -> AuditEntryPage:
            return await self.knowledge.list_audit(workspace, wanted, skip, take)

        if wanted.kind is not None:
            return await (read_knowledge if wanted.kind in KNOWLEDGE_KINDS else read_policies)(skip, take)
        return await merge_pages(read_policies, read_knowledge, skip, take)


async def merge_pages(first: ReadAudit, second: ReadAudit, skip: int, take: int) -> AuditEntryPage:
    """A page of two logs as one; of entries of the same moment those of the first come first.

    Bisection finds how much of what is skipped is in each log, so that a page far back reads no more than others.
    """
    total = (await first(0, 1)).total
    other = (await second(0, 1)).total
    low, high = max(0, skip - other), min(skip, total)
    while low < high:
        middle = (low + high) // 2
        # Of the two, the entry of the first log comes first unless it is older.
        here, there = await first(middle, 1), await second(skip - middle - 1, 1)
        if here.entries and there.entries and here.entries[0].at < there.entries[0].at:
            high = middle
        else:
            low = middle + 1
    pages = await first(low, take), await second(max(0, skip - low), take)
    entries = sorted((one for page in pages for one in page.entries), key=lambda one: -one.at)  # stable
    return AuditEntryPage(entries[:take], total + other)
