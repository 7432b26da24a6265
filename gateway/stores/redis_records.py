"""Records on a Redis or Valkey server, shared by several replicas.

A commit is acknowledged when the server has it. Whether it survives the server depends on the server: with
`appendonly yes` a crash costs what `appendfsync` allows (`always` nothing, `everysec` a second), with snapshots only
everything since the last one, and a failover what the standby had not received. It must not evict: `noeviction` or
one of the `volatile-` policies.
"""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from math import inf
from secrets import token_hex
from typing import Any, NamedTuple

from msgspec.structs import replace

from gateway.domain.record import AuditEntry, Author, FeedPosition, Record, RecordBatch, RecordKey, RecordWrite
from gateway.errors import StoreError, VersionConflict
from gateway.stores.codec import decode_text
from gateway.stores.protocols import PRUNE_LIMIT, AuditEntryPage, AuditFilter, RecordPage
from gateway.stores.redis_connection import RedisConnection
from gateway.stores.redis_record_codec import (
    POLICY_NAMES,
    AuditLine,
    AuditMatcher,
    RecordNames,
    decode_id,
    decode_version,
    encode_write,
    hash_key,
    hash_workspace,
)
from gateway.stores.redis_scripts import COMMIT, FETCH_VERSIONS, PRUNE_AUDIT, PRUNE_VERSIONS, READ_AUDIT

BYTES_PER_SECOND = 10_000_000  # the speed of a slow network; a large import gets the time that it needs
BATCH_BYTES = 500_000  # so that one reply fits its timeout and holds up nobody else's
BATCH_NAMES = 500
BATCH_AUDIT_ENTRIES = 500
PRUNE_OBJECTS = 100  # whose versions are pruned in one step
PRUNE_WORKSPACES = 100  # whose audits are pruned by one call
LOAD_ATTEMPTS = 5  # when the server is emptied or restarted during a load

RECORD_LOST = "The store {} has lost a record that it lists; its `maxmemory-policy` must not evict."
KEEPS_RESTARTING = "The store {} was emptied or restarted again and again while it was read."


class ChangeListing(NamedTuple):
    """The head of the history, and some objects that changed after a point in it."""

    epoch: str  # empty: the server has no history
    number: int
    changed: list[tuple[str, int]]  # name and number of the change, in the order of the numbers


class RedisRecordStore:
    """A RecordStore on the connection of a RedisEphemeralStore, which also closes it."""

    def __init__(
        self,
        connection: RedisConnection,
        *,
        clock: Callable[[], float] = time.time,
        names: RecordNames = POLICY_NAMES,
    ) -> None:
        self._connection, self._clock, self._names = connection, clock, names
        self._body_seconds = max(connection.timeouts.call, connection.timeouts.body)
        self._audit = RedisAudit(connection, names)
        register = connection.client.register_script
        self._commit, self._fetch, self._prune = register(COMMIT), register(FETCH_VERSIONS), register(PRUNE_VERSIONS)

    async def load(self) -> RecordBatch:
        for _ in range(LOAD_ATTEMPTS):
            everything = await self._read_since(0, await self._start_history())
            if everything is not None:
                live = (record for record in everything.records if record.body is not None)
                return RecordBatch(everything.position, tuple(live))
        raise StoreError(KEEPS_RESTARTING.format(self._connection.name))

    async def read_changes(self, since: FeedPosition) -> RecordBatch | None:
        listing = await self._list_changes(since.number)
        if not listing.epoch or listing.epoch != since.epoch or listing.number < since.number:
            return None
        return await self._read_since(since.number, listing)

    async def commit(self, writes: Sequence[RecordWrite], author: Author) -> list[Record]:
        at = self._clock()
        names = self._names
        keys = [names.head, names.changed, names.kept, names.audits]
        arguments: list[str | bytes] = [token_hex(16)]
        for write in writes:
            workspace = hash_workspace(write.key.workspace)
            keys += [names.make_object_key(hash_key(write.key)), names.make_audit_key(workspace)]
            arguments += [*encode_write(write, author, at), workspace]
        seconds = self._body_seconds + sum(map(len, arguments)) / BYTES_PER_SECOND
        committed, *results = await self._call(lambda: self._commit(keys=keys, args=arguments), seconds)
        if not committed:
            index, actual = results
            raise VersionConflict(writes[index - 1].key, actual)
        return [
            Record(write.key, decode_id(object_id), version, write.body, at, author.by, author.action)
            for write, (version, object_id) in zip(writes, results, strict=True)
            if version
        ]

    async def list_versions(self, key: RecordKey, skip: int, take: int) -> RecordPage:
        object_key, client = self._names.make_object_key(hash_key(key)), self._connection.client
        newest, oldest = await self._call(lambda: client.hmget(object_key, ["version", "oldest"]))
        numbers = range(int(newest or 0), int(oldest or 1) - 1, -1)
        page = numbers[skip : skip + take]
        found = await self._fetch_versions([object_key] * len(page), [str(number) for number in page])
        return RecordPage([record for record in found if record is not None], len(numbers))

    async def find_version(self, key: RecordKey, number: int) -> Record | None:
        return (await self._fetch_versions([self._names.make_object_key(hash_key(key))], [str(number)]))[0]

    async def read(self, keys: Sequence[RecordKey]) -> dict[RecordKey, Record]:
        names = [self._names.make_object_key(hash_key(key)) for key in keys]
        found = await self._fetch_versions(names, ["whole"] * len(names))
        live = [(name, record) for name, record in zip(names, found, strict=True) if record and record.body]

        async def work() -> list[Any]:
            async with self._connection.client.pipeline(transaction=False) as steps:
                for name, _ in live:
                    steps.hget(name, "creator")
                return list(await steps.execute())

        creators = await self._call(work) if live else []
        return {
            record.key: record if by is None else replace(record, created_by=decode_text(by))
            for (_, record), by in zip(live, creators, strict=True)
        }

    async def list_audit(self, workspace: str, criteria: AuditFilter, skip: int, take: int) -> AuditEntryPage:
        return await self._audit.list_entries(workspace, criteria, skip, take)

    async def prune(self, keep: int, before: float) -> int:
        client, deleted, keep = self._connection.client, 0, max(1, keep)
        while deleted < PRUNE_LIMIT:
            surplus = await self._call(
                partial(client.zrangebyscore, self._names.kept, f"({keep}", "+inf", 0, PRUNE_OBJECTS)
            )
            names = [name.decode() for name in surplus]
            if not names:
                break
            keys = [self._names.kept, *map(self._names.make_object_key, names)]
            arguments = [keep, PRUNE_LIMIT - deleted, *names]
            deleted += await self._call(partial(self._prune, keys=keys, args=arguments))
        return deleted + await self._audit.prune(before, PRUNE_LIMIT - deleted)

    async def _start_history(self) -> ChangeListing:
        """The beginning of the history; an empty server gets a new one."""
        listing = await self._list_changes(0)
        if listing.epoch:
            return listing
        await self._call(lambda: self._connection.client.hsetnx(self._names.head, "epoch", token_hex(16)))
        return await self._list_changes(0)

    async def _read_since(self, number: int, listing: ChangeListing) -> RecordBatch | None:
        """The current version of what changed after `number`; None if another history began meanwhile."""
        epoch, found = listing.epoch, dict[RecordKey, Record]()
        # What changes meanwhile moves to the end of the feed and is read again, so no commit is seen in half.
        while listing.changed and listing.epoch == epoch:
            keys = [self._names.make_object_key(name) for name, _ in listing.changed]
            for record in await self._fetch_versions(keys, [""] * len(keys)):
                if record is None:
                    raise StoreError(RECORD_LOST.format(self._connection.name))
                found[record.key] = record
            number = listing.changed[-1][1]
            listing = await self._list_changes(number)
        return RecordBatch(FeedPosition(epoch, number), tuple(found.values())) if listing.epoch == epoch else None

    async def _list_changes(self, since: int) -> ChangeListing:
        async def work() -> list[Any]:
            async with self._connection.client.pipeline(transaction=True) as steps:
                steps.hmget(self._names.head, ["epoch", "number"])
                steps.zrangebyscore(self._names.changed, f"({since}", "+inf", start=0, num=BATCH_NAMES, withscores=True)
                return list(await steps.execute())

        (epoch, number), changed = await self._call(work)
        names = [(name.decode(), int(score)) for name, score in changed]
        return ChangeListing((epoch or b"").decode(), int(number or 0), names)

    async def _fetch_versions(self, keys: list[str], versions: list[str]) -> list[Record | None]:
        """The versions of the objects, in as many calls as their size requires; None for what is not there."""
        found: list[Any] = []
        while len(found) < len(keys):
            start = len(found)
            arguments = [str(BATCH_BYTES), *versions[start:]]
            found += await self._call(partial(self._fetch, keys=keys[start:], args=arguments), self._body_seconds)
        return [decode_version(number, value, size) if value else None for number, value, size in found]

    async def _call(self, work: Callable[[], Awaitable[Any]], seconds: float | None = None) -> Any:
        return await self._connection.call(work, seconds)


class RedisAudit:
    """Reads and prunes the audit entries that commits leave behind: one list per workspace, newest first."""

    def __init__(self, connection: RedisConnection, names: RecordNames) -> None:
        self._connection, self._names = connection, names
        register = connection.client.register_script
        self._read, self._prune = register(READ_AUDIT), register(PRUNE_AUDIT)

    async def list_entries(self, workspace: str, criteria: AuditFilter, skip: int, take: int) -> AuditEntryPage:
        """One page and the total; a filter looks at every entry, a few hundred at a time, and decodes the page."""
        key = self._names.make_audit_key(hash_workspace(workspace))
        if criteria == AuditFilter():
            total: int = await self._connection.call(lambda: self._connection.client.llen(key))
            start = min(skip, total)
            lines = self._read_range(key, start, min(start + take, total))
            return AuditEntryPage([line.decode() async for line in lines], total)
        page, count, oldest, matcher = list[AuditEntry](), 0, inf, AuditMatcher(criteria)
        async for line in self._read_range(key, 0, None):
            # An entry that is written meanwhile shifts all others, so that some come twice.
            if line.number < oldest and matcher.matches(line.entry):
                page += [line.decode()] if skip <= count < skip + take else []
                count += 1
            oldest = min(oldest, line.number)
        return AuditEntryPage(page, count)

    async def prune(self, before: float, limit: int) -> int:
        """Delete up to `limit` entries that are older; returns how many."""
        client, deleted = self._connection.client, 0
        query = partial(client.zrangebyscore, self._names.audits, "-inf", f"({before!r}", 0, PRUNE_WORKSPACES)
        workspaces: Any = await self._connection.call(query)
        for name in (workspace.decode() for workspace in workspaces):
            keys, arguments = (
                [self._names.make_audit_key(name), self._names.audits],
                [repr(before), limit - deleted, name],
            )
            deleted += await self._connection.call(partial(self._prune, keys=keys, args=arguments))
        return deleted

    async def _read_range(self, key: str, start: int, end: int | None) -> AsyncIterator[AuditLine]:
        while end is None or start < end:
            stop = start + BATCH_AUDIT_ENTRIES
            last = stop - 1 if end is None else min(stop, end) - 1
            entries = await self._connection.call(partial(self._read, keys=[key], args=[start, last, BATCH_BYTES]))
            if not entries:
                return
            for entry in entries:
                yield AuditLine.read(entry)
            start += len(entries)
