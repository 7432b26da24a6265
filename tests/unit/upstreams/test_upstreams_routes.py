"""Routes, retries, fallbacks and breakers, over upstreams that do as they are told."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from gateway import errors
from gateway.circuit_breaker import BreakerState, CircuitBreaker
from gateway.domain.name_pattern import matches_pattern
from gateway.domain.upstream import Capabilities, UpstreamReply, UpstreamRequest
from gateway.settings import Settings
from gateway.upstreams.routes import RetryClock, Routes, compute_backoff, parse_retry_after

CHAT = UpstreamRequest("/chat/completions", b"{}")
WALL = 1_700_000_000.0  # Tue, 14 Nov 2023 22:13:20 GMT


class Reply(UpstreamReply):
    def __init__(self, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        self.status, self.headers, self.closed = status, headers or {}, False

    async def read(self) -> bytes:
        return b""

    async def read_all(self) -> bytes:
        return b""

    async def close(self) -> None:
        self.closed = True


class Scripted:
    """An upstream that gives its outcomes in turn and repeats the last."""

    capabilities, passes_bearer = Capabilities(), False

    def __init__(self, name: str, *outcomes: Reply | Exception) -> None:
        self.name, self.outcomes = name, list(outcomes) or [Reply()]
        self.calls: list[UpstreamRequest] = []

    async def send(self, request: UpstreamRequest) -> UpstreamReply:
        outcome = self.outcomes[min(len(self.calls), len(self.outcomes) - 1)]
        self.calls.append(request)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def list_models(self, bearer: str | None = None) -> list[dict[str, Any]]:
        return []

    async def close(self) -> None:
        pass


class Time:
    """A clock that only sleeping and the test move."""

    def __init__(self) -> None:
        self.now, self.slept = 100.0, list[float]()

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    @property
    def retry_clock(self) -> RetryClock:
        return RetryClock(monotonic=lambda: self.now, wall_time=lambda: WALL, sleep=self.sleep, chance=lambda: 1.0)


def table(*routes: dict[str, Any], retries: int | None = 2, disabled: tuple[str, ...] = ()) -> Settings:
    upstreams = {
        name: {
            "kind": "openai",
            "base_url": "http://127.0.0.1:9/v1",
            "retries": retries,
            "api_key": "" if name in disabled else None,
        }
        for name in "abc"
    }
    return Settings.model_validate({"upstreams": upstreams, "routes": list(routes)})


ANY = {"model": "*", "upstream": "a", "fallbacks": ["b", "c"]}


def routes_over(time: Time, *upstreams: Scripted, retries: int | None = 2) -> Routes:
    return Routes(table(ANY, retries=retries), {up.name: up for up in upstreams}, time.retry_clock)


def unreachable() -> errors.UpstreamUnreachable:
    return errors.UpstreamUnreachable("down")


@pytest.mark.parametrize(
    ("pattern", "name", "matched"),
    [
        ("gpt-4o", "gpt-4o", True),
        ("gpt-4o", "gpt-4o-mini", False),
        ("gpt-*", "gpt-4o", True),
        ("gpt-*", "GPT-4o", False),
        ("*", "", True),
        ("*-mini", "gpt-4o-mini", True),
        ("a*b*c", "a-b-b-c", True),
        ("a*b*c", "a-c-b", False),
        ("ab*ba", "aba", False),
        ("a*b*b", "a-b", False),
        ("a**b", "ab", True),
        ("o[13]?", "o1x", False),
        ("o[13]?", "o[13]?", True),
        ("*x*", "a\nx\n", True),
    ],
)
def test_only_the_star_is_special_in_a_pattern(pattern: str, name: str, matched: bool) -> None:
    assert matches_pattern(pattern, name) is matched


def test_matching_a_hostile_name_is_quick() -> None:
    assert not matches_pattern("*a*a*a*a*a*a*a*b", "a" * 1_000_000)


def names(routes: Routes, model: str) -> list[str]:
    return [upstream.name for upstream in routes.get_candidates(model)]


def test_the_first_matching_route_wins_and_brings_its_fallbacks() -> None:
    settings = table({"model": "gpt-4o", "upstream": "b", "fallbacks": ["a"]}, {"model": "gpt-*", "upstream": "c"}, ANY)
    routes = Routes(settings, {name: Scripted(name) for name in "abc"})
    assert (names(routes, "gpt-4o"), names(routes, "gpt-3"), names(routes, "x")) == (["b", "a"], ["c"], ["a", "b", "c"])


def test_a_disabled_upstream_is_left_out_and_its_routes_are_skipped() -> None:
    settings = table(
        {"model": "*", "upstream": "a", "fallbacks": ["b"]},
        {"model": "*", "upstream": "c", "fallbacks": ["a", "b"]},
        disabled=("a",),
    )
    routes = Routes(settings, {name: Scripted(name) for name in "abc"})
    assert names(routes, "gpt-4o") == ["c", "b"]


def test_a_model_without_a_route_is_unknown_and_near_names_are_told() -> None:
    routes = Routes(table({"model": "gpt-4o", "upstream": "a"}), {"a": Scripted("a")})
    with pytest.raises(errors.ModelNotFound, match="Did you mean 'gpt-4o'") as caught:
        routes.get_candidates("gpt-4")
    assert (caught.value.code, caught.value.param, caught.value.status) == ("model_not_found", "model", 404)


def test_long_model_names_are_routed_too() -> None:
    routes = Routes(table(ANY), {"a": Scripted("a")})
    assert names(routes, "m" * 100_000) == ["a"]


async def test_a_good_reply_comes_from_the_first_candidate_without_delay() -> None:
    time, first, second = Time(), Scripted("a"), Scripted("b")
    answer = await routes_over(time, first, second).send((first, second), CHAT)
    assert (answer.upstream, answer.reply) == (first, first.outcomes[0])
    assert (len(second.calls), time.slept) == (0, [])


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504, 529])
async def test_a_passing_error_is_retried_and_its_reply_closed(status: int) -> None:
    time, bad, good = Time(), Reply(status), Reply()
    upstream = Scripted("a", bad, good)
    answer = await routes_over(time, upstream).send((upstream,), CHAT)
    assert (answer.reply, bad.closed, good.closed) == (good, True, False)
    assert time.slept == [0.2]


@pytest.mark.parametrize("status", [400, 401, 404, 413, 501])
async def test_a_judgement_of_the_request_is_neither_retried_nor_passed_on(status: int) -> None:
    first, second = Scripted("a", Reply(status)), Scripted("b")
    answer = await routes_over(Time(), first, second).send((first, second), CHAT)
    assert (answer.reply.status, len(first.calls), len(second.calls)) == (status, 1, 0)


async def test_an_unreachable_upstream_is_retried_then_the_next_one_serves() -> None:
    time, first, second = Time(), Scripted("a", unreachable()), Scripted("b")
    answer = await routes_over(time, first, second).send((first, second), CHAT)
    assert (answer.upstream.name, len(first.calls), len(second.calls)) == ("b", 3, 1)
    assert time.slept == [0.2, 0.4]


async def test_retries_are_counted_per_upstream_by_its_own_setting() -> None:
    first, second = Scripted("a", unreachable()), Scripted("b", unreachable())
    with pytest.raises(errors.UpstreamUnreachable):
        await routes_over(Time(), first, second, retries=0).send((first, second), CHAT)
    assert (len(first.calls), len(second.calls)) == (1, 1)


@pytest.mark.parametrize("error", [errors.UpstreamTimeout("late"), errors.UpstreamInvalid("garbage")])
async def test_a_timeout_or_garbage_is_not_retried_but_the_next_one_is_asked(error: Exception) -> None:
    time, first, second = Time(), Scripted("a", error), Scripted("b")
    answer = await routes_over(time, first, second).send((first, second), CHAT)
    assert (answer.upstream.name, len(first.calls), time.slept) == ("b", 1, [])


async def test_a_timeout_without_a_fallback_is_raised_at_once() -> None:
    time, only = Time(), Scripted("a", errors.UpstreamTimeout("late"))
    with pytest.raises(errors.UpstreamTimeout):
        await routes_over(time, only).send((only,), CHAT)
    assert (len(only.calls), time.slept) == (1, [])


async def test_a_refused_key_is_not_passed_on() -> None:
    first, second = Scripted("a", errors.UpstreamAuth("no")), Scripted("b")
    with pytest.raises(errors.UpstreamAuth):
        await routes_over(Time(), first, second).send((first, second), CHAT)
    assert second.calls == []


async def test_when_all_fail_the_last_reply_is_returned_open_and_as_it_is() -> None:
    busy, down = Reply(429), Reply(503, {"retry-after": "60"})
    first, second = Scripted("a", busy), Scripted("b", down)
    answer = await routes_over(Time(), first, second, retries=0).send((first, second), CHAT)
    assert (answer.upstream.name, answer.reply.status, answer.reply.headers["retry-after"]) == ("b", 503, "60")
    assert (busy.closed, down.closed) == (True, False)


@pytest.mark.parametrize(
    ("asked", "slept"),
    [
        ("1", [1.0]),
        ("0", [0.0]),
        ("2", [2.0]),
        ("0.5", [0.5]),
        ("Tue, 14 Nov 2023 22:13:21 GMT", [1.0]),
        ("Tue, 14 Nov 2023 22:13:00 GMT", [0.0]),
        ("soon", [0.2]),
        ("-1", [0.2]),
    ],
)
async def test_a_short_retry_after_is_honoured(asked: str, slept: list[float]) -> None:
    time, upstream = Time(), Scripted("a", Reply(429, {"retry-after": asked}), Reply())
    await routes_over(time, upstream).send((upstream,), CHAT)
    assert time.slept == slept


@pytest.mark.parametrize(
    ("headers", "slept"),
    [
        ({"retry-after-ms": "250", "retry-after": "2"}, [0.25]),
        ({"retry-after-ms": "soon", "retry-after": "2"}, [2.0]),
        ({"retry-after-ms": "2001", "retry-after": "1"}, []),
        ({"x-should-retry": "false"}, []),
        ({"x-should-retry": "true"}, [0.2]),
    ],
)
async def test_what_openai_says_about_retries_is_honoured(headers: dict[str, str], slept: list[float]) -> None:
    time, upstream = Time(), Scripted("a", Reply(429, headers), Reply())
    await routes_over(time, upstream).send((upstream,), CHAT)
    assert time.slept == slept


@pytest.mark.parametrize(("repeatable", "calls"), [(True, 1), (False, 3)])
async def test_without_a_setting_only_what_the_client_cannot_repeat_is_retried(repeatable: bool, calls: int) -> None:
    only = Scripted("a", Reply(503))
    routes = routes_over(Time(), only, retries=None)
    await routes.send((only,), replace(CHAT, repeatable=repeatable))
    assert len(only.calls) == calls


@pytest.mark.parametrize("asked", ["3", "86400", "Tue, 14 Nov 2023 22:14:00 GMT"])
async def test_a_long_retry_after_is_not_waited_for(asked: str) -> None:
    time, first, second = Time(), Scripted("a", Reply(429, {"retry-after": asked})), Scripted("b")
    routes = routes_over(time, first, second)
    both = await routes.send((first, second), CHAT)
    alone = (await routes.send((first,), CHAT)).reply
    assert (both.upstream.name, alone.status, alone.headers["retry-after"]) == ("b", 429, asked)
    assert (len(first.calls), time.slept) == (2, [])


async def test_five_failures_in_a_row_open_the_breaker_and_others_go_first() -> None:
    time, first, second = Time(), Scripted("a", Reply(500)), Scripted("b")
    routes = routes_over(time, first, second, retries=0)
    for _ in range(7):
        await routes.send((first, second), CHAT)
    assert (len(first.calls), len(second.calls)) == (5, 7)
    assert (routes.breakers["a"].state, routes.breakers["b"].state) == (BreakerState.OPEN, BreakerState.CLOSED)


async def test_after_a_while_one_call_probes_an_open_upstream() -> None:
    time, first, second = Time(), Scripted("a", *[Reply(500)] * 6, Reply()), Scripted("b")
    routes = routes_over(time, first, second, retries=0)
    for _ in range(5):
        await routes.send((first, second), CHAT)
    time.now += 10
    assert routes.breakers["a"].state is BreakerState.HALF_OPEN
    for _ in range(3):
        await routes.send((first, second), CHAT)  # the probe fails, the others do not try
    assert len(first.calls) == 6
    time.now += 10
    answer = await routes.send((first, second), CHAT)
    assert (answer.upstream.name, routes.breakers["a"].state) == ("a", BreakerState.CLOSED)


async def test_when_every_candidate_is_open_the_first_is_tried_anyway() -> None:
    first, second = Scripted("a", *[unreachable()] * 5, Reply()), Scripted("b", unreachable())
    routes = routes_over(Time(), first, second, retries=4)
    with pytest.raises(errors.UpstreamUnreachable):
        await routes.send((first, second), CHAT)
    assert {breaker.state for breaker in routes.breakers.values()} == {BreakerState.OPEN}
    answer = await routes.send((first, second), CHAT)
    assert (answer.upstream.name, answer.reply.status, len(second.calls)) == ("a", 200, 5)


async def test_rate_limits_and_bad_requests_never_open_a_breaker() -> None:
    upstream = Scripted("a", *[Reply(500)] * 4, Reply(429), *[Reply(500)] * 4, Reply(400))
    routes = routes_over(Time(), upstream, retries=0)
    for _ in range(10):
        await routes.send((upstream,), CHAT)
    assert routes.breakers["a"].state is BreakerState.CLOSED


def test_only_one_probe_is_let_through_at_a_time() -> None:
    time = Time()
    breaker = CircuitBreaker(lambda: time.now, threshold=1, seconds=10)
    breaker.record_failure()
    time.now += 10
    assert breaker.is_ready
    breaker.record_start()
    assert not breaker.is_ready
    time.now += 10  # the probe never came back
    assert breaker.is_ready


def test_backoff_stays_within_its_bounds_and_grows() -> None:
    assert [compute_backoff(attempt, 0.0) for attempt in range(5)] == [0.1] * 5
    assert [compute_backoff(attempt, 1.0) for attempt in range(5)] == pytest.approx([0.2, 0.4, 0.8, 1.0, 1.0])


@pytest.mark.parametrize("value", ["", "soon", "1e9", "１", "Tue, 99 Nov 2023 22:13:20 GMT", "9" * 400])
def test_a_retry_after_that_says_nothing_is_none(value: str) -> None:
    assert parse_retry_after(value, WALL) is None


async def test_a_cancelled_wait_leaves_nothing_open() -> None:
    bad = Reply(503, {"retry-after": "1"})
    upstream = Scripted("a", bad)
    routes = Routes(table(ANY), {"a": upstream})  # real time
    call = asyncio.create_task(routes.send((upstream,), CHAT))
    await asyncio.sleep(0.02)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert bad.closed


async def test_a_connection_that_times_out_is_not_waited_for_again() -> None:
    time = Time()

    class Blackhole(Scripted):
        async def send(self, request: UpstreamRequest) -> UpstreamReply:
            time.now += 5  # the connect timeout
            return await super().send(request)

    blackhole = Blackhole("a", errors.UpstreamUnreachable("took no connection"))
    routes = Routes(table({"model": "*", "upstream": "a"}), {"a": blackhole}, time.retry_clock)
    with pytest.raises(errors.UpstreamUnreachable):
        await routes.send(routes.get_candidates("gpt"), CHAT)
    assert len(blackhole.calls) == 1
