"""Receipts on a Redis or Valkey server, shared by several replicas.

A receipt is a hash. Its id stands in one sorted set per value that can be filtered by, all with the score 0, so that
the server keeps them in the order of the ids, which is that of time.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from functools import partial
from hashlib import sha256
from itertools import islice
from typing import Any, NamedTuple, Self

import msgspec
from redis.asyncio import Redis

from gateway.domain.receipt import (
    RECEIPT_STATUSES,
    STARTED,
    SWEPT,
    Receipt,
    ReceiptFilter,
    ReceiptPage,
    is_receipt_id,
)
from gateway.domain.receipt_note import ReceiptBatch
from gateway.domain.redis_address import RedisAddress
from gateway.ids import encode_id_time
from gateway.stores.codec import decode_text, encode_text
from gateway.stores.protocols import PRUNE_LIMIT, ReceiptScan
from gateway.stores.redis_connection import DEFAULT_TIMEOUTS, RedisConnection, RedisTimeouts
from gateway.stores.redis_ephemeral import to_milliseconds
from gateway.stores.redis_scripts import DELETE_RECEIPT, SWEEP_RECEIPT, WRITE_RECEIPT

PREFIX = "gateway-receipts:"  # no key of another store starts with it
ALL, BYTES, BOOTS, SHARES, UNCOUNTED = (PREFIX + word for word in ("all", "bytes", "boots", "shares", "uncounted"))
BATCH = 500
WRITTEN = 200  # receipts in one call, which has a time limit and holds up the event loop while it is made
HEADROOM = 50  # a fiftieth of the room is made free beyond what is needed
SIZE_PRUNE = 200  # deleted at once while all receipts together are too large

_encode_index = msgspec.msgpack.Encoder().encode
_decode_index = msgspec.msgpack.Decoder(tuple[bytes, bytes | None, bytes | None, bytes | None, list[bytes]]).decode


class ReceiptMember(NamedTuple):
    """A receipt as the sets that span workspaces name it."""

    id: str
    workspace: str  # its hash

    def __str__(self) -> str:
        return f"{self.id} {self.workspace}"

    @classmethod
    def parse(cls, member: bytes) -> Self:
        return cls(*member.decode().split(" ", 1))


class RedisReceiptStore:
    """A ReceiptStore on a connection of its own: its large batches never hold up a chat's calls."""

    def __init__(self, connection: RedisConnection) -> None:
        self._connection, self._client = connection, connection.client
        register = connection.client.register_script
        self._write, self._delete = register(WRITE_RECEIPT), register(DELETE_RECEIPT)
        self._sweep = register(SWEEP_RECEIPT)

    @classmethod
    async def open(cls, address: RedisAddress, timeouts: RedisTimeouts = DEFAULT_TIMEOUTS) -> Self:
        """A store that works as soon as its server does."""
        return cls(await RedisConnection.open(address, timeouts))

    async def write(self, receipts: ReceiptBatch, boot: str) -> None:
        written = receipts.write_out()
        while some := list(islice(written, WRITTEN)):
            await self._call(partial(self._write_some, some, boot))

    async def _write_some(self, receipts: Sequence[Receipt], boot: str) -> None:
        async with self._client.pipeline(transaction=True) as steps:
            for receipt in receipts:
                keys, arguments = _make_write(receipt, boot)
                await self._write(keys=keys, args=arguments, client=steps)
            await steps.execute()

    async def list_page(
        self, workspace: str, criteria: ReceiptFilter, after: str | None, take: int, whole: bool = False
    ) -> ReceiptPage:
        found: list[Receipt] = []
        scan = ReceiptScan()
        async for receipt in self._walk(workspace, criteria, after, whole):
            if len(found) == take:
                return ReceiptPage(found, found[-1].id)
            if criteria.matches(receipt):
                found.append(receipt)
            if scan.is_over():
                return ReceiptPage(found, receipt.id)
        return ReceiptPage(found, None)

    async def find(self, workspace: str, id: str) -> Receipt | None:
        found = await self._read(_hash(workspace), [id] if is_receipt_id(id) else [], whole=True)
        return found[0] if found else None

    async def delete(self, workspace: str, id: str) -> bool:
        return is_receipt_id(id) and bool(await self._remove([ReceiptMember(id, _hash(workspace))]))

    async def renew(self, boot: str, seconds: float) -> None:
        async def work() -> None:
            async with self._client.pipeline(transaction=True) as steps:
                steps.sadd(BOOTS, boot)
                if seconds:
                    steps.set(_make_lease_key(boot), b"", px=to_milliseconds(seconds))
                else:
                    steps.delete(_make_lease_key(boot))
                await steps.execute()

        await self._call(work)

    async def sweep(self) -> int:
        boots: Any = await self._call(lambda: self._client.smembers(BOOTS))
        swept = 0
        for boot in (one.decode() for one in boots):
            if not await self._call(partial(self._client.exists, _make_lease_key(boot))):
                swept += await self._sweep_boot(boot)
        return swept

    async def prune(self, before: float, max_bytes: int) -> int:
        used: Any = await self._call(lambda: self._client.get(BYTES))
        excess = int(used or 0) - max_bytes
        if excess > 0 and (oldest := await self._list_oldest_of_largest(excess + max_bytes // HEADROOM)):
            return await self._remove(oldest)
        query = partial(self._client.zrangebylex, ALL, "-", f"({encode_id_time(before)}", 0, PRUNE_LIMIT)
        members: Any = await self._call(query)
        await self._remove([ReceiptMember.parse(member) for member in members])
        return len(members)

    async def _list_oldest_of_largest(self, excess: int) -> list[ReceiptMember]:
        """Whoever has the most makes room for so many bytes: nobody loses what is within an equal share."""
        shares: Any = await self._call(lambda: self._client.hgetall(SHARES))
        if not shares:
            return []
        space = max(shares, key=lambda one: int(shares[one])).decode()
        key = _make_set_key(space, None, None)
        each = int(shares[space.encode()]) / max(1, int(await self._call(lambda: self._client.zcard(key))))
        count = max(1, min(SIZE_PRUNE, int(excess / max(1.0, each))))
        ids: Any = await self._call(lambda: self._client.zrange(key, 0, count - 1))
        return [ReceiptMember(id.decode(), space) for id in ids]

    async def close(self) -> None:
        await self._connection.close()

    async def _walk(
        self, workspace: str, criteria: ReceiptFilter, after: str | None, whole: bool
    ) -> AsyncIterator[Receipt]:
        """The receipts in question, newest first, by the set of the narrowest filter."""
        name, space = criteria.leading, _hash(workspace)
        key = _make_set_key(space, name, getattr(criteria, name) if name else None)
        begin = "-" if criteria.begin is None else f"[{encode_id_time(criteria.begin)}"
        ends = [encode_id_time(criteria.end)] if criteria.end is not None else []
        end = f"({min([*ends, after] if after is not None else ends)}" if ends or after is not None else "+"
        while True:
            query = partial(self._client.zrevrangebylex, key, end, begin, 0, BATCH)
            ids = [id.decode() for id in await self._call(query)]
            for receipt in await self._read(space, ids, whole):
                yield receipt
            if len(ids) < BATCH:
                return
            end = f"({ids[-1]}"

    async def _read(self, space: str, ids: Sequence[str], whole: bool) -> list[Receipt]:
        """The receipts among `ids`; one that was deleted meanwhile is absent."""
        fields = ["status", "index", "summary", *(["details"] if whole else [])]

        async def work() -> list[Any]:
            async with self._client.pipeline(transaction=False) as steps:
                for id in ids:
                    steps.hmget(_make_receipt_key(space, id), fields)
                return list(await steps.execute())

        rows = await self._call(work) if ids else []
        return [_decode_receipt(id, *row) for id, row in zip(ids, rows, strict=True) if row[1] is not None]

    async def _sweep_boot(self, boot: str) -> int:
        """Sweep what a process has left; it is forgotten as soon as nothing of it is left."""
        key, swept = _make_open_key(boot), 0
        while members := list(await self._call(lambda: self._client.srandmember(key, BATCH))):

            async def work(batch: Iterable[bytes] = members) -> list[Any]:
                async with self._client.pipeline(transaction=False) as steps:
                    for member in map(ReceiptMember.parse, batch):
                        keys = [_make_receipt_key(member.workspace, member.id), key]
                        keys += [_make_set_key(member.workspace, "status", status) for status in (STARTED, SWEPT)]
                        keys.append(UNCOUNTED)
                        arguments = [member.id, str(member), STARTED, SWEPT]
                        await self._sweep(keys=keys, args=arguments, client=steps)
                    return list(await steps.execute())

            swept += sum(await self._call(work))
        await self._call(lambda: self._client.srem(BOOTS, boot))
        return swept

    async def _remove(self, members: Sequence[ReceiptMember]) -> int:
        """Delete these receipts; returns how many there were."""

        async def work() -> int:
            async with self._client.pipeline(transaction=False) as steps:
                for member in members:
                    steps.hget(_make_receipt_key(member.workspace, member.id), "index")
                indexes = await steps.execute()
            async with self._client.pipeline(transaction=False) as steps:
                for member, index in zip(members, indexes, strict=True):
                    keys, arguments = _make_deletion(member, index)
                    await self._delete(keys=keys, args=arguments, client=steps)
                return sum(await steps.execute())

        return await self._call(work) if members else 0

    async def _call(self, work: Callable[[], Awaitable[Any]]) -> Any:
        return await self._connection.call(work, self._connection.timeouts.background)


async def read_members(client: Redis, members: Sequence[ReceiptMember]) -> list[Receipt]:
    """The receipts among `members`, of any workspace, with their details."""
    async with client.pipeline(transaction=False) as steps:
        for member in members:
            steps.hmget(_make_receipt_key(member.workspace, member.id), ["status", "index", "summary", "details"])
        rows = await steps.execute()
    return [_decode_receipt(one.id, *row) for one, row in zip(members, rows, strict=True) if row[1] is not None]


def _make_write(receipt: Receipt, boot: str) -> tuple[list[str], list[str | bytes]]:
    """Keys and arguments of the script that writes one receipt."""
    member = ReceiptMember(receipt.id, _hash(receipt.workspace))
    space, unfinished = member.workspace, receipt.status == STARTED
    names = [None if one is None else encode_text(one) for one in (receipt.session, receipt.agent, receipt.content)]
    index = _encode_index((encode_text(receipt.workspace), *names, [encode_text(one) for one in receipt.resources]))
    keys = [_make_receipt_key(space, receipt.id), ALL, BYTES, SHARES, _make_open_key(boot)]
    keys += [_make_set_key(space, "status", status) for status in (STARTED, SWEPT)]
    keys += [UNCOUNTED, _make_set_key(space, "status", receipt.status), *_list_set_keys(space, receipt)]
    owner = boot if unfinished else ""
    texts = [receipt.whole_summary, receipt.whole_details]
    return keys, [receipt.id, str(member), receipt.status, owner, index, *texts, space, STARTED]


def _make_deletion(member: ReceiptMember, index: bytes | None) -> tuple[list[str], list[str]]:
    space = member.workspace
    keys = [_make_receipt_key(space, member.id), ALL, BYTES, SHARES]
    keys += [_make_set_key(space, "status", status) for status in RECEIPT_STATUSES]
    if index is not None:
        keys += _list_set_keys(space, _decode_receipt(member.id, b"", index, b""))
    return keys, [member.id, str(member), space]


def _list_set_keys(space: str, receipt: Receipt) -> list[str]:
    """The sets that a receipt stands in, but for that of its status."""
    values = [("session", receipt.session), ("agent", receipt.agent), ("content", receipt.content)]
    values += [("resource", resource) for resource in receipt.resources]
    named = [_make_set_key(space, name, value) for name, value in values if value is not None]
    return [_make_set_key(space, None, None), *named]


def _make_set_key(space: str, name: str | None, value: str | None) -> str:
    if name is None or value is None:
        return f"{PREFIX}{space}:all"
    return f"{PREFIX}{space}:{name}:{value if name == 'status' else _hash(value)}"


def _make_receipt_key(space: str, id: str) -> str:
    return f"{PREFIX}{space}:receipt:{id}"


def _make_open_key(boot: str) -> str:
    return f"{PREFIX}open:{boot}"


def _make_lease_key(boot: str) -> str:
    return f"{PREFIX}boot:{boot}"


def _hash(text: str) -> str:
    """A name in hexadecimal digits: no key on the server contains text from a user."""
    return sha256(encode_text(text)).hexdigest()[:32]


def _decode_receipt(id: str, status: bytes, index: bytes, summary: bytes, details: bytes = b"") -> Receipt:
    workspace, *names, resources = _decode_index(index)
    session, agent, content = (None if one is None else decode_text(one) for one in names)
    placed = tuple(map(decode_text, resources))
    return Receipt(
        id, decode_text(workspace), status.decode(), session, agent, content, placed, bytes(summary), bytes(details)
    )
