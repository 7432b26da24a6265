"""Records on a Redis or Valkey server, shared by several replicas.

A commit is acknowledged when the server has it. Whether it survives the server depends on the server: with
`appendonly yes` a crash costs what `appendfsync` allows (`always` nothing, `everysec` a second), with snapshots only
everything since the last one, and a failover what the standby had not received. It must not evict: `noeviction` or
one of the `volatile-` policies.
"""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from hashlib import sha256
from secrets import token_hex
from typing import Any, NamedTuple
from uuid import uuid4

import msgspec

from gateway.domain.record import AuditEntry, Author, FeedPosition, Record, RecordBatch, RecordKey, RecordWrite
from gateway.errors import StoreError, VersionConflict
from gateway.stores.codec import decode_text, encode_text
from gateway.stores.protocols import PRUNE_LIMIT, AuditEntryPage, AuditFilter, RecordPage
from gateway.stores.redis_connection import RedisConnection
from gateway.stores.redis_scripts import COMMIT, FETCH_VERSIONS, PRUNE_AUDIT, PRUNE_VERSIONS, READ_AUDIT

PREFIX = "gateway-records:"  # no key of another store starts with it
HEAD, CHANGED, KEPT, AUDITS = (PREFIX + word for word in ("head", "changed", "kept", "audits"))

BYTES_PER_SECOND = 10_000_000  # the speed of a slow network; a large import gets the time that it needs
BATCH_BYTES = 500_000  # so that one reply fits its timeout and holds up nobody else's
BATCH_NAMES = 500
BATCH_AUDIT_ENTRIES = 500
PRUNE_OBJECTS = 100  # whose versions are pruned in one step
PRUNE_WORKSPACES = 100  # whose audits are pruned by one call
LOAD_ATTEMPTS = 5  # when the server is emptied or restarted during a load

RECORD_LOST = "The store {} has lost a record that it lists; its `maxmemory-policy` must not evict."
KEEPS_RESTARTING = "The store {} was emptied or restarted again and again while it was read."


class PackedAuditEntry(msgspec.Struct, array_like=True):
    """An audit entry on the server; those of earlier releases end before the last field."""

    workspace: bytes
    kind: bytes
    alias: bytes
    at: float
    by: bytes
    action: bytes
    changes: bytes
    author_key: bytes | None = None


_version_decoder = msgspec.msgpack.Decoder(tuple[bytes, bytes, bytes, bytes | None, float, bytes, bytes])
_audit_decoder = msgspec.msgpack.Decoder(PackedAuditEntry)


class ChangeListing(NamedTuple):
    """The head of the history, and some objects that changed after a point in it."""

    epoch: str  # empty: the server has no history
    number: int
    changed: list[tuple[str, int]]  # name and number of the change, in the order of the numbers


class RedisRecordStore:
    """A RecordStore on the connection of a RedisEphemeralStore, which also closes it."""

    def __init__(self, connection: RedisConnection, *, clock: Callable[[], float] = time.time) -> None:
        self._connection, self._clock = connection, clock
        self._body_seconds = max(connection.timeouts.call, connection.timeouts.body)
        self._audit = RedisAudit(connection)
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
        keys = [HEAD, CHANGED, KEPT, AUDITS]
        arguments: list[str | bytes] = [token_hex(16)]
        for write in writes:
            workspace = _hash_workspace(write.key.workspace)
            keys += [_make_object_key(_hash_key(write.key)), _make_audit_key(workspace)]
            arguments += [*_encode_write(write, author, at), workspace]
        seconds = self._body_seconds + sum(map(len, arguments)) / BYTES_PER_SECOND
        committed, *results = await self._call(lambda: self._commit(keys=keys, args=arguments), seconds)
        if not committed:
            index, actual = results
            raise VersionConflict(writes[index - 1].key, actual)
        return [
            Record(write.key, _decode_id(object_id), version, write.body, at, author.by, author.action)
            for write, (version, object_id) in zip(writes, results, strict=True)
            if version
        ]

    async def list_versions(self, key: RecordKey, skip: int, take: int) -> RecordPage:
        object_key, client = _make_object_key(_hash_key(key)), self._connection.client
        newest, oldest = await self._call(lambda: client.hmget(object_key, ["version", "oldest"]))
        numbers = range(int(newest or 0), int(oldest or 1) - 1, -1)
        page = numbers[skip : skip + take]
        found = await self._fetch_versions([object_key] * len(page), [str(number) for number in page])
        return RecordPage([record for record in found if record is not None], len(numbers))

    async def find_version(self, key: RecordKey, number: int) -> Record | None:
        return (await self._fetch_versions([_make_object_key(_hash_key(key))], [str(number)]))[0]

    async def list_audit(self, workspace: str, criteria: AuditFilter, skip: int, take: int) -> AuditEntryPage:
        return await self._audit.list_entries(workspace, criteria, skip, take)

    async def prune(self, keep: int, before: float) -> int:
        client, deleted, keep = self._connection.client, 0, max(1, keep)
        while deleted < PRUNE_LIMIT:
            surplus = await self._call(partial(client.zrangebyscore, KEPT, f"({keep}", "+inf", 0, PRUNE_OBJECTS))
            names = [name.decode() for name in surplus]
            if not names:
                break
            keys = [KEPT, *map(_make_object_key, names)]
            arguments = [keep, PRUNE_LIMIT - deleted, *names]
            deleted += await self._call(partial(self._prune, keys=keys, args=arguments))
        return deleted + await self._audit.prune(before, PRUNE_LIMIT - deleted)

    async def _start_history(self) -> ChangeListing:
        """The beginning of the history; an empty server gets a new one."""
        listing = await self._list_changes(0)
        if listing.epoch:
            return listing
        await self._call(lambda: self._connection.client.hsetnx(HEAD, "epoch", token_hex(16)))
        return await self._list_changes(0)

    async def _read_since(self, number: int, listing: ChangeListing) -> RecordBatch | None:
        """The current version of what changed after `number`; None if another history began meanwhile."""
        epoch, found = listing.epoch, dict[RecordKey, Record]()
        # What changes meanwhile moves to the end of the feed and is read again, so no commit is seen in half.
        while listing.changed and listing.epoch == epoch:
            keys = [_make_object_key(name) for name, _ in listing.changed]
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
                steps.hmget(HEAD, ["epoch", "number"])
                steps.zrangebyscore(CHANGED, f"({since}", "+inf", start=0, num=BATCH_NAMES, withscores=True)
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
        return [_decode_version(number, value) if value else None for number, value in found]

    async def _call(self, work: Callable[[], Awaitable[Any]], seconds: float | None = None) -> Any:
        return await self._connection.call(work, seconds)


class RedisAudit:
    """Reads and prunes the audit entries that commits leave behind: one list per workspace, newest first."""

    def __init__(self, connection: RedisConnection) -> None:
        self._connection = connection
        register = connection.client.register_script
        self._read, self._prune = register(READ_AUDIT), register(PRUNE_AUDIT)

    async def list_entries(self, workspace: str, criteria: AuditFilter, skip: int, take: int) -> AuditEntryPage:
        """One page and the total; a filter looks at every entry, a few hundred at a time."""
        key = _make_audit_key(_hash_workspace(workspace))
        if criteria == AuditFilter():
            total: int = await self._connection.call(lambda: self._connection.client.llen(key))
            start = min(skip, total)
            return AuditEntryPage(
                [entry async for entry in self._read_range(key, start, min(start + take, total))], total
            )
        page, count, oldest = [], 0, None
        async for entry in self._read_range(key, 0, None):
            # An entry that is written meanwhile shifts all others, so that some come twice.
            if (oldest is None or entry.number < oldest) and criteria.matches(entry):
                page += [entry] if skip <= count < skip + take else []
                count += 1
            oldest = entry.number if oldest is None else min(oldest, entry.number)
        return AuditEntryPage(page, count)

    async def prune(self, before: float, limit: int) -> int:
        """Delete up to `limit` entries that are older; returns how many."""
        client, deleted = self._connection.client, 0
        query = partial(client.zrangebyscore, AUDITS, "-inf", f"({before!r}", 0, PRUNE_WORKSPACES)
        workspaces: Any = await self._connection.call(query)
        for name in (workspace.decode() for workspace in workspaces):
            keys, arguments = [_make_audit_key(name), AUDITS], [repr(before), limit - deleted, name]
            deleted += await self._connection.call(partial(self._prune, keys=keys, args=arguments))
        return deleted

    async def _read_range(self, key: str, start: int, end: int | None) -> AsyncIterator[AuditEntry]:
        while end is None or start < end:
            stop = start + BATCH_AUDIT_ENTRIES
            last = stop - 1 if end is None else min(stop, end) - 1
            entries = await self._connection.call(partial(self._read, keys=[key], args=[start, last, BATCH_BYTES]))
            if not entries:
                return
            for entry in entries:
                yield _decode_audit_entry(entry)
            start += len(entries)


def _encode_write(write: RecordWrite, author: Author, at: float) -> list[str | bytes]:
    """The arguments of the commit script for one write, without its workspace."""
    expected = "" if write.expected is None else str(write.expected)
    deletes = str(int(write.body is None))
    object_id = _encode_id(write.id or str(uuid4()))
    encoded = (_encode_version(write, author, at), _encode_audit_entry(write, author, at))
    return [_hash_key(write.key), expected, deletes, object_id, *encoded]


def _hash_key(key: RecordKey) -> str:
    """The name of an object, in hexadecimal digits: no name on the server contains text from a user."""
    return sha256(msgspec.msgpack.encode([encode_text(word) for word in key])).hexdigest()


def _hash_workspace(workspace: str) -> str:
    return sha256(encode_text(workspace)).hexdigest()


def _make_object_key(name: str) -> str:
    return f"{PREFIX}object:{name}"


def _make_audit_key(name: str) -> str:
    return f"{PREFIX}audit:{name}"


def _encode_version(write: RecordWrite, author: Author, at: float) -> bytes:
    """A version without its id and number, which only the server knows."""
    words = [encode_text(word) for word in write.key]
    return msgspec.msgpack.encode((*words, write.body, at, encode_text(author.by), encode_text(author.action)))


def _decode_version(number: bytes, value: bytes) -> Record:
    object_id, _, packed = value.partition(b" ")
    workspace, kind, alias, body, at, by, action = _version_decoder.decode(packed)
    key = RecordKey(decode_text(workspace), decode_text(kind), decode_text(alias))
    return Record(key, _decode_id(object_id), int(number), body, at, decode_text(by), decode_text(action))


def _encode_audit_entry(write: RecordWrite, author: Author, at: float) -> bytes:
    """An audit entry without its number and version; its time is readable by the server, which prunes by it."""
    workspace, kind, alias = (encode_text(word) for word in write.key)
    by, action = encode_text(author.by), encode_text(author.action)
    author_key = None if author.key is None else encode_text(author.key)
    entry = PackedAuditEntry(workspace, kind, alias, at, by, action, write.changes, author_key)
    packed = msgspec.msgpack.encode(entry)
    return b"%s %s" % (repr(at).encode(), packed)


def _decode_audit_entry(value: bytes) -> AuditEntry:
    number, version, _, packed = value.split(b" ", 3)
    entry = _audit_decoder.decode(packed)
    key = RecordKey(decode_text(entry.workspace), decode_text(entry.kind), decode_text(entry.alias))
    by, action = decode_text(entry.by), decode_text(entry.action)
    author_key = None if entry.author_key is None else decode_text(entry.author_key)
    return AuditEntry(int(number), key, int(version), entry.at, by, action, entry.changes, author_key)


def _encode_id(object_id: str) -> str:
    """An id without spaces, so that the server can put it before a value."""
    return encode_text(object_id).hex()


def _decode_id(digits: bytes) -> str:
    return decode_text(bytes.fromhex(digits.decode()))
