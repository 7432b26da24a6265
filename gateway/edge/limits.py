"""Rate limits: the requests of a key per minute, and the tokens that upstreams report.

Both are counted in slices of 5 s; the current slice and the 12 before it are added up. So no 60 s exceed the limit, and
a key waits at most one slice too long. The counters are in the store, so that all workers of a machine, or all replicas
that share a Redis, count together.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, MutableSet, Sequence
from hashlib import sha256

from gateway.domain.exchange import Exchange
from gateway.domain.principal import Principal
from gateway.edge.meter import Meter
from gateway.errors import RateLimited, StoreError
from gateway.stores.codec import parse_counter
from gateway.stores.memory_ephemeral import MemoryEphemeralStore
from gateway.stores.protocols import EphemeralStore

SLICE = 5.0
SLICES = 12  # a minute
KEPT = (SLICES + 4) * SLICE  # how long a slice is needed, plus a margin: clocks differ
REMEMBERED = 50_000  # past slices, and refusals

REQUESTS, TOKENS = "requests", "tokens"
Degraded = MutableSet[str]


class RateLimiter:
    """Refuses the requests of keys that have reached a limit."""

    def __init__(self, store: EphemeralStore, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock
        self._local = MemoryEphemeralStore()  # counts here while the store fails
        self._until: dict[tuple[str, str, int], float] = {}  # refused at least until then
        self._former: dict[str, int] = {}  # the counts of past slices
        self._settling: set[asyncio.Task[None]] = set()
        self.refused: Counter[tuple[str, ...]] = Counter()

    async def admit(self, principal: Principal, degraded: Degraded, *, tokens: bool = True) -> None:
        """Count a request; raises RateLimited if its key has used up its requests or tokens."""
        limits, now = principal.limits, self._clock()
        for kind, limit in ((TOKENS, limits.tokens if tokens else None), (REQUESTS, limits.requests)):
            if limit is None:
                continue
            account = name_account(principal, kind)
            known = self._until.get((account, kind, limit), 0.0)
            wait = known - now if known > now else await self._wait(account, kind, limit, degraded)
            if wait > 0:
                if len(self._until) > REMEMBERED:
                    self._until.clear()
                self._until[account, kind, limit] = now + wait
                self.refused[(kind,)] += 1
                raise build_refusal(kind, limit, wait)

    async def settle(self, meter: Meter) -> None:
        """Charge the tokens of an exchange, even if its client has disconnected and this task is being cancelled."""
        spent = meter.count_spent() if meter.exchange.principal.limits.tokens is not None else 0
        if spent:
            task = asyncio.create_task(self._charge(meter.exchange, spent))
            self._settling.add(task)
            task.add_done_callback(self._settling.discard)
            await asyncio.shield(task)

    async def _charge(self, exchange: Exchange, spent: int) -> None:
        account = name_account(exchange.principal, TOKENS)
        await self._add(f"{account}:{int(self._clock() // SLICE)}", spent, exchange.degraded)

    async def _wait(self, account: str, kind: str, limit: int, degraded: Degraded) -> float:
        """Seconds until one more request fits; 0: it fits, and is counted if requests are."""
        number, elapsed = divmod(self._clock(), SLICE)
        names = [f"{account}:{int(number) - back}" for back in range(SLICES, -1, -1)]
        current = names.pop()
        former = await self._read_closed(names, degraded)
        if kind == TOKENS:
            now = await self._read([current], degraded)
            return compute_wait([*former, *now], limit - 1, elapsed)
        used = await self._add(current, 1, degraded)
        wait = compute_wait([*former, used - 1], limit - 1, elapsed)
        if wait > 0:
            await self._add(current, -1, degraded)
        return wait

    async def _read_closed(self, names: list[str], degraded: Degraded) -> list[int]:
        """The counts of past slices; each is read from the store once."""
        missing = [name for name in names if name not in self._former]
        if missing:
            if len(self._former) > REMEMBERED:
                self._former.clear()
                missing = names
            self._former.update(zip(missing, await self._read(missing, degraded), strict=True))
        return [self._former[name] for name in names]

    async def _read(self, names: list[str], degraded: Degraded) -> list[int]:
        try:
            found = await self._store.get_many(names)
        except StoreError:
            degraded.add("store")
            found = await self._local.get_many(names)
        return [parse_counter(name, found[name]) if name in found else 0 for name in names]

    async def _add(self, name: str, amount: int, degraded: Degraded) -> int:
        try:
            return await self._store.add(name, amount, KEPT)
        except StoreError:
            degraded.add("store")
            return await self._local.add(name, amount, KEPT)


def compute_wait(counts: Sequence[int], room: int, elapsed: float) -> float:
    """Seconds until the sum of the slices, oldest first, is at most `room`, if nothing else comes; 0: it is now."""
    total = sum(counts)
    leaving = 0
    while total > room:
        total -= counts[leaving]
        leaving += 1
    return leaving * SLICE - elapsed if leaving else 0.0


def name_account(principal: Principal, kind: str) -> str:
    """The name of a key's counters in the store; it contains no text that a person wrote."""
    who = f"{principal.workspace}\0{principal.key or principal.name}"
    return f"limit:{kind}:{sha256(who.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def build_refusal(kind: str, limit: int, wait: float) -> RateLimited:
    seconds = max(1, round(wait))
    error = RateLimited(f"Rate limit exceeded: {limit} {kind} per minute for this key. Try again in {seconds} s.")
    error.retry_after = max(1.0, wait)
    return error
