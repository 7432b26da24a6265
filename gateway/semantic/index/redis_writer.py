"""How an index is laid out on a Redis server, and what writes it there without taking the server from others.

The files have one partition and each workspace has its own, a graph of its own: what another workspace stores cannot
change what is found. Within a partition, tags of contexts and resources keep out what may not be seen.
"""

import asyncio
import hashlib
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Self

import msgspec
import numpy as np

from gateway.errors import StoreError
from gateway.semantic.index.indexed_resources import SEPARATOR
from gateway.semantic.index.lexical import extract_terms
from gateway.semantic.index.passage_index import PassageIndex
from gateway.semantic.index.vector_index import Rows
from gateway.stores.redis_connection import RedisConnection
from gateway.stores.redis_passages import PassageDocument, PassageFilter, RedisPassages, list_unused_indexes

TAGS = 5000  # in one query: reading so many takes the server 13 ms
LEASE_SECONDS = 30.0
INDEXED_SECONDS = 60.0  # within which the server has to take up what was written
DAY, UNUSED_SECONDS = 86_400.0, 30 * 86_400.0

IsWanted = Callable[[], bool]


class WriterOptions(msgspec.Struct, frozen=True):
    """How patiently and in what portions an index is written."""

    wait_seconds: float = 1.0  # while another replica writes
    rewrite_seconds: float = 30.0  # until what another replica has changed meanwhile is written again
    batch: int = 8  # documents at once: each takes the server a millisecond or more, in which it does nothing else


class IndexPartition(msgspec.Struct, frozen=True, eq=False):
    """What of an index belongs to the files ("") or to one workspace."""

    workspace: str
    ids: dict[str, int]  # of the documents → rows
    resources: int
    fingerprint: bytes  # of its contents: replicas with the same contents find the same

    def name(self, kind: str) -> str:
        """Its name on the server; `kind` separates what cannot be compared."""
        return hash_text(f"{kind}\n{self.workspace}", 24)


class RedisLayout(msgspec.Struct, frozen=True, eq=False):
    """An index in partitions, and the tags of its resources."""

    index: PassageIndex
    partitions: tuple[IndexPartition, ...]
    partition_of: Rows  # by row; -1: in none
    contexts: Rows  # by resource: the number of its context
    sizes: Rows  # by context: its resources
    context_tags: Sequence[str]
    resource_tags: Sequence[str]

    @classmethod
    def build(cls, index: PassageIndex, least: int) -> Self:
        """The partitions of at least so many passages; smaller ones are searched faster here than there."""
        keys = list(index.numbers)
        names = [key.rpartition("/")[0] for key in keys]  # workspace and alias of the context
        numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
        contexts = np.array([numbers[name] for name in names], np.intp)
        workspaces = np.array([key.rpartition(SEPARATOR)[0] for key in keys], dtype=object)
        partition_of = np.full(len(index.passages), -1, np.intp)
        partitions: list[IndexPartition] = []
        for workspace in dict.fromkeys(workspaces.tolist()):
            rows = np.flatnonzero((workspaces == workspace)[index.owners] & index.ready)
            if len(rows) >= least:
                partition_of[rows] = len(partitions)
                partitions.append(_build_partition(index, workspace, rows))
        tags = [hash_text(key, 12) for key in keys]
        context_tags = [hash_text(name, 12) for name in numbers]
        sizes = np.bincount(contexts, minlength=len(numbers))
        return cls(index, tuple(partitions), partition_of, contexts, sizes, context_tags, tags)

    @property
    def width(self) -> int:
        """Dimensions of a vector."""
        return int(self.index.vectors.get_vectors(np.empty(0, np.intp)).shape[1])

    def list_documents(self, ids: Sequence[str], partition: IndexPartition, with_words: bool) -> list[PassageDocument]:
        """The documents of some ids, as the server keeps them."""
        rows = np.array([partition.ids[one] for one in ids], np.intp)
        vectors = self.index.vectors.get_vectors(rows).astype("<f2")
        documents = []
        for one, row, vector in zip(ids, rows, vectors, strict=True):
            resource = self.index.owners[row]
            tags = self.resource_tags[resource], self.context_tags[self.contexts[resource]]
            words = " ".join(map(hash_word, extract_terms(self.index.passages[row].text))) if with_words else ""
            documents.append(PassageDocument(one, vector.tobytes(), *tags, words))
        return documents

    def build_filter(self, number: int, rows: Rows) -> PassageFilter | None:
        """Which tags stand for these rows of a partition; None: all of it. Raises ValueError for too many."""
        resources = np.unique(self.index.owners[rows])
        contexts = self.contexts[resources]
        whole = np.bincount(contexts, minlength=len(self.sizes)) == self.sizes
        partition = self.partitions[number]
        if len(resources) == partition.resources:
            return None
        single = resources[~whole[contexts]]
        full = np.unique(contexts[whole[contexts]])
        if len(full) + len(single) > TAGS:
            raise ValueError
        tags = [self.context_tags[n] for n in full], [self.resource_tags[n] for n in single]
        return PassageFilter(*tags, len(rows) / len(partition.ids))


def _build_partition(index: PassageIndex, workspace: str, rows: Rows) -> IndexPartition:
    ids: dict[str, int] = {}
    for row in rows:
        passage = index.passages[row]
        ids.setdefault(hash_text(f"{passage.resource}\n{index.keys[row].hex()}", 32), int(row))
    resources = len(np.unique(index.owners[rows]))
    return IndexPartition(workspace, ids, resources, hash_text("\n".join(sorted(ids)), 32).encode())


def hash_word(term: str) -> str:
    """A word as the server knows it."""
    return "w" + hash_text(term, 12)


def hash_text(text: str, digits: int) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:digits]


class RedisWriter:
    """Writes what the server lacks and removes what is gone; of several replicas one writes. Raises StoreError."""

    def __init__(self, connection: RedisConnection, options: WriterOptions, *, with_words: bool) -> None:
        self._connection, self._options, self._with_words = connection, options, with_words
        self._owner = secrets.token_hex(8)
        self._written: dict[str, float] = {}
        self._swept = 0.0

    def open_passages(self, layout: RedisLayout, partition: IndexPartition) -> RedisPassages:
        """Where a partition is stored; vectors of another model or width are stored elsewhere."""
        return RedisPassages(self._connection, self._name(layout, partition), layout.width)

    async def write(self, layout: RedisLayout, partition: IndexPartition, is_wanted: IsWanted) -> bool:
        """Whether the server has all of a partition; False if it is not wanted any more, or others write otherwise."""
        passages, name = self.open_passages(layout, partition), self._name(layout, partition)
        await passages.create()
        while await passages.read_state() != partition.fingerprint:
            since = time.monotonic() - self._written.get(name, -1e9)
            if not is_wanted() or since < self._options.rewrite_seconds:
                return False
            if not await passages.lease(self._owner, LEASE_SECONDS):
                await asyncio.sleep(self._options.wait_seconds)
            elif await self._write_changes(layout, partition, is_wanted):
                self._written[name] = time.monotonic()
                return True
        return True

    async def sweep(self) -> None:
        """Once a day, remove what no replica has used for a month: of a workspace or a model that is gone."""
        if time.time() - self._swept >= DAY:
            self._swept = time.time()
            for name in await list_unused_indexes(self._connection, self._swept - UNUSED_SECONDS):
                await RedisPassages(self._connection, name, 0).drop()

    def _name(self, layout: RedisLayout, partition: IndexPartition) -> str:
        return partition.name(f"{layout.index.embedder.id}\n{layout.width}\n{self._with_words}")

    async def _write_changes(self, layout: RedisLayout, partition: IndexPartition, is_wanted: IsWanted) -> bool:
        passages = self.open_passages(layout, partition)
        await passages.write_state(None)
        there = await passages.list_ids()
        for some in self._split_batches([one for one in partition.ids if one not in there]):
            documents = await asyncio.to_thread(layout.list_documents, some, partition, self._with_words)
            await self._throttle(passages, passages.put(documents))
            if not is_wanted():
                return False
        for some in self._split_batches([one for one in there if one not in partition.ids]):
            await self._throttle(passages, passages.remove(some))
        await self._wait_until_indexed(passages, len(partition.ids))
        await passages.write_state(partition.fingerprint)
        return True

    async def _throttle(self, passages: RedisPassages, work: Awaitable[None]) -> None:
        """Use the server for half of the time at most, and keep the lease."""
        began = time.monotonic()
        await work
        took = time.monotonic() - began
        await passages.lease(self._owner, LEASE_SECONDS)
        await asyncio.sleep(took)

    async def _wait_until_indexed(self, passages: RedisPassages, count: int) -> None:
        """Return once all can be found: documents that are older than their index are taken up in the background."""
        end = time.monotonic() + INDEXED_SECONDS
        while await passages.count_documents() != count:
            if time.monotonic() > end:
                raise StoreError("The server has not indexed all passages in time.")
            await asyncio.sleep(self._options.wait_seconds / 10)

    def _split_batches(self, ids: Sequence[str]) -> Iterator[Sequence[str]]:
        size = self._options.batch
        return (ids[start : start + size] for start in range(0, len(ids), size))
