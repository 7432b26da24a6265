"""Summaries: found in memory or the store, otherwise made in the background and shared by replicas."""

import asyncio
import hashlib
import logging
import secrets
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import msgspec

from gateway.domain.lru import LruCache
from gateway.domain.memory_budget import CachePartition, MemoryBudget
from gateway.domain.summary import SummaryOrder
from gateway.errors import StoreError
from gateway.fair_queue import FairQueue
from gateway.queue_bounds import QueueBounds
from gateway.settings import Settings
from gateway.settings_sections import SummarySettings
from gateway.stores.lease import Lease
from gateway.stores.protocols import EphemeralStore
from gateway.summaries.queue import MOST, QueuedSummary, SummaryQueue, compute_delay
from gateway.summaries.writer import PROMPT_VERSION, SummaryError, SummaryWriter, UpstreamWriter, WrittenSummary
from gateway.upstreams.routes import Routes

log = logging.getLogger(__name__)

KEPT_SECONDS = 90 * 86_400.0  # that the store keeps a summary after it was last stored
RENEWED_SECONDS = 30 * 86_400.0  # after which one that is read is stored again
LOOKUP_SECONDS = 0.25  # that a request waits for the store
LONGEST_SLEEP = 3600.0
MAX_WORKSPACES, MAX_FAILURES = 1024, 4096  # that are remembered


class StoredSummary(msgspec.Struct, frozen=True):
    """A summary as the store has it."""

    text: str
    stored_at: float


class SummaryTimings(msgspec.Struct, frozen=True):
    """Intervals of the job, in seconds."""

    poll: float = 2.0  # between two looks at what another replica is making
    pause: float = 1.0  # between two times that contexts are built again


DEFAULT_TIMINGS = SummaryTimings()


class WorkspaceSummaries(msgspec.Struct, frozen=True):
    """What is in memory for one workspace."""

    workspace: str
    settings: SummarySettings
    partition: CachePartition

    @property
    def most(self) -> int:
        return self.settings.tokens

    def find(self, order: SummaryOrder) -> str | None:
        found: str | None = self.partition.peek(make_key(self.workspace, self.settings, order))
        return found


class Summaries:
    """All summaries of a process; everything but `find` of a table is called on the event loop."""

    def __init__(
        self,
        settings: SummarySettings,
        writer: SummaryWriter,
        store: EphemeralStore,
        memory: MemoryBudget | None = None,
        timings: SummaryTimings = DEFAULT_TIMINGS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings, self._writer, self._store = settings, writer, store
        self._memory, self.timings, self._clock = memory or MemoryBudget(), timings, clock
        self._owner = secrets.token_hex(8)
        self._partitions: LruCache[str, CachePartition] = LruCache(entries=MAX_WORKSPACES, weight=MAX_WORKSPACES)
        self._failures: LruCache[bytes, str] = LruCache(entries=MAX_FAILURES, weight=MAX_FAILURES)
        self._given_up: LruCache[str, bool] = LruCache(entries=MAX_FAILURES, weight=MAX_FAILURES)
        self._queue = SummaryQueue()
        self._places = FairQueue(QueueBounds(settings.calls, max(1, settings.calls - 1), waiting=MOST))
        self._changed: set[str] = set()  # workspaces whose contexts are to be built again
        self._told_at = -timings.pause
        self._wake = asyncio.Event()
        self.outcomes: Counter[tuple[str, ...]] = Counter()
        self.tokens: Counter[tuple[str, ...]] = Counter()  # that calls used

    @property
    def waiting(self) -> int:
        return len(self._queue)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is to be made or told."""
        return not self._queue and not self._changed

    @property
    def shed(self) -> int:
        return self._queue.shed

    def open(self, workspace: str) -> WorkspaceSummaries:
        return WorkspaceSummaries(workspace, self._settings, self._open_partition(workspace))

    async def load(self, workspace: str, orders: Sequence[SummaryOrder], *, queue: bool) -> Mapping[SummaryOrder, str]:
        keys = {make_key(workspace, self._settings, order): order for order in orders}
        unknown = [key for key in keys if key not in self._queue and self._given_up.get(key) is None]
        found: dict[SummaryOrder, str] = {}
        try:
            async with asyncio.timeout(LOOKUP_SECONDS):
                stored = await self._read(workspace, unknown)
        except (StoreError, TimeoutError) as error:
            log.warning("stored summaries could not be read: %r", error)
            stored = {}
        for key in unknown:
            if key in stored:
                found[keys[key]] = stored[key]
            elif queue:
                self._enqueue(key, workspace, keys[key])
        return found

    def find_failure(self, workspace: str, text: str) -> str | None:
        return self._failures.get(hash_text(workspace, text)) or None

    def _enqueue(self, key: str, workspace: str, order: SummaryOrder) -> None:
        sent = order._replace(text=order.text[: self._settings.max_characters + 1])  # it shows that more is left out
        digest = hash_text(workspace, order.text)
        self._queue.add(QueuedSummary(key, workspace, sent, digest, self._clock()))
        self._wake.set()

    async def run(self, on_change: Callable[[str], None]) -> None:
        """Make what is missing until cancelled; `on_change` hears of workspaces that have new summaries.

        What was built before a summary was there is to be built again: contexts are, at most once per `pause`.
        """
        self._queue.restart()
        async with asyncio.TaskGroup() as calls:
            while True:
                self._wake.clear()
                for entry in self._queue.take_due(self._clock()):
                    calls.create_task(self._work(entry))
                self._changed |= self._queue.take_refused()
                if self._changed and self._clock() >= self._told_at + self.timings.pause:
                    changed, self._changed, self._told_at = self._changed, set(), self._clock()
                    for workspace in changed:
                        on_change(workspace)
                await self._sleep()

    async def _work(self, entry: QueuedSummary) -> None:
        """Make one summary, or adopt what another replica has made."""
        async with self._places.hold(entry.workspace):
            # Whatever an answer makes a parser raise is a failure of this text; the others are made nevertheless.
            (outcome,) = await asyncio.gather(self._adopt_or_make(entry), return_exceptions=True)
        if isinstance(outcome, BaseException):
            self._note_failure(entry, outcome)
        elif outcome:
            self._queue.remove(entry)
            self._changed.add(entry.workspace)
        else:
            self._queue.postpone(entry, self._clock() + self.timings.poll)
        self._wake.set()

    async def _adopt_or_make(self, entry: QueuedSummary) -> bool:
        """Whether it is in memory now; False: another replica is making it."""
        lease = Lease(self._store, f"lease:{entry.key}", self._owner, self._settings.seconds + self.timings.poll)
        try:
            if await self._read(entry.workspace, [entry.key]):
                self.outcomes["adopted",] += 1
                return True
            if not await lease.acquire():
                return False
        except StoreError as error:  # the summary is made all the same, and kept in memory
            log.warning("summaries are not shared with other replicas: %s", error)
        try:
            async with asyncio.timeout(self._settings.seconds):
                written = await self._writer.write(*entry.order)
        finally:
            await lease.release()
        await self._keep(entry, written)
        return True

    async def _keep(self, entry: QueuedSummary, written: WrittenSummary) -> None:
        workspace, tokens = entry.workspace, entry.order.tokens
        self.outcomes["made",] += 1
        self.tokens["input",] += written.input_tokens
        self.tokens["output",] += written.output_tokens
        log.info(
            "a text of workspace %r was summarized to %d tokens by %s, which used %d + %d tokens",
            *(workspace, tokens, self._settings.model, written.input_tokens, written.output_tokens),
        )
        self._remember(workspace, entry.key, written.text)
        self._failures.put(entry.digest, "")
        try:
            await self._put(entry.key, written.text)
        except StoreError as error:
            log.warning("a summary could not be stored: %s", error)

    def _note_failure(self, entry: QueuedSummary, error: BaseException) -> None:
        entry.failures += 1
        why = describe_failure(error, self._settings.seconds)
        last = entry.failures >= self._settings.attempts
        self.outcomes["failed",] += 1
        delay = compute_delay(self._settings.retry_seconds, entry.failures)
        then = "given up until the text changes or the gateway restarts" if last else f"again in {delay:g} s"
        number, most = entry.failures, self._settings.attempts
        told = f"{why} ({error.__cause__})" if error.__cause__ is not None else why
        log.warning("a summary failed (%d of %d, workspace %r): %s; %s", number, most, entry.workspace, told, then)
        self._failures.put(entry.digest, f"{why}; {then}")
        if last:
            self.outcomes["given_up",] += 1
            self._given_up.put(entry.key, True)
            self._queue.remove(entry)
        else:
            self._queue.postpone(entry, self._clock() + delay)

    async def _read(self, workspace: str, keys: Sequence[str]) -> dict[str, str]:
        """Those of the keys that are in memory or in the store, which are in memory afterwards."""
        partition = self._open_partition(workspace)
        found: dict[str, str] = {key: text for key in keys if (text := partition.get(key)) is not None}
        wanted = [key for key in keys if key not in found]
        for key, value in (await self._store.get_many(wanted) if wanted else {}).items():
            try:
                stored = msgspec.json.decode(value, type=StoredSummary)
            except msgspec.MsgspecError as error:
                log.warning("a stored summary cannot be decoded: %s", error)
                continue
            found[key] = stored.text
            self._remember(workspace, key, stored.text)
            if time.time() - stored.stored_at > RENEWED_SECONDS:
                await self._put(key, stored.text)
        return found

    async def _put(self, key: str, text: str) -> None:
        await self._store.put(key, msgspec.json.encode(StoredSummary(text, time.time())), KEPT_SECONDS)

    def _remember(self, workspace: str, key: str, text: str) -> None:
        self._open_partition(workspace).put(key, text, sys.getsizeof(text))

    def _open_partition(self, workspace: str) -> CachePartition:
        partition = self._partitions.get(workspace)
        if partition is None:
            partition = self._memory.open(workspace)
            self._partitions.put(workspace, partition)
        return partition

    async def _sleep(self) -> None:
        times = [due for due in (self._queue.find_next(),) if due is not None]
        times += [self._told_at + self.timings.pause] if self._changed else []
        wait = max(0.0, min(times) - self._clock()) if times else LONGEST_SLEEP
        try:
            async with asyncio.timeout(wait):
                await self._wake.wait()
        except TimeoutError:
            return


def open_summaries(
    settings: Settings, routes: Routes, store: EphemeralStore, memory: MemoryBudget | None = None
) -> Summaries | None:
    """None if no model is configured."""
    chosen = settings.summaries
    return Summaries(chosen, UpstreamWriter(routes, chosen), store, memory) if chosen.model is not None else None


def make_key(workspace: str, settings: SummarySettings, order: SummaryOrder) -> str:
    """Of one workspace's text: nobody learns from it what others have."""
    how = repr((settings.model, settings.max_characters, sorted(settings.parameters.items())))
    return f"summary:{PROMPT_VERSION}:{hash_text(workspace, how, order.text).hex()}:{order.tokens}"


def hash_text(*parts: str) -> bytes:
    digest = hashlib.blake2b(digest_size=24)
    for part in parts:
        encoded = part.encode("utf-8", "surrogatepass")
        digest.update(b"%d:" % len(encoded) + encoded)
    return digest.digest()


def describe_failure(error: BaseException, seconds: float) -> str:
    """Words for a person; what anything else raises may quote texts, so only its type is told."""
    if isinstance(error, TimeoutError):
        return f"no answer within {seconds:g} s"
    return str(error)[:300] if isinstance(error, SummaryError) else type(error).__name__
