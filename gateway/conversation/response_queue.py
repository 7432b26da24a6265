"""Responses on their way to the store: written in batches behind the client's back, found as if they were there."""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import is_
from time import monotonic

from gateway.conversation.response_quota import ResponseQuota
from gateway.errors import StoreError
from gateway.stores.protocols import EphemeralStore

GATHER_SECONDS = 0.05  # that a batch gathers responses: larger ones cost less
LATE_SECONDS = 0.25  # after which a response should have been written; others look again for a little longer
BATCH_BYTES = 4_000_000  # that are written at once
MAX_WAITING = 64 * 1024 * 1024  # bytes of all responses that wait
MAX_SHARE = MAX_WAITING // 4  # of those of one workspace
MAX_LATER = 256 * 1024  # of a response that is described later: it holds on to its request until then
ALL_LATER = 4 * 1024 * 1024  # of all of them
OVERHEAD = 200  # bytes of a value besides itself
FIRST_RETRY, LONGEST_RETRY = 0.1, 2.0  # seconds until a store that failed is tried again

log = logging.getLogger(__name__)


# Adds what is kept of a response to the values of others; returns its bytes as the quota counts them, 0 without any.
Describe = Callable[[dict[str, bytes]], int]


class LaterResponses:
    """The responses of a workspace that are not described yet."""

    __slots__ = ("entries", "room")

    def __init__(self) -> None:
        self.entries: deque[tuple[int, Describe]] = deque()  # with the bytes that each weighs at most
        self.room = 0  # bytes that the workspace may still add


class WaitingResponse:
    """The values of a response that wait for the store; those of others may go with them."""

    __slots__ = ("counted", "key", "others", "since", "values", "workspace")

    def __init__(self, key: str, workspace: str, values: dict[str, bytes], counted: int) -> None:
        self.key, self.workspace, self.values = key, workspace, values
        self.counted = counted  # bytes, as the quota counts them
        self.others = 0  # responses that are described with it
        self.since = monotonic()

    @property
    def weight(self) -> int:
        """Bytes in memory, roughly."""
        return self.counted + OVERHEAD * len(self.values)


class ResponseQueue:
    """The responses of one process that the store has not got yet.

    A response is usually written within GATHER_SECONDS. If the last batch took longer than LATE_SECONDS or failed,
    whoever adds one waits until it is written, or hears that it could not be.

    What is kept of most responses is worked out when they are written, or when somebody looks for one: for many in a
    row that takes a fraction of what it takes for each amid its own request.
    """

    def __init__(self, store: EphemeralStore, ttl: float, quota: ResponseQuota) -> None:
        self._store, self._ttl, self._quota = store, ttl, quota
        self._waiting: dict[str, WaitingResponse] = {}  # by their keys or numbers, oldest first
        self._values: dict[str, bytes] = {}  # of all of them
        self._bytes = 0  # of all of them
        self._held: Counter[str] = Counter()  # the same by workspace
        self._later: dict[str, LaterResponses] = {}  # by workspace
        self._later_since = self._later_bytes = 0.0
        self._joined = 0  # that were described later, together
        self._late = False  # the last batch was
        self._wake = asyncio.Event()
        self._writing = asyncio.Lock()

    def __len__(self) -> int:
        later = sum(len(one.entries) for one in self._later.values())
        return later + len(self._waiting) + sum(one.others for one in self._waiting.values())

    def find(self, keys: Iterable[str]) -> dict[str, bytes]:
        """Those of these values that wait."""
        self.settle()
        waiting = self._values
        return {key: waiting[key] for key in keys if key in waiting} if waiting else {}

    def add_later(self, workspace: str, size: int, describe: Describe) -> bool:
        """Queue a response that weighs at most so much, to be described later; False if it has to be described now.

        It has to if it may be more than its workspace keeps, or has to wait.
        """
        later = self._later.get(workspace)
        if later is not None:
            room = later.room
        else:
            room = min(self._quota.measure_room(workspace), MAX_SHARE - self._held[workspace])
        if size > room or size > MAX_LATER or self._late or self._bytes > MAX_WAITING - ALL_LATER:
            return False
        if later is None:
            if not self._later:
                self._later_since = monotonic()
                self._wake.set()
            later = self._later[workspace] = LaterResponses()
        later.room = room - size
        later.entries.append((size, describe))
        self._later_bytes += size
        if self._later_bytes > ALL_LATER:
            self.settle()
        return True

    def settle(self) -> None:
        """Describe what was to be described later; whoever left it has seen to it that it will be written.

        All of a workspace that fits into a batch goes as one from here on: it is counted, written and let go together.
        """
        while self._later:
            workspace, later = next(iter(self._later.items()))
            while later.entries:
                self._describe_some(workspace, later.entries)
            del self._later[workspace]
        self._later_bytes = 0

    def _describe_some(self, workspace: str, entries: deque[tuple[int, Describe]]) -> None:
        """Describe the oldest of these, as many as fit into a batch; at least one."""
        values: dict[str, bytes] = {}
        left, counted, described = BATCH_BYTES, 0, 0
        try:
            while entries and (entries[0][0] <= left or left == BATCH_BYTES):
                size, describe = entries.popleft()
                left -= size
                if added := describe(values):
                    counted += added
                    described += 1
        finally:
            if described:
                self._quota.charge(workspace, counted)
                self._joined += 1  # so that a response which replaces one of them leaves the others alone
                one = WaitingResponse(f"joined {self._joined}", workspace, values, counted)
                one.others, one.since = described - 1, self._later_since
                self._put(one)

    def add_now(self, one: WaitingResponse) -> bool | None:
        """Queue a response; False if its workspace keeps too much, None if it has to wait for the store: `add` it."""
        self.settle()
        if self._late or (self._waiting and self._is_full(one)):
            return None
        counted = self._quota.add_now(one.workspace, one.counted)
        if counted:
            self._put(one)
            self._wake.set()
        return counted

    async def add(self, one: WaitingResponse) -> bool:
        """Queue a response; False if its workspace keeps too much. Raises StoreError if it may not be written."""
        self.settle()
        if not await self._quota.add(one.workspace, one.counted):
            return False
        while self._waiting and self._is_full(one):
            await self.flush()
        self._put(one)
        self._wake.set()
        if self._late:
            await self.flush()
        return True

    def _put(self, one: WaitingResponse) -> None:
        if (former := self._waiting.get(one.key)) is not None:
            self._remove(former)
        self._waiting[one.key] = one
        self._values.update(one.values)
        self._bytes += one.weight
        self._held[one.workspace] += one.weight

    def _is_full(self, one: WaitingResponse) -> bool:
        return self._bytes + one.weight > MAX_WAITING or self._held[one.workspace] + one.weight > MAX_SHARE

    async def flush(self) -> None:
        """Write everything that waits now; raises StoreError, and what was not written goes on waiting."""
        async with self._writing:
            self.settle()
            for batch in list(split_batches(self._waiting.values())):
                try:
                    await self._write(batch)
                except StoreError:
                    self._late = True
                    raise
                self._late = monotonic() - batch[0].since > LATE_SECONDS

    async def _write(self, batch: Sequence[WaitingResponse]) -> None:
        values: dict[str, bytes] = {}
        for one in batch:
            values.update(one.values)
        await self._store.append_many(values, self._ttl)
        if len(batch) == len(self._waiting) and all(map(is_, batch, self._waiting.values())):
            self._remove_all()
            return
        for one in batch:
            if self._waiting.get(one.key) is one:
                self._remove(one)

    def _remove_all(self) -> None:
        """Nothing came while the last batch was written: that is the rule, and costs less than one by one."""
        self._waiting.clear()
        self._values.clear()
        self._held.clear()
        self._bytes = 0

    def _remove(self, one: WaitingResponse) -> None:
        del self._waiting[one.key]
        self._bytes -= one.weight
        self._held[one.workspace] -= one.weight
        if not self._held[one.workspace]:
            del self._held[one.workspace]
        for key, value in one.values.items():
            if self._values.get(key) is value:  # else a later response has it too
                del self._values[key]

    async def run(self) -> None:
        """Write what is queued, until cancelled; a store that fails is tried again."""
        delay = FIRST_RETRY
        while True:
            await self._wake.wait()
            await asyncio.sleep(GATHER_SECONDS)
            self._wake.clear()
            try:
                await self.flush()
                delay = FIRST_RETRY
            except StoreError as error:
                log.warning("responses wait for the store: %s", error)
                await asyncio.sleep(delay)
                delay = min(2 * delay, LONGEST_RETRY)
                self._wake.set()

    async def close(self) -> None:
        """Write what is left."""
        try:
            await self.flush()
            await self._quota.book()
        except StoreError as error:
            log.error("%d responses are lost: %s", len(self), error)


def split_batches(waiting: Iterable[WaitingResponse]) -> Iterator[list[WaitingResponse]]:
    """As many at once as are not too large together; at least one."""
    batch: list[WaitingResponse] = []
    size = 0
    for one in waiting:
        size += one.weight
        if batch and size > BATCH_BYTES:
            yield batch
            batch, size = [], one.weight
        batch.append(one)
    if batch:
        yield batch
