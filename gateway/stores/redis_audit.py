"""The audit on a Redis server: one list per workspace, newest first."""

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

from gateway.domain.record import AuditEntry
from gateway.stores.memory_records import matches
from gateway.stores.protocols import AuditFilter
from gateway.stores.redis_connection import RedisConnection
from gateway.stores.redis_scripts import LINES, PRUNE_AUDIT
from gateway.stores.redis_texts import AUDITS, audit_key, parsed_line, workspace_name

LINES_AT_ONCE = 500
BYTES_AT_ONCE = 500_000  # so that one answer fits the budget and holds up nobody else's
WORKSPACES_AT_ONCE = 100


class RedisAudit:
    """Reads and prunes the lines that commits leave behind."""

    def __init__(self, link: RedisConnection) -> None:
        self._link = link
        self._lines, self._prune = link.client.register_script(LINES), link.client.register_script(PRUNE_AUDIT)

    async def page(self, workspace: str, wanted: AuditFilter, skip: int, take: int) -> tuple[list[AuditEntry], int]:
        """Some lines and how many there are; a filter looks at every line, a few hundred at a time."""
        place = audit_key(workspace_name(workspace))
        if wanted == AuditFilter():
            total: int = await self._link.call(lambda: self._link.client.llen(place))
            begin = min(skip, total)
            return [line async for line in self._between(place, begin, min(begin + take, total))], total
        page, count, former = [], 0, None
        async for line in self._between(place, 0, None):
            # A line that is written meanwhile moves all others on, so that some come twice.
            if (former is None or line.number < former) and matches(line, workspace, wanted):
                page += [line] if skip <= count < skip + take else []
                count += 1
            former = line.number if former is None else min(former, line.number)
        return page, count

    async def prune(self, before: float, limit: int) -> int:
        """Forget up to `limit` lines that are older; how many."""
        client, gone = self._link.client, 0
        oldest = partial(client.zrangebyscore, AUDITS, "-inf", f"({before!r}", 0, WORKSPACES_AT_ONCE)
        old: Any = await self._link.call(oldest)
        for name in (found.decode() for found in old):
            words = [repr(before), limit - gone, name]
            gone += await self._link.call(partial(self._prune, keys=[audit_key(name), AUDITS], args=words))
        return gone

    async def _between(self, place: str, begin: int, end: int | None) -> AsyncIterator[AuditEntry]:
        while end is None or begin < end:
            last = begin + LINES_AT_ONCE - 1 if end is None else min(begin + LINES_AT_ONCE, end) - 1
            words = [begin, last, BYTES_AT_ONCE]
            lines = await self._link.call(partial(self._lines, keys=[place], args=words))
            if not lines:
                return
            for line in lines:
                yield parsed_line(line)
            begin += len(lines)
