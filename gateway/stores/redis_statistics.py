"""Figures on a Redis or Valkey server, shared by several replicas.

A bucket is a hash with one field per key. Whoever adds reads rows first and writes them in one script, which does
nothing if somebody else has added meanwhile.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from hashlib import sha256
from typing import Any, Self

import msgspec

from gateway.domain.redis_address import RedisAddress
from gateway.domain.statistics import (
    SERIES_BY_NAME,
    Bucket,
    KeyChoice,
    KeyPrefix,
    Span,
    StatisticsLimits,
    StatisticsRow,
    Tallies,
    UncountedBatch,
    is_chosen,
)
from gateway.errors import StoreError
from gateway.stores.codec import decode_text, encode_text
from gateway.stores.redis_connection import DEFAULT_TIMEOUTS, RedisConnection, RedisTimeouts
from gateway.stores.redis_receipts import UNCOUNTED, ReceiptMember, read_members
from gateway.stores.redis_scripts import ADD_STATISTICS
from gateway.stores.statistics import BucketState, StoredRow, add_up, choose_surplus, list_keys, split_sketches

PREFIX = "gateway-statistics:"  # no key of another store starts with it
VERSION, WORKSPACES = PREFIX + "version", PREFIX + "workspaces"
SENTINEL = "- -"  # the first entry of the queue, which makes it exist
ATTEMPTS = 5

log = logging.getLogger(__name__)


class BucketUpdate(msgspec.Struct, frozen=True):
    """The new values of some rows of a bucket."""

    bucket: Bucket
    rows: Mapping[str, StoredRow]


class RedisStatisticsStore:
    """A StatisticsStore on a connection of its own."""

    def __init__(self, connection: RedisConnection) -> None:
        self._connection, self._client = connection, connection.client
        self._add = connection.client.register_script(ADD_STATISTICS)

    @classmethod
    async def open(
        cls, address: RedisAddress, timeouts: RedisTimeouts = DEFAULT_TIMEOUTS, *, enabled: bool = True
    ) -> Self:
        """A store that works as soon as its server does."""
        store = cls(await RedisConnection.open(address, timeouts))
        try:
            if enabled:
                await store.read_uncounted(1)  # receipts wait to be counted from now on
            else:
                await store._call(lambda: store._client.delete(UNCOUNTED))
        except StoreError as error:
            log.warning("figures wait for the store: %s", error)
        return store

    async def read_uncounted(self, take: int) -> UncountedBatch:
        """The first entry was counted before: it only keeps the list alive, so that receipts are pushed to it."""
        entries: list[bytes] = await self._call(lambda: self._client.lrange(UNCOUNTED, 0, take))
        if not entries:
            await self._call(self._start_queue)
        marks = [entry.decode() for entry in entries[1:]]
        members = [ReceiptMember.parse(entry) for entry in entries[1:]]
        receipts = await self._call(lambda: read_members(self._client, members)) if marks else []
        return UncountedBatch(receipts, marks)

    async def add(self, tallies: Tallies, counted: UncountedBatch, now: float) -> bool:
        marks = [str(mark) for mark in counted.marks]
        for _ in range(ATTEMPTS):
            version: bytes = await self._call(lambda: self._client.get(VERSION)) or b""
            updates = await self._add_up(tallies)
            keys, arguments = _make_update(updates, now)
            script = partial(
                self._add,
                keys=[VERSION, UNCOUNTED, WORKSPACES, *keys],
                args=[version, len(marks), *marks, *arguments],
            )
            found = await self._call(script)
            if found != 0:
                return bool(found == 1)
        return False

    async def read(
        self, bucket: Bucket, end: int, keys: KeyChoice = None, sketches: bool = False
    ) -> list[StatisticsRow]:
        space = _hash(bucket.workspace)
        buckets = [one for one, _ in await self._list_buckets(space) if _is_wanted(one, bucket, end)]
        buckets.sort(key=lambda one: one.start)
        wanted = None if keys is None or isinstance(keys, KeyPrefix) else [encode_text(key) for key in keys]
        if not buckets or wanted == []:
            return []

        async def work() -> list[Any]:
            async with self._client.pipeline(transaction=False) as steps:
                for one in buckets:
                    name = _make_bucket_key(space, one)
                    steps.hgetall(name) if wanted is None else steps.hmget(name, wanted)
                return list(await steps.execute())

        rows: list[StatisticsRow] = []
        for one, found in zip(buckets, await self._call(work), strict=True):
            pairs = found.items() if wanted is None else zip(wanted, found, strict=True)
            layout = SERIES_BY_NAME[one.series].layout.size
            rows += sorted(
                StatisticsRow(
                    one.start,
                    decode_text(key),
                    value[:layout],
                    split_sketches(value[layout:]) if sketches else (),
                )
                for key, value in pairs
                if value is not None and is_chosen(decode_text(key), keys)
            )
        return rows

    async def prune(self, limits: StatisticsLimits) -> int:
        spaces: Any = await self._call(lambda: self._client.smembers(WORKSPACES))
        return sum([await self._prune_space(space.decode(), limits) for space in spaces])

    async def close(self) -> None:
        await self._connection.close()

    async def _start_queue(self) -> None:
        # Two replicas may do this at once: a second sentinel is an entry without a receipt.
        await self._client.rpush(UNCOUNTED, SENTINEL)

    async def _add_up(self, tallies: Tallies) -> list[BucketUpdate]:
        names = [(bucket, [encode_text(key) for key in list_keys(added)]) for bucket, added in tallies.items()]

        async def work() -> list[Any]:
            async with self._client.pipeline(transaction=False) as steps:
                for bucket, keys in names:
                    where = _make_bucket_key(_hash(bucket.workspace), bucket)
                    steps.hlen(where)
                    steps.hmget(where, keys)
                return list(await steps.execute())

        found = await self._call(work) if names else []
        updates = []
        for place, (bucket, keys) in enumerate(names):
            layout = SERIES_BY_NAME[bucket.series].layout.size
            known = {
                decode_text(key): StoredRow(value[:layout], value[layout:])
                for key, value in zip(keys, found[2 * place + 1], strict=True)
                if value is not None
            }
            updates.append(BucketUpdate(bucket, add_up(bucket, tallies[bucket], BucketState(known, found[2 * place]))))
        return updates

    async def _list_buckets(self, space: str) -> list[tuple[Bucket, int]]:
        """The buckets of a workspace; their rows are not counted."""
        members: Any = await self._call(lambda: self._client.smembers(_make_index_key(space)))
        parts = (member.decode().split(" ") for member in members)
        return [(Bucket(space, series, int(span), int(start)), 0) for series, span, start in parts]

    async def _prune_space(self, space: str, limits: StatisticsLimits) -> int:
        buckets = [one for one, _ in await self._list_buckets(space)]

        async def measure() -> list[int]:
            async with self._client.pipeline(transaction=False) as steps:
                for one in buckets:
                    steps.hlen(_make_bucket_key(space, one))
                return list(await steps.execute())

        sizes: dict[Bucket, int] = dict(zip(buckets, await self._call(measure), strict=True)) if buckets else {}
        gone = choose_surplus(list(sizes.items()), limits)

        async def delete() -> None:
            async with self._client.pipeline(transaction=True) as steps:
                for one in gone:
                    steps.delete(_make_bucket_key(space, one))
                    steps.srem(_make_index_key(space), _make_member(one))
                await steps.execute()

        if gone:
            await self._call(delete)
        forgotten: int = await self._forget(space, limits.oldest.get(Span.DAY, 0.0))
        return sum(sizes[one] for one in gone) + forgotten

    async def _forget(self, space: str, before: float) -> int:
        """Delete the rows of the bucket that never ends which nothing was added to since a time."""
        touched = _make_touched_key(space)
        deleted = 0
        names: Any = await self._call(lambda: self._client.zrangebyscore(touched, "-inf", f"({before}"))
        for name in names:
            series, _, key = name.partition(b" ")
            where = _make_bucket_key(space, Bucket(space, series.decode(), Span.EVER, 0))
            deleted += int(await self._call(partial(self._client.hdel, where, key)))
            await self._call(partial(self._client.zrem, touched, name))
        return deleted

    async def _call(self, work: Callable[[], Awaitable[Any]]) -> Any:
        return await self._connection.call(work, self._connection.timeouts.background)


def _make_update(updates: Sequence[BucketUpdate], now: float) -> tuple[list[str], list[str | bytes | float | int]]:
    """Keys and arguments of the script: per bucket its hash, its index and the times of its rows."""
    keys: list[str] = []
    arguments: list[str | bytes | float | int] = [now]
    for update in updates:
        bucket, space = update.bucket, _hash(update.bucket.workspace)
        keys += [_make_bucket_key(space, bucket), _make_index_key(space), _make_touched_key(space)]
        touched = bucket.series if bucket.span == Span.EVER else ""
        arguments += [space, _make_member(bucket), touched, len(update.rows)]
        for key, row in update.rows.items():
            arguments += [encode_text(key), row.counters + row.sketches]
    return keys, arguments


def _is_wanted(one: Bucket, first: Bucket, end: int) -> bool:
    same = (one.series, one.span) == (first.series, int(first.span))
    return same and (one.start == first.start or first.start <= one.start < end)


def _make_bucket_key(space: str, bucket: Bucket) -> str:
    return f"{PREFIX}{space}:{bucket.series}:{int(bucket.span)}:{bucket.start}"


def _make_index_key(space: str) -> str:
    return f"{PREFIX}{space}:buckets"


def _make_touched_key(space: str) -> str:
    return f"{PREFIX}{space}:touched"


def _make_member(bucket: Bucket) -> str:
    return f"{bucket.series} {int(bucket.span)} {bucket.start}"


def _hash(text: str) -> str:
    """A name in hexadecimal digits: no key on the server contains text from a user."""
    return sha256(encode_text(text)).hexdigest()[:32]
