"""Nodes beside their records, on a Redis or Valkey server.

The index of backlinks is a sorted set per target that commits keep up to date. What a user did is a sorted set per
kind, by time; one that nobody adds to for a while expires.
"""

from collections.abc import Sequence
from functools import partial
from hashlib import sha256
from typing import Any

import msgspec

from gateway.domain.content import ActivityKind, Backlink, NodeActivity
from gateway.domain.record import Author, RecordIndex
from gateway.stores.codec import decode_text, encode_text
from gateway.stores.content import ACTIVITY_PER_USER
from gateway.stores.redis_connection import KEY_PREFIX, RedisConnection
from gateway.stores.redis_record_codec import (
    POLICY_NAMES,
    decode_backlink,
    encode_outline,
    hash_key,
    make_links_key,
    pack_links,
)
from gateway.stores.redis_scripts import INDEX_RECORDS

ACTIVITY_SECONDS = 90 * 86_400  # without anything new


class RedisContentStore:
    """A ContentStore on the connection of a RedisEphemeralStore, which also closes it."""

    def __init__(self, connection: RedisConnection) -> None:
        self._connection, self._client = connection, connection.client
        self._index = connection.client.register_script(INDEX_RECORDS)

    async def list_backlinks(self, workspace: str, targets: Sequence[str], limit: int) -> list[Backlink]:
        names = [make_links_key(workspace, target) for target in targets]

        async def work() -> list[Any]:
            async with self._client.pipeline(transaction=False) as steps:
                for name in names:
                    steps.zrange(name, 0, max(0, limit - 1))
                return list(await steps.execute())

        members = {member for found in await self._connection.call(work) for member in found}
        return [decode_backlink(member) for member in sorted(members)][:limit]

    async def index(self, entries: Sequence[RecordIndex]) -> None:
        keys = [POLICY_NAMES.make_object_key(hash_key(entry.record.key)) for entry in entries]
        arguments: list[str | bytes] = []
        for entry in entries:
            record = entry.record
            author = Author(record.by, record.action)
            outline = encode_outline(record.key, entry.outline, record.size, author, record.at)
            arguments += [str(record.version), outline, pack_links(record.key, entry.links)]
        call = partial(self._index, keys=keys, args=arguments)
        await self._connection.call(call, self._connection.timeouts.background)

    async def note(self, workspace: str, activities: Sequence[NodeActivity]) -> None:
        by_name: dict[bytes, dict[bytes, float]] = {}
        for one in activities:
            noted = by_name.setdefault(name_activity(workspace, one.user, one.kind), {})
            node = encode_text(one.node)
            noted[node] = max(one.at, noted.get(node, one.at))

        async def work() -> None:
            async with self._client.pipeline(transaction=False) as steps:
                for name, noted in by_name.items():
                    steps.zadd(name, noted, gt=True)
                    steps.zremrangebyrank(name, 0, -ACTIVITY_PER_USER - 1)
                    steps.expire(name, ACTIVITY_SECONDS)
                await steps.execute()

        await self._connection.call(work, self._connection.timeouts.background)

    async def list_recent(self, workspace: str, user: str, since: float, limit: int) -> list[NodeActivity]:
        async def work() -> list[Any]:
            async with self._client.pipeline(transaction=False) as steps:
                for kind in ActivityKind:
                    name = name_activity(workspace, user, kind)
                    steps.zrevrangebyscore(name, "+inf", repr(since), start=0, num=limit, withscores=True)
                return list(await steps.execute())

        by_kind = zip(ActivityKind, await self._connection.call(work), strict=True)
        found = [NodeActivity(decode_text(node), user, kind, at) for kind, rows in by_kind for node, at in rows]
        return sorted(found, key=lambda one: (one.at, one.node, one.kind), reverse=True)[:limit]


def name_activity(workspace: str, user: str, kind: ActivityKind) -> bytes:
    packed = msgspec.msgpack.encode([encode_text(workspace), encode_text(user)])
    return KEY_PREFIX + f"activity:{kind}:{sha256(packed).hexdigest()}".encode()
