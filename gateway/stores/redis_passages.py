"""Passages in a Redis server's query engine: vectors in a graph (HNSW), hashed words (BM25), tags that filter first.

Whatever stands in a query is a number of ours or a hash: nothing that a person wrote can change what it means.
"""

import time
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from gateway.stores.redis_connection import RedisConnection
from gateway.stores.redis_ephemeral import LEASE, PREFIX

NEIGHBOURS, BUILT_FROM = 16, 200  # edges of a node in the graph, and among how many they are chosen
LOOKED_AT = 800  # nodes that a search in the graph looks at: recall@10 of .998 at 100,000 passages
FEW = 0.2  # share that a filter keeps below which all of it is compared: the graph would lose a tenth of the best
SECONDS = 2.0  # for calls that nobody waits for
USED = PREFIX + b"near"  # when each index was used last, by name
COUNT = 1000  # keys per step of a scan

Hashes = Sequence[str]


@dataclass(frozen=True, slots=True)
class PassageDocument:
    """A passage as the server keeps it; all but the vector are hashes."""

    id: str
    vector: bytes  # float16
    resource: str
    context: str
    words: str = ""


@dataclass(frozen=True, slots=True)
class PassageFilter:
    """What may be found: whole contexts and single resources."""

    contexts: Hashes
    resources: Hashes
    share: float  # of the documents that this keeps

    def clause(self) -> str:
        tags = {"c": self.contexts, "r": self.resources}
        return "(" + "|".join(f"(@{field}:{{{'|'.join(some)}}})" for field, some in tags.items() if some) + ")"


@dataclass(frozen=True, slots=True)
class PassageQuery:
    """The nearest `count` of what is allowed (None: all) for each vector, and those with the best of some words."""

    vectors: Sequence[bytes]
    words: Hashes
    allowed: PassageFilter | None
    count: int

    def commands(self, index: bytes) -> list[tuple[Any, ...]]:
        kept = self.allowed.clause() if self.allowed is not None else "*"
        shown = ("NOCONTENT", "LIMIT", 0, self.count, "DIALECT", 2)
        near = f"{kept}=>[KNN {self.count} @v $v {self._policy()}]"
        found: list[tuple[Any, ...]] = [("FT.SEARCH", index, near, "PARAMS", 2, "v", v, *shown) for v in self.vectors]
        if self.words:
            said = f"@t:({'|'.join(self.words)})"
            text = said if self.allowed is None else f"{kept} {said}"
            found.append(("FT.SEARCH", index, text, "SCORER", "BM25STD", *shown))
        return found

    def _policy(self) -> str:
        if self.allowed is None:
            return f"EF_RUNTIME {LOOKED_AT}"
        few = self.allowed.share < FEW
        return "HYBRID_POLICY ADHOC_BF" if few else f"HYBRID_POLICY BATCHES EF_RUNTIME {LOOKED_AT}"


class RedisPassages:
    """One index on the server. Every method raises StoreError, also where the server has no query engine."""

    def __init__(self, link: RedisConnection, name: str, width: int) -> None:
        self._link, self._width, self._name = link, width, name.encode()
        self._client: Any = link.client  # the commands of modules have no types
        self._index = PREFIX + b"near:" + self._name
        self._documents = self._index + b":"
        self._state = PREFIX + b"near-state:" + self._name
        self._held = PREFIX + b"near-lease:" + self._name
        self._lease = link.client.register_script(LEASE)

    async def prepare(self) -> None:
        """Make the index unless it is there."""
        if self._index not in await self._run("FT._LIST"):
            vector = ("VECTOR", "HNSW", 10, "TYPE", "FLOAT16", "DIM", self._width, "DISTANCE_METRIC", "COSINE")
            graph = ("M", NEIGHBOURS, "EF_CONSTRUCTION", BUILT_FROM)
            tags = ("r", "TAG", "CASESENSITIVE", "c", "TAG", "CASESENSITIVE")
            head = ("ON", "HASH", "PREFIX", 1, self._documents, "STOPWORDS", 0, "NOOFFSETS", "NOHL")
            await self._run(
                "FT.CREATE", self._index, *head, "SCHEMA", "v", *vector, *graph, *tags, "t", "TEXT", "NOSTEM"
            )
        await self._run("HSET", USED, self._name, int(time.time()))

    async def lease(self, owner: str, seconds: float) -> bool:
        """Whether this gateway may write for so long; one does at a time."""
        words: list[bytes | int] = [owner.encode(), int(seconds * 1000)]
        return bool(await self._link.call(lambda: self._lease(keys=[self._held], args=words), SECONDS))

    async def state(self) -> bytes | None:
        """What the index was marked with when it was complete."""
        marked: bytes | None = await self._run("GET", self._state)
        return marked

    async def mark(self, state: bytes | None) -> None:
        """Say that the index is complete, or with None that it is not."""
        await (self._run("DEL", self._state) if state is None else self._run("SET", self._state, state))

    async def ids(self) -> set[str]:
        """The documents that are kept."""
        return {key[len(self._documents) :].decode() async for key in scanned(self._link, self._documents + b"*")}

    async def count(self) -> int:
        """The documents that can be found."""
        return int((await self._run("FT.SEARCH", self._index, "*", "LIMIT", 0, 0, "DIALECT", 2))[0])

    async def put(self, documents: Iterable[PassageDocument]) -> None:
        async with self._client.pipeline(transaction=False) as steps:
            for one in documents:
                fields = {"v": one.vector, "r": one.resource, "c": one.context}
                fields |= {"t": one.words} if one.words else {}
                steps.hset(self._documents + one.id.encode(), mapping=fields)
            await self._link.call(steps.execute, SECONDS)

    async def remove(self, ids: Iterable[str]) -> None:
        await self._run("UNLINK", *(self._documents + one.encode() for one in ids))

    async def search(self, lookup: PassageQuery, seconds: float) -> tuple[bytes | None, list[list[str]]]:
        """The state of the index, and by vector (then for the words) the ids that were found, in one round trip."""
        async with self._client.pipeline(transaction=False) as steps:
            steps.get(self._state)
            for command in lookup.commands(self._index):
                steps.execute_command(*command)
            state, *replies = await self._link.call(steps.execute, seconds)
        return state, [[key[len(self._documents) :].decode() for key in reply[1:]] for reply in replies]

    async def drop(self) -> None:
        """Forget the index and all its documents, a few at a time."""
        await self.mark(None)
        await self._run("FT.DROPINDEX", self._index)
        async for key in scanned(self._link, self._documents + b"*"):
            await self._run("UNLINK", key)
        await self._run("HDEL", USED, self._name)

    async def _run(self, *words: Any) -> Any:
        return await self._link.call(lambda: self._client.execute_command(*words), SECONDS)


async def unused(link: RedisConnection, since: float) -> list[str]:
    """The names of indexes that no gateway has used since then."""
    client: Any = link.client
    used = await link.call(lambda: client.hgetall(USED), SECONDS)
    return [name.decode() for name, when in used.items() if float(when) < since]


async def scanned(link: RedisConnection, pattern: bytes) -> AsyncIterator[bytes]:
    """The keys of a pattern, step by step: other callers of the server come in between."""
    client: Any = link.client
    cursor = 0
    while True:
        cursor, keys = await link.call(partial(client.scan, cursor, pattern, COUNT), SECONDS)
        for key in keys:
            yield key
        if not cursor:
            return
