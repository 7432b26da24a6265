"""Looks up passages for questions: once for all who ask the same, a fair share for each workspace, kept for a while."""

import asyncio
import hashlib
import logging
import sys
import time
from collections.abc import Callable, Hashable, Mapping
from importlib import import_module
from typing import NamedTuple

import msgspec
from pydantic import ValidationError

from gateway.circuit_breaker import CircuitBreaker
from gateway.domain.lru import LruCache
from gateway.domain.memory_budget import CachePartition, MemoryBudget
from gateway.domain.resource import Resource
from gateway.domain.retriever import RETRIEVER, FoundPassage, Lookup, Retriever, SearchTarget
from gateway.domain.snapshot import ServedSnapshots
from gateway.errors import WorkspaceBusy
from gateway.fair_queue import FairQueue
from gateway.links.guard import LinkGuard
from gateway.queue_bounds import QueueBounds
from gateway.resources.retriever import HTTP, HttpSearchOptions
from gateway.retrievers.answers import RetrieverError, bound_passages
from gateway.retrievers.http_retriever import FETCH
from gateway.retrievers.registry import RetrieverClasses, RetrieverParts, RetrieverPlugin, load_retrievers
from gateway.settings import Settings
from gateway.settings_sections import RetrieverSettings
from gateway.validation import format_suggestion

log = logging.getLogger(__name__)

BOUNDS = QueueBounds(places=64, each=32, waiting=128, newest_first=True)
LONGEST_QUESTION = 2000  # characters that are sent
MAX_OPEN, MAX_WORKSPACES = 1024, 1024  # retrievers that are kept open, and workspaces whose outcomes are kept
FAILURES, PAUSE = 3, 10.0  # lookups that fail in a row, and the seconds that a retriever is then left alone
LONGEST_FAILURE = 500  # characters
PASSAGE_BYTES = 250  # of one besides its texts
LATE = Lookup(failure="it did not answer in time", late=True)
PAUSED = Lookup(failure="it has failed several times in a row and is left alone for a while")
BUSY = Lookup(failure="too many lookups of this workspace are waiting")


class KeptLookup(NamedTuple):
    """An outcome and until when it counts."""

    passages: tuple[FoundPassage, ...]
    until: float


class LookupKey(msgspec.Struct, frozen=True):
    """What tells outcomes apart; a hash stands for the question, since keys outlive requests."""

    workspace: str
    resource: str
    version: int
    retriever: Retriever  # files have no versions: another target is another outcome
    question: bytes
    limit: int


class Retrievers:
    """All retrievers of a process."""

    def __init__(
        self,
        classes: RetrieverClasses,
        endpoints: Mapping[str, RetrieverSettings],
        guard: LinkGuard,
        memory: MemoryBudget | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._classes, self._endpoints, self._guard, self._clock = classes, endpoints, guard, clock
        self._memory = memory or MemoryBudget()
        self.queue = FairQueue(BOUNDS)
        self._partitions: LruCache[str, CachePartition] = LruCache(entries=MAX_WORKSPACES, weight=MAX_WORKSPACES)
        self._open: LruCache[Hashable, RetrieverPlugin] = LruCache(entries=MAX_OPEN, weight=MAX_OPEN)
        self._breakers: LruCache[Hashable, CircuitBreaker] = LruCache(entries=MAX_OPEN, weight=MAX_OPEN)
        self._running: dict[LookupKey, asyncio.Task[tuple[FoundPassage, ...]]] = {}

    def find_fault(self, workspace: str, target: SearchTarget) -> str | None:
        """What is wrong with what a policy names; `workspace` is "" for policy files."""
        plugin = self._classes.get(target.kind)
        if plugin is None:
            known = [name for name in self._classes if name != HTTP]
            return f"there is no plugin {target.kind!r} that searches{format_suggestion(target.kind, known)}"
        try:
            options = plugin.options.model_validate_json(target.options)
        except ValidationError as error:
            wrong = error.errors(include_url=False, include_input=False)[0]
            return f"options.{'.'.join(map(str, wrong['loc']))}: {wrong['msg']}"
        name = options.endpoint if isinstance(options, HttpSearchOptions) else None
        usable = [one for one, settings in self._endpoints.items() if settings.is_for(workspace)]
        if name is None or name in usable:
            return None
        return f"there is no endpoint {name!r} under retrievers in the configuration{format_suggestion(name, usable)}"

    async def prepare(self, served: ServedSnapshots) -> None:
        """Import what a lookup needs, if there is a retriever: the first question would not wait for that."""
        snapshots = (served.base, *served.workspaces.values())
        if any(one.type == RETRIEVER for snapshot in snapshots for one in snapshot.resources.values()):
            await asyncio.to_thread(import_module, FETCH)

    async def look_up(self, workspace: str, resource: Resource, question: str, seconds: float | None = None) -> Lookup:
        """What a retriever finds for a question; it never raises.

        Nobody waits longer than `seconds`; what comes later is kept for whoever asks next.
        """
        retriever: Retriever = resource.data
        question = " ".join(question.split())[:LONGEST_QUESTION]
        key = make_key(workspace, resource, question)
        kept: KeptLookup | None = self._open_partition(workspace).get(key)
        if kept is not None and kept.until > self._clock():
            return Lookup(kept.passages)
        running = self._running.get(key)
        if running is None:
            breaker = self._find_breaker(workspace, retriever.target)
            if not breaker.is_ready:
                return PAUSED
            breaker.record_start()
            running = self._running[key] = asyncio.create_task(self._search(workspace, retriever, question))
            running.add_done_callback(lambda done: self._finish(key, done))
        await asyncio.wait([running], timeout=seconds)
        return read_lookup(running) if running.done() else LATE

    async def _search(self, workspace: str, retriever: Retriever, question: str) -> tuple[FoundPassage, ...]:
        async with asyncio.timeout(retriever.seconds), self.queue.hold(workspace):
            opened = self._open_retriever(workspace, retriever.target)
            found = await opened.search(question, retriever.limit)
        return bound_passages(found, retriever.limit, retriever.characters, retriever.min_score)

    def _open_retriever(self, workspace: str, target: SearchTarget) -> RetrieverPlugin:
        opened = self._open.get((workspace, target))
        if opened is None:
            plugin = self._classes.get(target.kind)
            if plugin is None:
                raise RetrieverError(f"there is no plugin {target.kind!r}")
            options = plugin.options.model_validate_json(target.options)
            opened = plugin.open(options, RetrieverParts(workspace, self._guard, self._endpoints))
            self._open.put((workspace, target), opened, 1)
        return opened

    def _finish(self, key: LookupKey, done: "asyncio.Task[tuple[FoundPassage, ...]]") -> None:
        """Keep what was found, and remember who fails."""
        del self._running[key]
        breaker = self._find_breaker(key.workspace, key.retriever.target)
        if done.cancelled() or isinstance(done.exception(), WorkspaceBusy):
            return  # neither says anything about the other side
        if (failure := done.exception()) is not None:
            breaker.record_failure()
            log.warning("the retriever %s failed: %s", key.resource, describe_failure(failure))
            return
        breaker.record_success()
        if key.retriever.cache_seconds:
            passages = done.result()
            kept = KeptLookup(passages, self._clock() + key.retriever.cache_seconds)
            self._open_partition(key.workspace).put(key, kept, weigh_passages(passages))

    def _open_partition(self, workspace: str) -> CachePartition:
        partition = self._partitions.get(workspace)
        if partition is None:
            partition = self._memory.open(workspace)
            self._partitions.put(workspace, partition, 1)
        return partition

    def _find_breaker(self, workspace: str, target: SearchTarget) -> CircuitBreaker:
        breaker = self._breakers.get((workspace, target))
        if breaker is None:
            breaker = CircuitBreaker(self._clock, threshold=FAILURES, seconds=PAUSE)
            self._breakers.put((workspace, target), breaker, 1)
        return breaker

    async def close(self) -> None:
        """End what still runs."""
        running = list(self._running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def open_retrievers(settings: Settings, guard: LinkGuard, memory: MemoryBudget | None = None) -> Retrievers:
    """The retrievers that a configuration has; raises Faults for a plugin that cannot be used."""
    return Retrievers(load_retrievers(), settings.retrievers, guard, memory)


def make_key(workspace: str, resource: Resource, question: str) -> LookupKey:
    digest = hashlib.blake2b(question.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    return LookupKey(workspace, resource.id, resource.version, resource.data, digest, resource.data.limit)


def read_lookup(done: "asyncio.Task[tuple[FoundPassage, ...]]") -> Lookup:
    if done.cancelled():
        return LATE
    failure = done.exception()
    if failure is None:
        return Lookup(done.result())
    if isinstance(failure, WorkspaceBusy):
        return BUSY
    return LATE if isinstance(failure, TimeoutError) else Lookup(failure=describe_failure(failure))


def describe_failure(failure: BaseException) -> str:
    """Words for a person; what a plugin raises may quote anything, so only its type is told."""
    return str(failure)[:LONGEST_FAILURE] if isinstance(failure, RetrieverError) else type(failure).__name__


def weigh_passages(passages: tuple[FoundPassage, ...]) -> int:
    texts = ((one.text, one.title, one.source) for one in passages)
    return sum(PASSAGE_BYTES + sum(map(sys.getsizeof, one)) for one in texts)
