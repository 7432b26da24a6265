"""Limits per minute: what is let through, what is refused and for how long."""

import asyncio
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.domain.exchange import Exchange, TurnReply
from gateway.domain.principal import KeyLimits, Principal
from gateway.domain.snapshot import EMPTY_SNAPSHOT
from gateway.edge import limits, usage_window
from gateway.edge.limits import CREDIT_SHARE, RETRY_SECONDS, RateLimiter
from gateway.edge.meter import Meter
from gateway.edge.usage_window import SLICE, compute_wait
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

    async def add_many(self, amounts: Mapping[str, int], ttl: float) -> dict[str, int]:
        self.calls += 1
        await asyncio.sleep(0)
        if self.lost:
            raise StoreError("lost")
        return await super().add_many(amounts, ttl)


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
    limiter.charge(Meter(exchange))


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


async def test_used_up_tokens_cost_no_request(limiter: RateLimiter) -> None:
    principal = caller(2, 10)
    await spend(limiter, principal, 10)
    for _ in range(3):
        assert not await admitted(limiter, principal)
    assert [await admitted(limiter, caller(2)) for _ in range(3)] == [True, True, False]


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


async def test_a_request_within_the_credit_does_not_reach_the_store(limiter: RateLimiter, store: Flaky) -> None:
    limited = caller(1000, 100_000)
    assert await admitted(limiter, limited)
    assert store.calls == 2, "what a restart or another process left is read first: tokens, then requests"
    for _ in range(1000 // CREDIT_SHARE):
        assert await admitted(limiter, limited)
        await spend(limiter, limited, 50)
    assert store.calls == 2
    await limiter.settle()
    assert store.calls == 3, "all windows in one call"


async def test_a_restart_keeps_what_was_settled(store: Flaky, clock: Clock) -> None:
    first = RateLimiter(store, clock)
    for _ in range(150):
        assert await admitted(first, caller(200))
    await spend(first, caller(tokens=1000), 999)
    await first.settle()
    second = RateLimiter(store, clock)
    assert sum([await admitted(second, caller(200)) for _ in range(100)]) == 50
    assert await admitted(second, caller(tokens=1000))
    await spend(second, caller(tokens=1000), 1)
    assert not await admitted(second, caller(tokens=1000))


async def test_a_burst_that_waits_for_the_store_waits_once(limiter: RateLimiter, store: Flaky, clock: Clock) -> None:
    granted = await asyncio.gather(*(admitted(limiter, caller(20)) for _ in range(50)))
    assert sum(granted) == 20
    assert store.calls <= 3
    await limiter.settle()
    other = RateLimiter(store, clock)
    assert [await admitted(other, caller(21)), await admitted(other, caller(21))] == [True, False], "30 were given back"


async def test_a_client_that_leaves_while_the_store_is_asked_costs_nothing(limiter: RateLimiter) -> None:
    waiting = asyncio.create_task(limiter.admit(caller(1), set()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await limiter.settle()
    assert await admitted(limiter, caller(1))
    assert not await admitted(limiter, caller(1))


async def test_what_happened_without_the_store_is_told_when_it_is_back(store: Flaky, clock: Clock) -> None:
    one, other = RateLimiter(store, clock), RateLimiter(store, clock)
    assert await admitted(one, caller(10))
    store.lost = True
    for _ in range(4):
        assert await admitted(one, caller(10))
    assert one.store_lost
    store.lost = False
    clock.now += RETRY_SECONDS
    assert await admitted(one, caller(10))  # which begins to settle
    await one.settle()
    assert not one.store_lost
    assert sum([await admitted(other, caller(10)) for _ in range(10)]) == 4


async def test_while_the_store_is_lost_nobody_waits_for_it(limiter: RateLimiter, store: Flaky) -> None:
    store.lost = True
    await admitted(limiter, caller(50))
    before = store.calls
    for _ in range(20):
        assert await admitted(limiter, caller(50))
    assert store.calls == before, "it is asked again in the background"


async def test_the_background_job_settles_and_once_more_at_the_end(store: Flaky, clock: Clock) -> None:
    limiter = RateLimiter(store, clock)
    job = asyncio.create_task(limiter.run())
    for _ in range(3):
        await admitted(limiter, caller(1000))
    for _ in range(1000):
        if read_sums(store) == [3]:
            break
        await asyncio.sleep(0.01)
    assert read_sums(store) == [3]
    await admitted(limiter, caller(1000))
    job.cancel()
    await asyncio.gather(job, return_exceptions=True)
    assert read_sums(store) == [4]


def read_sums(store: Flaky) -> list[int]:
    return [int(entry.value) for entry in store._entries.values()]


async def test_a_bug_in_the_store_leaves_nobody_waiting(clock: Clock) -> None:
    class Broken(Flaky):
        async def add_many(self, amounts: Mapping[str, int], ttl: float) -> dict[str, int]:
            raise KeyError("a bug")

    limiter = RateLimiter(Broken(clock), clock)
    assert await asyncio.wait_for(admitted(limiter, caller(5)), 5)
    assert limiter._settling is None


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
    monkeypatch.setattr(usage_window, "SLICES", 11)
    steps = [4.9, 55.2]
    assert in_any_minute(asyncio.run(moments_let_through(1, steps))) > 1


@given(st.lists(st.integers(0, 5), min_size=13, max_size=13), st.integers(0, 20), st.floats(0, 4.99))
def test_after_waiting_there_is_room_and_not_a_slice_earlier(counts: list[int], room: int, elapsed: float) -> None:
    wait = compute_wait(counts, room, elapsed)
    left = round((wait + elapsed) / SLICE) if wait else 0
    assert sum(counts[left:]) <= room
    assert left == 0 or sum(counts[left - 1 :]) > room


EVENTS = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(["ask", "ask", "ask 9", "settle", "wait"])), max_size=120
)


async def let_through_by_several(limit: int, events: list[tuple[int, str]], nodes: int) -> list[float]:
    """Some processes on one store that settle when the test says so: the worst that the background job can do."""
    clock = Clock()
    store, moments = Flaky(clock), []
    limiters = [RateLimiter(store, clock) for _ in range(nodes)]
    for which, event in events:
        limiter = limiters[which % nodes]
        match event.split():
            case ["ask", *many]:
                count = int(many[0]) if many else 1
                results = await asyncio.gather(*(admitted(limiter, caller(limit)) for _ in range(count)))
                moments += [clock.now] * sum(results)
            case ["settle"]:
                await limiter.settle()
            case _:
                clock.now += 2.5
    return moments


@given(st.integers(1, 60), EVENTS)
def test_one_process_never_exceeds_a_limit(limit: int, events: list[tuple[int, str]]) -> None:
    assert in_any_minute(asyncio.run(let_through_by_several(limit, events, 1))) <= limit


@pytest.mark.parametrize("nodes", [2, 3])
@given(limit=st.integers(1, 60), events=EVENTS, share=st.sampled_from([4, 10, 100]))
def test_several_processes_exceed_a_limit_by_their_credits_at_most(
    nodes: int, limit: int, events: list[tuple[int, str]], share: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "CREDIT_SHARE", share)  # a larger credit, so that few requests make a difference
        most = in_any_minute(asyncio.run(let_through_by_several(limit, events, nodes)))
    assert most <= limit + (nodes - 1) * (limit // share)


def test_processes_with_too_much_credit_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CREDIT_SHARE", 1)
    events = [(0, "ask"), (1, "ask"), (2, "ask"), (0, "ask 9"), (1, "ask 9"), (2, "ask 9")]
    assert in_any_minute(asyncio.run(let_through_by_several(9, events, 3))) > 9


class SlowStore(Flaky):
    """A store whose first answer takes until it is told to go on."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.go = asyncio.Event()

    async def add_many(self, amounts: Mapping[str, int], ttl: float) -> dict[str, int]:
        if not self.calls:
            self.calls += 1
            await self.go.wait()
        return await super().add_many(amounts, ttl)


async def test_who_waits_for_a_busy_store_counts_from_when_it_is_let_through(clock: Clock) -> None:
    clock.now = 1_000_004.0  # one second before the next slice
    store = SlowStore(clock)
    limiter = RateLimiter(store, clock)
    first = asyncio.create_task(admitted(limiter, caller(requests=5, key="other")))
    await asyncio.sleep(0)
    waiting = [asyncio.create_task(admitted(limiter, caller(requests=2))) for _ in range(2)]
    await asyncio.sleep(0)
    clock.now = 1_000_008.0
    store.go.set()
    assert await asyncio.gather(first, *waiting) == [True, True, True]
    clock.now += MINUTE - 1  # a slice that began before they were let through has left the window
    assert not await admitted(limiter, caller(requests=2))
    clock.now += 1 + SLICE
    assert await admitted(limiter, caller(requests=2))


@pytest.mark.parametrize("limit", [3, 1000])
async def test_a_clock_that_is_set_back_far_loses_no_count(store: Flaky, clock: Clock, limit: int) -> None:
    limiter = RateLimiter(store, clock)
    assert await admitted(limiter, caller(requests=limit))
    await limiter.settle()
    clock.now -= 3600
    assert [await admitted(limiter, caller(requests=limit)) for _ in range(limit + 1)] == [True] * limit + [False]
    await limiter.settle()
    again = RateLimiter(store, clock)
    assert not await admitted(again, caller(requests=limit))


async def test_a_window_that_the_store_was_not_told_of_is_not_dropped(
    store: Flaky, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "REMEMBERED", 1)
    limiter = RateLimiter(store, clock)
    store.lost = True
    assert [await admitted(limiter, caller(requests=2)) for _ in range(3)] == [True, True, False]
    clock.now += 3 * SLICE
    assert await admitted(limiter, caller(requests=2, key="another"))
    assert not await admitted(limiter, caller(requests=2))
