"""Brings the parts of an index to a server, as gently as a shared server needs it; of several gateways one writes."""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence

import numpy as np

from gateway.errors import StoreError
from gateway.semantic.index.redis_layout import IndexPartition, Layout
from gateway.stores.redis_connection import RedisConnection
from gateway.stores.redis_passages import PassageDocument, RedisPassages, unused

LEASE_SECONDS = 30.0
WAIT_SECONDS = 1.0  # for another gateway that writes
AGAIN_SECONDS = 30.0  # until what somebody else has changed meanwhile is written again
SETTLE_SECONDS = 60.0
AT_ONCE = 8  # documents written in one go: each takes the server a millisecond or more, in which it does nothing else
DAY, UNUSED_SECONDS = 86_400.0, 30 * 86_400.0

Wanted = Callable[[], bool]


class RedisWriter:
    """Writes what is missing on the server and removes what is too much; all methods raise StoreError."""

    def __init__(self, link: RedisConnection, *, worded: bool) -> None:
        self._link, self._worded = link, worded
        self._owner = secrets.token_hex(8)
        self._written: dict[str, float] = {}
        self._swept = 0.0

    def passages(self, layout: Layout, part: IndexPartition) -> RedisPassages:
        """Where a part lies; vectors of another model or width lie elsewhere."""
        return RedisPassages(self._link, self._name(layout, part), _width(layout))

    async def bring(self, layout: Layout, part: IndexPartition, wanted: Wanted) -> bool:
        """Whether the server has a part completely; False when something newer is wanted, or others write otherwise."""
        passages = self.passages(layout, part)
        await passages.prepare()
        while await passages.state() != part.fingerprint:
            if not wanted() or time.monotonic() - self._written.get(self._name(layout, part), -1e9) < AGAIN_SECONDS:
                return False
            if not await passages.lease(self._owner, LEASE_SECONDS):
                await asyncio.sleep(WAIT_SECONDS)
            elif await self._write(layout, part, wanted):
                self._written[self._name(layout, part)] = time.monotonic()
                return True
        return True

    async def sweep(self) -> None:
        """Once a day, forget what no gateway has used for a month: of a workspace or a model that is gone."""
        if time.time() - self._swept >= DAY:
            self._swept = time.time()
            for name in await unused(self._link, self._swept - UNUSED_SECONDS):
                await RedisPassages(self._link, name, 0).drop()

    def _name(self, layout: Layout, part: IndexPartition) -> str:
        return part.name(f"{layout.indexed.embedder.id}\n{_width(layout)}\n{self._worded}")

    async def _write(self, layout: Layout, part: IndexPartition, wanted: Wanted) -> bool:
        passages = self.passages(layout, part)
        await passages.mark(None)
        there = await passages.ids()
        for some in _groups([one for one in part.ids if one not in there]):
            documents = await asyncio.to_thread(_documents, layout, part, some, self._worded)
            await self._gently(passages, passages.put(documents))
            if not wanted():
                return False
        for some in _groups([one for one in there if one not in part.ids]):
            await self._gently(passages, passages.remove(some))
        await self._settled(passages, len(part.ids))
        await passages.mark(part.fingerprint)
        return True

    async def _gently(self, passages: RedisPassages, work: Awaitable[None]) -> None:
        """Take the server for half of the time at most, and keep the lease."""
        began = time.monotonic()
        await work
        took = time.monotonic() - began
        await passages.lease(self._owner, LEASE_SECONDS)
        await asyncio.sleep(took)

    async def _settled(self, passages: RedisPassages, count: int) -> None:
        """Return once all can be found: documents that are older than their index are taken up in the background."""
        end = time.monotonic() + SETTLE_SECONDS
        while await passages.count() != count:
            if time.monotonic() > end:
                raise StoreError("The server has not taken up all passages")
            await asyncio.sleep(WAIT_SECONDS / 10)


def _documents(layout: Layout, part: IndexPartition, ids: Sequence[str], worded: bool) -> list[PassageDocument]:
    return list(layout.documents(ids, part, worded=worded))


def _width(layout: Layout) -> int:
    return int(layout.indexed.index.vectors_of(np.empty(0, np.intp)).shape[1])


def _groups(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    return (ids[start : start + AT_ONCE] for start in range(0, len(ids), AT_ONCE))
