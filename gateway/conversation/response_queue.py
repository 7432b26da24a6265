"""Responses on their way to the store: written in batches behind the client's back, found as if they were there."""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from operator import is_
from time import monotonic

from msgspec import Raw

from gateway.conversation.hidden_turns import ConversationOwner
from gateway.conversation.noted_responses import NotedResponses, describe_noted
from gateway.conversation.response_quota import ResponseQuota
from gateway.conversation.waiting_responses import Describe, WaitingResponse
from gateway.errors import StoreError
from gateway.stores.protocols import CommonValue, EphemeralStore

GATHER_SECONDS = 0.05  # that a batch gathers responses: larger ones cost less
LATE_SECONDS = 0.25  # after which a response should have been written; others look again for a little longer
BATCH_BYTES = 4_000_000  # that are written at once
MAX_WAITING = 64 * 1024 * 1024  # bytes of all responses that wait
MAX_SHARE = MAX_WAITING // 4  # of those of one workspace
MAX_LATER = 256 * 1024  # of a response that is described later: it holds on to its request until then
ALL_LATER = 4 * 1024 * 1024  # of all of them
TOGETHER = 48  # responses of a workspace that are described at once: they are in the CPU's cache then, and fill a row
FIRST_RETRY, LONGEST_RETRY = 0.1, 2.0  # seconds until a store that failed is tried again

log = logging.getLogger(__name__)


class LaterResponses:
    """The responses of a workspace that are not described yet."""

    __slots__ = ("_given", "entries", "noted", "number", "room", "since")

    def __init__(self, room: int) -> None:
        self.entries: deque[tuple[int, Describe]] = deque()  # with the bytes that each weighs at most
        self.noted: list[NotedResponses] = []
        self.room = self._given = room  # bytes that the workspace may still add, and might at first
        self.number = 0
        self.since = monotonic()

    @property
    def size(self) -> int:
        """Bytes that they weigh at most."""
        return self._given - self.room

    def open_group(self, owner: ConversationOwner, model: str, echoed: dict[str, Raw] | None) -> NotedResponses:
        """Where a response is noted: with the last ones, if it differs from them by its id alone."""
        if self.noted:
            last = self.noted[-1]  # if its owner is another object, those that are alike find together in their batch
            if last.owner is owner and last.model == model and last.echoed == echoed:
                return last
        kept = None if echoed is None else {name: value.copy() for name, value in echoed.items()}  # without their body
        group = NotedResponses(owner, model, kept)
        self.noted.append(group)
        return group


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
        self._sharing: dict[str, WaitingResponse] = {}  # those whose shared values are not among these
        self._bytes = 0  # of all of them
        self._held: Counter[str] = Counter()  # the same by workspace
        self._later: dict[str, LaterResponses] = {}  # by workspace
        self._later_bytes = 0  # at most, of all of them
        self._joined = 0  # that were described later, together
        self._late = False  # the last batch was
        self._tries = self._failed = 0  # how often it was written, and which of these times failed last
        self._failure = ""  # what it said then; the error itself would hold on to its batch
        self._wake = asyncio.Event()
        self._writing = asyncio.Lock()

    def __len__(self) -> int:
        later = sum(one.number for one in self._later.values())
        return later + sum(one.number for one in self._waiting.values())

    def find(self, keys: Iterable[str]) -> dict[str, bytes]:
        """Those of these values that wait."""
        self.settle()
        if self._sharing:
            self._unshare()
        waiting = self._values
        return {key: waiting[key] for key in keys if key in waiting} if waiting else {}

    def _unshare(self) -> None:
        """Make what several responses have in common be found under each of their keys."""
        values: dict[str, bytes] = {}
        for one in self._sharing.values():
            one.unshare()
            values.update(one.values)
        values.update(self._values)  # which came later
        self._values = values
        self._sharing.clear()

    def add_later(self, workspace: str, size: int, describe: Describe) -> bool:
        """Queue a response that weighs at most so much, to be described later; False if it has to be described now."""
        later = self.reserve(workspace, size)
        if later is not None:
            later.entries.append((size, describe))
        return later is not None

    def reserve(self, workspace: str, size: int, *, noted: bool = False) -> LaterResponses | None:
        """Where a response that weighs at most so much is queued, to be described later.

        None if it may be more than its workspace keeps, or has to wait. One that is noted does not come together with
        others before it: of two with the same id the later one counts.
        """
        if self._later_bytes + size > ALL_LATER:
            self.settle()
        later = self._later.get(workspace)
        if later is not None and (later.number >= TOGETHER or (noted and later.entries)):
            self._settle(workspace, later)
            later = None
        if later is not None:
            room = later.room
        else:
            room = min(self._quota.measure_room(workspace), MAX_SHARE - self._held[workspace])
        if size > room or size > MAX_LATER or self._late or self._bytes > MAX_WAITING - ALL_LATER:
            return None
        if later is None:
            later = self._later[workspace] = LaterResponses(room)
            self._wake.set()
        later.room = room - size
        later.number += 1
        self._later_bytes += size
        return later

    def settle(self) -> None:
        """Describe what was to be described later; whoever left it has seen to it that it will be written."""
        while self._later:
            self._settle(*next(iter(self._later.items())))

    def _settle(self, workspace: str, later: LaterResponses) -> None:
        """The same for a workspace.

        All that fits into a batch goes as one from here on: it is counted, written and let go together.
        """
        while later.noted or later.entries:
            self._describe_some(workspace, later)
        del self._later[workspace]
        self._later_bytes -= later.size

    def _describe_some(self, workspace: str, later: LaterResponses) -> None:
        """Describe the oldest of these, as many as fit into a batch; at least one."""
        self._joined += 1  # so that a response which replaces one of them leaves the others alone
        joined = WaitingResponse(f"joined {self._joined}", workspace, {}, 0, 0)
        joined.since = later.since
        noted, later.noted = later.noted, []
        left = BATCH_BYTES
        try:
            if noted:
                describe_noted(noted, joined)
            while later.entries and (later.entries[0][0] <= left or left == BATCH_BYTES):
                size, describe = later.entries.popleft()
                left -= size
                describe(joined)
        finally:
            if joined.number:
                self._quota.charge(workspace, joined.counted)
                self._put(joined)

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
        if one.shared and not self._values:
            self._sharing[one.key] = one
        else:
            one.unshare()  # it comes after others, which counts where their keys are the same
        self._waiting[one.key] = one
        self._values.update(one.values)
        one.held = one.weight
        self._bytes += one.held
        self._held[one.workspace] += one.held

    def _is_full(self, one: WaitingResponse) -> bool:
        return self._bytes + one.weight > MAX_WAITING or self._held[one.workspace] + one.weight > MAX_SHARE

    async def flush(self) -> None:
        """Write everything that waits now; raises StoreError, and what was not written goes on waiting.

        Whoever waited for its turn while another one tried and failed need not try the same again.
        """
        known = self._tries
        async with self._writing:
            if self._failed > known:
                raise StoreError(self._failure)
            self._tries += 1
            self.settle()
            for batch in list(split_batches(self._waiting.values())):
                try:
                    await self._write(batch)
                except StoreError as failure:
                    self._late, self._failed, self._failure = True, self._tries, str(failure)
                    raise
                self._late = monotonic() - batch[0].since > LATE_SECONDS

    async def _write(self, batch: Sequence[WaitingResponse]) -> None:
        values: dict[str, bytes] = {}
        shared: list[CommonValue] = []
        for one in batch:
            values.update(one.values)
            shared += one.shared
        await self._store.append_many(values, self._ttl, shared)
        if len(batch) == len(self._waiting) and all(map(is_, batch, self._waiting.values())):
            self._remove_all()
            return
        for one in batch:
            if self._waiting.get(one.key) is one:
                self._remove(one)

    def _remove_all(self) -> None:
        """Nothing came while the last batch was written: that is the rule, and costs less than one by one."""
        self._waiting.clear()
        self._sharing.clear()
        self._values.clear()
        self._held.clear()
        self._bytes = 0

    def _remove(self, one: WaitingResponse) -> None:
        del self._waiting[one.key]
        self._bytes -= one.held
        self._held[one.workspace] -= one.held
        if not self._held[one.workspace]:
            del self._held[one.workspace]
        self._sharing.pop(one.key, None)
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
