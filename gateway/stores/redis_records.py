"""Records on a Redis or Valkey server, for several gateways.

A commit is acknowledged when the server has it. Whether it outlives the server is the server's matter: with
`appendonly yes` a crash costs what `appendfsync` allows (`always` nothing, `everysec` a second), with snapshots only
everything since the last one, and a failover what the replica had not received. It must not evict: `noeviction` or
one of the `volatile-` policies.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from secrets import token_hex
from typing import Any, NamedTuple
from uuid import uuid4

from gateway.domain.record import AuditEntry, Author, FeedPosition, Record, RecordBatch, RecordKey, RecordWrite
from gateway.errors import StoreError, VersionConflict
from gateway.stores import redis_texts as texts
from gateway.stores.protocols import AuditFilter
from gateway.stores.redis_audit import BYTES_AT_ONCE, RedisAudit
from gateway.stores.redis_connection import RedisConnection
from gateway.stores.redis_scripts import COMMIT, FETCH, PRUNE_VERSIONS
from gateway.stores.redis_texts import CHANGED, HEAD, KEPT

PATIENCE_SECONDS = 0.5  # for bodies, which no chat waits for; and a commit that is given up may have been made
BYTES_PER_SECOND = 10_000_000  # what a slow network carries; a large import gets the time for it
NAMES_AT_ONCE = 500
PRUNED_AT_ONCE = 1000
OBJECTS_AT_ONCE = 100  # whose versions are pruned in one step
LOADS = 5  # attempts, when the server is emptied or restarted during one

LOST = "The store {} has lost a record that it lists; its `maxmemory-policy` must not evict."
RESTLESS = "The store {} was emptied or restarted again and again while it was read."


class ChangeListing(NamedTuple):
    """Where the history stands, and some objects that were changed after a point of it."""

    epoch: str  # empty: the server holds no history
    number: int
    changed: list[tuple[str, int]]  # name and number of the change, in the order of the numbers


class RedisRecords:
    """A RecordStore on the link of a RedisStore, which also closes it."""

    def __init__(self, link: RedisConnection, *, clock: Callable[[], float] = time.time) -> None:
        self._link, self._clock = link, clock
        self._patience = max(link.budget, PATIENCE_SECONDS)
        self._audit = RedisAudit(link)
        register = link.client.register_script
        self._commit, self._fetch, self._prune = register(COMMIT), register(FETCH), register(PRUNE_VERSIONS)

    async def load(self) -> RecordBatch:
        for _ in range(LOADS):
            everything = await self._after(0, await self._begun())
            if everything is not None:
                live = (record for record in everything.records if record.body is not None)
                return RecordBatch(everything.position, tuple(live))
        raise StoreError(RESTLESS.format(self._link.name))

    async def changes(self, since: FeedPosition) -> RecordBatch | None:
        listing = await self._listing(since.number)
        if not listing.epoch or listing.epoch != since.epoch or listing.number < since.number:
            return None
        return await self._after(since.number, listing)

    async def commit(self, writes: Sequence[RecordWrite], author: Author) -> list[Record]:
        at = self._clock()
        keys = [HEAD, CHANGED, KEPT, texts.AUDITS]
        words: list[str | bytes] = [token_hex(16)]
        for write in writes:
            workspace = texts.workspace_name(write.key.workspace)
            keys += [texts.object_key(texts.object_name(write.key)), texts.audit_key(workspace)]
            words += [*_told(write, author, at), workspace]
        seconds = self._patience + sum(map(len, words)) / BYTES_PER_SECOND
        done, *made = await self._call(lambda: self._commit(keys=keys, args=words), seconds)
        if not done:
            raise VersionConflict(writes[made[0] - 1].key, made[1])
        return [
            Record(write.key, texts.parsed_id(identity), version, write.body, at, author.by, author.action)
            for write, (version, identity) in zip(writes, made, strict=True)
            if version
        ]

    async def versions(self, key: RecordKey, skip: int, take: int) -> tuple[list[Record], int]:
        place, client = texts.object_key(texts.object_name(key)), self._link.client
        newest, oldest = await self._call(lambda: client.hmget(place, ["version", "oldest"]))
        kept = range(int(newest or 0), int(oldest or 1) - 1, -1)
        page = kept[skip : skip + take]
        found = await self._fetched([place] * len(page), [str(number) for number in page])
        return [record for record in found if record is not None], len(kept)

    async def version(self, key: RecordKey, number: int) -> Record | None:
        return (await self._fetched([texts.object_key(texts.object_name(key))], [str(number)]))[0]

    async def audit(self, workspace: str, wanted: AuditFilter, skip: int, take: int) -> tuple[list[AuditEntry], int]:
        return await self._audit.page(workspace, wanted, skip, take)

    async def prune(self, keep: int, before: float) -> int:
        client, gone, keep = self._link.client, 0, max(1, keep)
        while gone < PRUNED_AT_ONCE:
            surplus = await self._call(partial(client.zrangebyscore, KEPT, f"({keep}", "+inf", 0, OBJECTS_AT_ONCE))
            names = [name.decode() for name in surplus]
            if not names:
                break
            keys = [KEPT, *map(texts.object_key, names)]
            words = [keep, PRUNED_AT_ONCE - gone, *names]
            gone += await self._call(partial(self._prune, keys=keys, args=words))
        return gone + await self._audit.prune(before, PRUNED_AT_ONCE - gone)

    async def _begun(self) -> ChangeListing:
        """The beginning of the history, which an empty server is given now."""
        listing = await self._listing(0)
        if listing.epoch:
            return listing
        await self._call(lambda: self._link.client.hsetnx(HEAD, "epoch", token_hex(16)))
        return await self._listing(0)

    async def _after(self, number: int, listing: ChangeListing) -> RecordBatch | None:
        """The current version of what was changed after `number`; None if another history began meanwhile."""
        epoch, found = listing.epoch, dict[RecordKey, Record]()
        # What changes meanwhile moves to the end of the feed and is read once more: no half of a commit is left.
        while listing.changed and listing.epoch == epoch:
            places = [texts.object_key(name) for name, _ in listing.changed]
            for record in await self._fetched(places, [""] * len(places)):
                if record is None:
                    raise StoreError(LOST.format(self._link.name))
                found[record.key] = record
            number = listing.changed[-1][1]
            listing = await self._listing(number)
        return RecordBatch(FeedPosition(epoch, number), tuple(found.values())) if listing.epoch == epoch else None

    async def _listing(self, since: int) -> ChangeListing:
        async def work() -> list[Any]:
            async with self._link.client.pipeline(transaction=True) as steps:
                steps.hmget(HEAD, ["epoch", "number"])
                steps.zrangebyscore(CHANGED, f"({since}", "+inf", start=0, num=NAMES_AT_ONCE, withscores=True)
                return list(await steps.execute())

        (epoch, number), changed = await self._call(work)
        return ChangeListing(
            (epoch or b"").decode(), int(number or 0), [(name.decode(), int(at)) for name, at in changed]
        )

    async def _fetched(self, places: list[str], versions: list[str]) -> list[Record | None]:
        """The versions of the objects, in as many steps as their size asks for; None for what is not there."""
        found: list[Any] = []
        while len(found) < len(places):
            rest = len(found)
            words = [str(BYTES_AT_ONCE), *versions[rest:]]
            found += await self._call(partial(self._fetch, keys=places[rest:], args=words), self._patience)
        return [texts.parsed_version(number, text) if text else None for number, text in found]

    async def _call(self, work: Callable[[], Awaitable[Any]], seconds: float | None = None) -> Any:
        return await self._link.call(work, seconds)


def _told(write: RecordWrite, author: Author, at: float) -> list[str | bytes]:
    """A write as the script takes it."""
    expected = "" if write.expected is None else str(write.expected)
    identity = texts.id_text(write.id or str(uuid4()))
    told = (texts.version_text(write, author, at), texts.line_text(write, author, at))
    return [texts.object_name(write.key), expected, str(int(write.body is None)), identity, *told]
