"""Limits per minute: what is let through, what is refused and for how long."""

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.domain.exchange import Exchange, TurnReply
from gateway.domain.principal import KeyLimits, Principal
from gateway.domain.snapshot import EMPTY_SNAPSHOT
from gateway.edge import limits
from gateway.edge.limits import SLICE, RateLimiter, compute_wait
from gateway.edge.meter import Meter
from gateway.errors import RateLimited, StoreError
from gateway.stores.memory_ephemeral import MemoryEphemeralStore

MINUTE = 60.0


class Clock:
    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class Flaky(MemoryEphemeralStore):
    """A store that can be lost, and counts how often it is asked."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock=clock)
        self.lost = False
        self.calls = 0

    async def add(self, key: str, amount: int, ttl: float) -> int:
        self._ask()
        return await super().add(key, amount, ttl)

    async def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        self._ask()
        return await super().get_many(keys)

    def _ask(self) -> None:
        self.calls += 1
        if self.lost:
            raise StoreError("lost")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(clock: Clock) -> Flaky:
    return Flaky(clock)


@pytest.fixture
def limiter(store: Flaky, clock: Clock) -> RateLimiter:
    return RateLimiter(store, clock)


def caller(requests: int | None = None, tokens: int | None = None, key: str = "key-1") -> Principal:
    return Principal("shop", limits=KeyLimits(requests, tokens), key=key)


async def admitted(limiter: RateLimiter, principal: Principal, degraded: set[str] | None = None) -> bool:
    try:
        await limiter.admit(principal, set() if degraded is None else degraded)
    except RateLimited:
        return False
    return True


async def spend(limiter: RateLimiter, principal: Principal, tokens: int) -> None:
    exchange = Exchange(
        "x", principal, EMPTY_SNAPSHOT, [], replies=[TurnReply("up", 200)], usage={"total_tokens": tokens}
    )
    await limiter.settle(Meter(exchange))


async def test_a_key_gets_as_many_requests_as_it_may_and_no_more(limiter: RateLimiter) -> None:
    assert [await admitted(limiter, caller(3)) for _ in range(5)] == [True, True, True, False, False]


async def test_a_refusal_says_when_to_come_again_and_that_is_true(limiter: RateLimiter, clock: Clock) -> None:
    clock.now += 2
    assert await admitted(limiter, caller(1))
    clock.now += 20
    with pytest.raises(RateLimited) as refused:
        await limiter.admit(caller(1), set())
    wait = refused.value.retry_after
    assert wait is not None
    assert MINUTE - 20 <= wait <= MINUTE - 20 + SLICE
    assert (refused.value.status, refused.value.code) == (429, "rate_limited")
    clock.now += wait - 0.01
    assert not await admitted(limiter, caller(1))
    clock.now += 0.02
    assert await admitted(limiter, caller(1))


async def test_keys_do_not_share_what_they_may(limiter: RateLimiter) -> None:
    assert await admitted(limiter, caller(1))
    assert await admitted(limiter, caller(1, key="key-2"))
    elsewhere = Principal("shop", workspace="other", limits=KeyLimits(1), key="key-1")
    assert await admitted(limiter, elsewhere)


async def test_refused_requests_do_not_count(limiter: RateLimiter, clock: Clock) -> None:
    assert await admitted(limiter, caller(1))
    for _ in range(130):
        clock.now += 0.5
        await admitted(limiter, caller(1))
    assert limiter.refused[("requests",)] > 100
    assert await admitted(limiter, caller(2)), "one of two is in use"


async def test_a_flood_of_refused_requests_does_not_reach_the_store(limiter: RateLimiter, store: Flaky) -> None:
    for _ in range(2):
        await admitted(limiter, caller(1))
    before = store.calls
    for _ in range(100):
        assert not await admitted(limiter, caller(1))
    assert store.calls == before


async def test_a_higher_limit_holds_at_once(limiter: RateLimiter) -> None:
    assert [await admitted(limiter, caller(1)) for _ in range(2)] == [True, False]
    assert await admitted(limiter, caller(5))


async def test_tokens_are_charged_afterwards_and_then_refuse(limiter: RateLimiter, clock: Clock) -> None:
    principal = caller(tokens=100)
    assert await admitted(limiter, principal)
    await spend(limiter, principal, 99)
    assert await admitted(limiter, principal)
    await spend(limiter, principal, 500)
    assert not await admitted(limiter, principal)
    assert limiter.refused == {("tokens",): 1}
    clock.now += MINUTE + SLICE
    assert await admitted(limiter, principal)


async def test_used_up_tokens_cost_no_request_and_do_not_hold_what_has_none(limiter: RateLimiter) -> None:
    principal = caller(2, 10)
    await spend(limiter, principal, 10)
    for _ in range(3):
        assert not await admitted(limiter, principal)
    await limiter.admit(principal, set(), tokens=False)
    await limiter.admit(principal, set(), tokens=False)
    with pytest.raises(RateLimited, match="2 requests"):
        await limiter.admit(principal, set(), tokens=False)


async def test_nodes_on_one_store_share_the_counts(store: Flaky, clock: Clock) -> None:
    one, other = RateLimiter(store, clock), RateLimiter(store, clock)
    assert [await admitted(node, caller(2)) for node in (one, other, one, other)] == [True, True, False, False]
    clock.now += 12
    await spend(one, caller(tokens=10), 10)
    assert not await admitted(other, caller(tokens=10))


async def test_without_the_store_a_process_counts_by_itself_and_says_so(limiter: RateLimiter, store: Flaky) -> None:
    store.lost = True
    degraded: set[str] = set()
    assert [await admitted(limiter, caller(2), degraded) for _ in range(3)] == [True, True, False]
    assert degraded == {"store"}
    await spend(limiter, caller(tokens=5), 5)
    assert not await admitted(limiter, caller(tokens=5))


async def test_what_is_spent_is_charged_although_the_client_has_left(limiter: RateLimiter, store: Flaky) -> None:
    principal = caller(tokens=10)
    settling = asyncio.create_task(spend(limiter, principal, 10))
    await asyncio.sleep(0)
    settling.cancel()
    await asyncio.gather(settling, return_exceptions=True)
    await asyncio.sleep(0)
    assert not await admitted(limiter, principal)


async def test_names_in_the_store_hold_nothing_that_a_person_wrote(limiter: RateLimiter, store: Flaky) -> None:
    principal = Principal("n\0\ud800 *", workspace="w:\n", limits=KeyLimits(1), key=None)
    assert await admitted(limiter, principal)
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789:") for name in store._entries)


STEPS = st.lists(st.sampled_from([0.0, 0.1, 1.0, 4.9, 5.0, 17.0, 59.9, 60.0, 65.0]), max_size=60)


def in_any_minute(moments: list[float]) -> int:
    return max((sum(start <= at < start + MINUTE for at in moments) for start in moments), default=0)


async def moments_let_through(limit: int, steps: list[float]) -> list[float]:
    clock = Clock()
    limiter, moments = RateLimiter(MemoryEphemeralStore(clock=clock), clock), []
    for step in steps:
        clock.now += step
        if await admitted(limiter, caller(limit)):
            moments.append(clock.now)
    return moments


@given(st.integers(1, 6), STEPS)
def test_in_no_minute_more_than_the_limit_is_let_through(limit: int, steps: list[float]) -> None:
    assert in_any_minute(asyncio.run(moments_let_through(limit, steps))) <= limit


def test_a_limiter_with_too_few_slices_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SLICES", 11)
    steps = [4.9, 55.2]
    assert in_any_minute(asyncio.run(moments_let_through(1, steps))) > 1


@given(st.lists(st.integers(0, 5), min_size=13, max_size=13), st.integers(0, 20), st.floats(0, 4.99))
def test_after_waiting_there_is_room_and_not_a_slice_earlier(counts: list[int], room: int, elapsed: float) -> None:
    wait = compute_wait(counts, room, elapsed)
    left = round((wait + elapsed) / SLICE) if wait else 0
    assert sum(counts[left:]) <= room
    assert left == 0 or sum(counts[left - 1 :]) > room
