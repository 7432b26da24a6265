"""Passages in a Redis server's query engine: vectors in an HNSW graph, hashed words for BM25, tags that filter first.

A query contains only our own numbers and hashes: nothing that a person wrote can change what it means.
"""

import time
from collections.abc import AsyncIterator, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec

from gateway.stores.redis_connection import KEY_PREFIX, RedisConnection
from gateway.stores.redis_scripts import LEASE

GRAPH_EDGES = 16  # per node of the graph (M)
BUILD_CANDIDATES = 200  # among which the edges are chosen (EF_CONSTRUCTION)
SEARCH_CANDIDATES = 800  # that a search looks at (EF_RUNTIME): recall@10 of .998 at 100,000 passages
BRUTE_FORCE_SHARE = 0.2  # below this share, everything that a filter keeps is compared: the graph would miss a tenth
LAST_USED = KEY_PREFIX + b"near"  # when each index was used last, by name
SCAN_COUNT = 1000  # keys per step of a scan

Hashes = Sequence[str]


class PassageDocument(msgspec.Struct, frozen=True):
    """A passage as the server stores it; everything but the vector is hashed."""

    id: str
    vector: bytes  # float16
    resource: str
    context: str
    words: str = ""


class PassageFilter(msgspec.Struct, frozen=True):
    """What may be found: whole contexts and single resources."""

    contexts: Hashes
    resources: Hashes
    share: float  # of all documents that pass

    def render_clause(self) -> str:
        tags = {"c": self.contexts, "r": self.resources}
        return "(" + "|".join(f"(@{field}:{{{'|'.join(some)}}})" for field, some in tags.items() if some) + ")"


class PassageQuery(msgspec.Struct, frozen=True):
    """The nearest `count` of what is allowed (None: all) for each vector, and those that match the words best."""

    vectors: Sequence[bytes]
    words: Hashes
    allowed: PassageFilter | None
    count: int

    def build_commands(self, index: bytes) -> list[tuple[Any, ...]]:
        clause = self.allowed.render_clause() if self.allowed is not None else "*"
        options = ("NOCONTENT", "LIMIT", 0, self.count, "DIALECT", 2)
        knn = f"{clause}=>[KNN {self.count} @v $v {self._render_policy()}]"
        commands: list[tuple[Any, ...]] = [
            ("FT.SEARCH", index, knn, "PARAMS", 2, "v", vector, *options) for vector in self.vectors
        ]
        if self.words:
            words = f"@t:({'|'.join(self.words)})"
            text = words if self.allowed is None else f"{clause} {words}"
            commands.append(("FT.SEARCH", index, text, "SCORER", "BM25STD", *options))
        return commands

    def _render_policy(self) -> str:
        if self.allowed is None:
            return f"EF_RUNTIME {SEARCH_CANDIDATES}"
        if self.allowed.share < BRUTE_FORCE_SHARE:
            return "HYBRID_POLICY ADHOC_BF"
        return f"HYBRID_POLICY BATCHES EF_RUNTIME {SEARCH_CANDIDATES}"


class PassageMatches(NamedTuple):
    """The state of an index, and the ids that were found: per vector, then for the words."""

    state: bytes | None
    ids: list[list[str]]


class RedisPassages:
    """One index on the server. Every method raises StoreError, also if the server has no query engine."""

    def __init__(self, connection: RedisConnection, name: str, width: int) -> None:
        self._connection, self._width, self._name = connection, width, name.encode()
        self._seconds = connection.timeouts.background
        self._client: Any = connection.client  # the commands of modules have no types
        self._index = KEY_PREFIX + b"near:" + self._name
        self._documents = self._index + b":"
        self._state = KEY_PREFIX + b"near-state:" + self._name
        self._lease_key = KEY_PREFIX + b"near-lease:" + self._name
        self._lease = connection.client.register_script(LEASE)

    async def create(self) -> None:
        """Create the index unless it exists."""
        if self._index not in await self._run("FT._LIST"):
            vector = ("VECTOR", "HNSW", 10, "TYPE", "FLOAT16", "DIM", self._width, "DISTANCE_METRIC", "COSINE")
            graph = ("M", GRAPH_EDGES, "EF_CONSTRUCTION", BUILD_CANDIDATES)
            tags = ("r", "TAG", "CASESENSITIVE", "c", "TAG", "CASESENSITIVE")
            head = ("ON", "HASH", "PREFIX", 1, self._documents, "STOPWORDS", 0, "NOOFFSETS", "NOHL")
            await self._run(
                "FT.CREATE", self._index, *head, "SCHEMA", "v", *vector, *graph, *tags, "t", "TEXT", "NOSTEM"
            )
        await self._run("HSET", LAST_USED, self._name, int(time.time()))

    async def lease(self, owner: str, seconds: float) -> bool:
        """Whether this gateway may write for so long; one does at a time."""
        arguments: list[bytes | int] = [owner.encode(), int(seconds * 1000)]
        return bool(
            await self._connection.call(lambda: self._lease(keys=[self._lease_key], args=arguments), self._seconds)
        )

    async def read_state(self) -> bytes | None:
        """The mark that the index got when it was complete."""
        state: bytes | None = await self._run("GET", self._state)
        return state

    async def write_state(self, state: bytes | None) -> None:
        """Mark the index as complete, or with None as incomplete."""
        await (self._run("DEL", self._state) if state is None else self._run("SET", self._state, state))

    async def list_ids(self) -> set[str]:
        """The stored documents."""
        return {self._parse_id(key) async for key in scan_keys(self._connection, self._documents + b"*")}

    async def count_documents(self) -> int:
        """The documents that can be found."""
        return int((await self._run("FT.SEARCH", self._index, "*", "LIMIT", 0, 0, "DIALECT", 2))[0])

    async def put(self, documents: Iterable[PassageDocument]) -> None:
        async with self._client.pipeline(transaction=False) as steps:
            for document in documents:
                fields = {"v": document.vector, "r": document.resource, "c": document.context}
                fields |= {"t": document.words} if document.words else {}
                steps.hset(self._documents + document.id.encode(), mapping=fields)
            await self._connection.call(steps.execute, self._seconds)

    async def remove(self, ids: Iterable[str]) -> None:
        await self._run("UNLINK", *(self._documents + document.encode() for document in ids))

    async def search(self, query: PassageQuery, seconds: float) -> PassageMatches:
        """Run the query in one round trip."""
        async with self._client.pipeline(transaction=False) as steps:
            steps.get(self._state)
            for command in query.build_commands(self._index):
                steps.execute_command(*command)
            state, *replies = await self._connection.call(steps.execute, seconds)
        return PassageMatches(state, [[self._parse_id(key) for key in reply[1:]] for reply in replies])

    async def drop(self) -> None:
        """Delete the index and all its documents, a few at a time."""
        await self.write_state(None)
        await self._run("FT.DROPINDEX", self._index)
        async for key in scan_keys(self._connection, self._documents + b"*"):
            await self._run("UNLINK", key)
        await self._run("HDEL", LAST_USED, self._name)

    def _parse_id(self, key: bytes) -> str:
        return key[len(self._documents) :].decode()

    async def _run(self, *words: Any) -> Any:
        return await self._connection.call(lambda: self._client.execute_command(*words), self._seconds)


async def list_unused_indexes(connection: RedisConnection, since: float) -> list[str]:
    """The names of indexes that no replica has used since then."""
    client: Any = connection.client
    used = await connection.call(lambda: client.hgetall(LAST_USED), connection.timeouts.background)
    return [name.decode() for name, when in used.items() if float(when) < since]


async def scan_keys(connection: RedisConnection, pattern: bytes) -> AsyncIterator[bytes]:
    """The keys that match a pattern, step by step: other clients of the server are served in between."""
    client: Any = connection.client
    cursor = 0
    while True:
        step = partial(client.scan, cursor, pattern, SCAN_COUNT)
        cursor, keys = await connection.call(step, connection.timeouts.background)
        for key in keys:
            yield key
        if not cursor:
            return
