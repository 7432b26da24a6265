"""Rate limits: the requests of a key per minute, and the tokens that upstreams report.

Each process counts in memory and settles with the store in the background, so that all workers of a machine, or all
replicas that share a Redis, count together. A process may be ahead of the store by a hundredth of a limit, its credit;
a request beyond that waits for the store. So N processes let through at most `limit + (N - 1) * (limit // 100)`
requests in a minute, and one process exactly the limit (decision 021).
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, MutableSet
from hashlib import sha256

from gateway.domain.principal import Principal
from gateway.edge.meter import Meter
from gateway.edge.usage_window import SLICE, SLICES, Reservation, UsageSettlement, UsageWindow
from gateway.errors import RateLimited, StoreError
from gateway.stores.protocols import EphemeralStore

KEPT = (SLICES + 4) * SLICE  # how long a slice is needed, plus a margin: clocks differ
CREDIT_SHARE = 100
SETTLE_SECONDS = 0.25  # how long the store does not know of a request, at most
RETRY_SECONDS = 0.5  # between attempts while the store fails
BATCH = 50  # windows per call of the store
REMEMBERED = 50_000  # windows in memory; those of idle keys are dropped beyond that

REQUESTS, TOKENS = "requests", "tokens"
Degraded = MutableSet[str]

log = logging.getLogger(__name__)


class RateLimiter:
    """Refuses the requests of keys that have reached a limit."""

    def __init__(self, store: EphemeralStore, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock
        self._windows: dict[tuple[str, str, str], UsageWindow] = {}
        self._queue: dict[UsageWindow, None] = {}  # to be settled in the background, in order
        self._queued = asyncio.Event()
        self._urgent: dict[UsageWindow, None] = {}  # to be settled at once: somebody waits, or the credit is used up
        self._settling: asyncio.Task[None] | None = None
        self._retry_at = 0.0
        self._swept = 0  # the slice in which idle windows were last dropped
        self.store_lost = False  # since the last attempt to settle
        self.refused: Counter[tuple[str, ...]] = Counter()

    async def admit(self, principal: Principal, degraded: Degraded) -> None:
        """Count a request; raises RateLimited if its key has used up its requests or tokens."""
        limits = principal.limits
        if limits.tokens is not None:
            await self._check(principal, TOKENS, limits.tokens, 0)
        if limits.requests is not None:
            await self._check(principal, REQUESTS, limits.requests, 1)
        if self.store_lost:
            degraded.add("store")

    async def admit_call(self, principal: Principal) -> None:
        """Count a request that spends no tokens; raises RateLimited if its key has used up its requests."""
        if principal.limits.requests is not None:
            await self._check(principal, REQUESTS, principal.limits.requests, 1)

    def charge(self, meter: Meter) -> None:
        """Count the tokens of an exchange; it does not wait, since its client may have left."""
        principal = meter.exchange.principal
        self.charge_tokens(principal, meter.count_spent() if principal.limits.tokens is not None else 0)

    def charge_tokens(self, principal: Principal, spent: int) -> None:
        """Count tokens that a key has spent."""
        limit = principal.limits.tokens
        if limit is None or not spent:
            return
        window = self._get_window(principal, TOKENS, self._clock())
        window.add(spent)
        if window.unsettled > limit // CREDIT_SHARE and not self.store_lost:
            self._settle_soon(window)
        else:
            self._enqueue(window)

    async def run(self) -> None:
        """Settle in the background; once more when cancelled."""
        try:
            while True:
                await self._queued.wait()
                await asyncio.sleep(RETRY_SECONDS if self.store_lost else SETTLE_SECONDS)
                await self.settle()
        finally:
            await self.settle()

    async def settle(self) -> None:
        """Tell the store everything that it does not know yet, and hear what others have used."""
        while self._settling is not None:
            await asyncio.shield(self._settling)
        self._urgent |= self._queue
        self._queue.clear()
        self._queued.clear()
        if self._urgent:
            await asyncio.shield(self._begin())

    async def _check(self, principal: Principal, kind: str, limit: int, amount: int) -> None:
        now = self._clock()
        window = self._get_window(principal, kind, now)
        fits = window.used < limit
        if fits and not self.store_lost and (window.settled is None or window.unsettled >= limit // CREDIT_SHARE):
            fits = await self._reserve(window, limit, amount)
        else:
            if fits and amount:
                window.add(amount)
            self._enqueue(window)  # also if it only looked: others may have added, or given back
            if self.store_lost and now >= self._retry_at:
                self._settle_soon(window)
        if not fits:
            self.refused[(kind,)] += 1
            raise build_refusal(kind, limit, window.compute_wait(limit, now))

    async def _reserve(self, window: UsageWindow, limit: int, amount: int) -> bool:
        """Let the store say whether a request fits, together with all others that wait for it."""
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        window.waiting.append(Reservation(limit, amount, answer))
        self._settle_soon(window)
        return await answer

    def _get_window(self, principal: Principal, kind: str, now: float) -> UsageWindow:
        who = (kind, principal.workspace, principal.key or principal.name)
        window = self._windows.get(who)
        if window is None:
            if len(self._windows) >= REMEMBERED:
                self._drop_idle(int(now // SLICE))
            window = self._windows[who] = UsageWindow(name_account(principal, kind))
        window.advance(now)
        return window

    def _drop_idle(self, number: int) -> None:
        """Drop the windows that nobody used lately and of which the store has everything."""
        if number != self._swept:
            self._swept = number
            self._windows = {who: one for who, one in self._windows.items() if one.is_used(number)}

    def _enqueue(self, window: UsageWindow) -> None:
        if window not in self._queue:
            self._queue[window] = None
            self._queued.set()

    def _settle_soon(self, window: UsageWindow) -> None:
        """Settle a window now, or together with what comes while the store is busy."""
        self._urgent[window] = None
        if self._settling is None:
            self._begin()

    def _begin(self) -> asyncio.Task[None]:
        self._settling = asyncio.get_running_loop().create_task(self._settle_urgent())
        return self._settling

    async def _settle_urgent(self) -> None:
        try:
            while self._urgent:
                batch = list(self._urgent)[:BATCH]
                for window in batch:
                    del self._urgent[window]
                now = self._clock()
                for window in batch:
                    # Those who wait are let through now: in the slice in which they came they would count too short.
                    window.advance(now)
                await self._settle_batch([window.begin_settlement() for window in batch])
        finally:
            self._settling = None

    async def _settle_batch(self, settlements: list[UsageSettlement]) -> None:
        """Settle some windows in one call of the store; nobody waits for ever."""
        additions = dict(pair for one in settlements for pair in one.list_additions())
        try:
            sums = await self._store.add_many(additions, KEPT)
            for one in settlements:
                one.window.finish_settlement(one, sums)
                if one.window.unsettled:
                    self._enqueue(one.window)
            self.store_lost = False
        except StoreError as error:
            if not self.store_lost:
                log.warning("limits are counted by each process alone: %s", error)
            self._lose_store(one.window for one in settlements)
        finally:
            for one in settlements:
                one.window.answer_alone(one.reservations)  # those that were not answered yet

    def _lose_store(self, unsettled: Iterable[UsageWindow]) -> None:
        """Go on alone; what the store was not told is kept for the next attempt."""
        self.store_lost = True
        self._retry_at = self._clock() + RETRY_SECONDS
        self._queue |= self._urgent | dict.fromkeys(unsettled)
        for window in self._urgent:
            reservations, window.waiting = window.waiting, []
            window.answer_alone(reservations)
        self._urgent.clear()
        self._queued.set()


def name_account(principal: Principal, kind: str) -> str:
    """The name of a key's counters in the store; it contains no text that a person wrote."""
    who = f"{principal.workspace}\0{principal.key or principal.name}"
    return f"limit:{kind}:{sha256(who.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def build_refusal(kind: str, limit: int, wait: float) -> RateLimited:
    seconds = max(1, round(wait))
    error = RateLimited(f"Rate limit exceeded: {limit} {kind} per minute for this key. Try again in {seconds} s.")
    error.retry_after = max(1.0, wait)
    return error
