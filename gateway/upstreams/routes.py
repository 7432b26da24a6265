"""Which upstream serves a model, and what happens when it fails before its first byte: retries, then fallbacks."""

import asyncio
import random
import re
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any, Final

import msgspec

from gateway import errors
from gateway.circuit_breaker import CircuitBreaker
from gateway.domain.dialect import DialectName
from gateway.domain.exchange import ForwardedHeaders
from gateway.domain.name_pattern import matches_pattern
from gateway.domain.upstream import Upstream, UpstreamAnswer, UpstreamReply, UpstreamRequest
from gateway.settings import RouteSettings, Settings
from gateway.upstreams.dialect_calls import send_in_dialect

CACHED_MODELS: Final = 1024
CACHED_NAME_LENGTH: Final = 256  # a client chooses the name: longer ones are matched but not cached

RETRIED_STATUSES: Final = frozenset({429, 500, 502, 503, 504, 529})
LATER_RETRIES: Final = 2  # where none are configured: the client cannot repeat the later turns of a stream
MAX_RETRY_AFTER: Final = 2.0  # seconds; an upstream that asks for more is not waited for
MIN_DELAY: Final = 0.1
MAX_DELAY: Final = 1.0
DELAY_SECONDS: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")

Outcome = UpstreamReply | errors.UpstreamError


class RetryClock(msgspec.Struct, frozen=True):
    """Time and chance as retries need them, injected so that tests control both."""

    monotonic: Callable[[], float] = time.monotonic
    wall_time: Callable[[], float] = time.time
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    chance: Callable[[], float] = random.random


DEMO_MODELS: Final = "demo*"  # what a demo upstream answers to: it must not pass for a real model


class ModelRoute(msgspec.Struct, frozen=True):
    """A pattern of model names and the upstreams that serve them, best first."""

    pattern: str
    name: str  # of the first upstream
    upstreams: tuple[Upstream, ...]  # without disabled ones; empty: the first one is disabled
    only: str | None = None  # a further pattern that the model must match


class Routes:
    """The routing table, with one circuit breaker per upstream."""

    def __init__(self, settings: Settings, upstreams: Mapping[str, Upstream], clock: RetryClock | None = None) -> None:
        self._clock = clock or RetryClock()
        self.breakers: Mapping[str, CircuitBreaker] = {
            name: CircuitBreaker(self._clock.monotonic) for name in upstreams
        }
        self._retries = {name: upstream.retries for name, upstream in settings.upstreams.items()}
        self._connect_seconds = {name: upstream.timeouts.connect for name, upstream in settings.upstreams.items()}
        self._usable = {name: up for name, up in upstreams.items() if settings.upstreams[name].enabled}
        self._table = [self._make_route(route, settings, self._usable) for route in settings.routes]
        self._match_cached = lru_cache(CACHED_MODELS)(self._match)

    @staticmethod
    def _make_route(route: RouteSettings, settings: Settings, usable: Mapping[str, Upstream]) -> ModelRoute:
        first = settings.upstreams[route.upstream]
        names = (route.upstream, *route.fallbacks) if route.upstream in usable else ()
        only = (first.model or DEMO_MODELS) if first.kind == "demo" else None
        return ModelRoute(route.model, route.upstream, tuple(usable[name] for name in names if name in usable), only)

    def get_candidates(self, model: str) -> tuple[Upstream, ...]:
        """The upstreams that may serve a model, best first; raises ModelNotFound or UpstreamDisabled."""
        return self._match_cached(model) if len(model) <= CACHED_NAME_LENGTH else self._match(model)

    def get_named(self, name: str) -> tuple[Upstream, ...]:
        """The upstream of that name; raises UpstreamDisabled."""
        if name not in self._usable:
            raise errors.UpstreamDisabled(f"The upstream {name!r} is disabled: its api_key is empty.")
        return (self._usable[name],)

    def send(self, candidates: Sequence[Upstream], request: UpstreamRequest) -> Coroutine[Any, Any, UpstreamAnswer]:
        """The first usable reply and who gave it; when all fail, the last failure as it is."""
        if len(candidates) == 1 and not self._count_retries(candidates[0], request):
            return self._call(candidates[0], request)
        return self._send_in_turn(candidates, request)

    async def _send_in_turn(self, candidates: Sequence[Upstream], request: UpstreamRequest) -> UpstreamAnswer:
        # An open breaker only matters while there is another upstream to try.
        order: Sequence[Upstream] = candidates
        if len(candidates) > 1:
            order = [one for one in candidates if self.breakers[one.name].is_ready] or candidates[:1]
        for upstream in order:
            outcome = await self._send_repeatedly(upstream, request, self._count_retries(upstream, request))
            if upstream is order[-1] or not may_fall_back(outcome):
                break
            await discard(outcome)
        if isinstance(outcome, errors.UpstreamError):
            raise outcome
        return UpstreamAnswer(upstream, outcome)

    def _count_retries(self, upstream: Upstream, request: UpstreamRequest) -> int:
        """How often an upstream may be asked again."""
        retries = self._retries[upstream.name]
        if retries is None:
            return 0 if request.repeatable else LATER_RETRIES
        return retries

    async def _send_repeatedly(self, upstream: Upstream, request: UpstreamRequest, retries: int) -> Outcome:
        """The outcome of one upstream after as many retries as may help."""
        started = self._clock.monotonic()
        for attempt in range(retries):
            outcome = await self._send_once(upstream, request)
            if not isinstance(outcome, errors.UpstreamError) and outcome.status not in RETRIED_STATUSES:
                return outcome
            delay = compute_retry_delay(outcome, attempt, self._clock)
            # A client waits for a connection no longer than `connect`, however often it is tried.
            too_late = isinstance(outcome, errors.UpstreamUnreachable) and (
                self._clock.monotonic() - started >= self._connect_seconds[upstream.name]
            )
            if delay is None or too_late:
                return outcome
            await discard(outcome)
            await self._clock.sleep(delay)
        return await self._send_once(upstream, request)

    async def _send_once(self, upstream: Upstream, request: UpstreamRequest) -> Outcome:
        try:
            return (await self._call(upstream, request)).reply
        except errors.UpstreamError as error:
            return error

    async def _call(self, upstream: Upstream, request: UpstreamRequest) -> UpstreamAnswer:
        """One call, which counts for or against the upstream's health."""
        breaker = self.breakers[upstream.name]
        breaker.record_start()
        try:
            reply = await send_in_dialect(upstream, request)
        except errors.UpstreamError as error:
            if has_failed(error):
                breaker.record_failure()
            else:
                breaker.record_success()
            raise
        if reply.status >= 500:
            breaker.record_failure()
        else:
            breaker.record_success()
        return UpstreamAnswer(upstream, reply)

    def _match(self, model: str) -> tuple[Upstream, ...]:
        disabled: ModelRoute | None = None
        for route in self._table:
            if not matches_pattern(route.pattern, model) or not matches_pattern(route.only or "*", model):
                continue
            if disabled is not None and route.pattern != disabled.pattern:
                break  # models of one provider must not reach another through a broader pattern
            if route.upstreams:
                return route.upstreams
            disabled = disabled or route
        if disabled is not None:
            reason = f"The upstream {disabled.name!r} of model {errors.quote(model)} is disabled: its api_key is empty."
            raise errors.UpstreamDisabled(f"{reason} Set it in the gateway's configuration.", param="model")
        known = [route.pattern for route in self._table if route.upstreams and "*" not in route.pattern]
        hint = next((f" {route.name!r} answers to {route.only} only." for route in self._table if route.only), "")
        raise errors.ModelNotFound(model, known, hint)


class TurnSender(msgspec.Struct):
    """Sends the turns of one exchange: with the same upstreams, model and headers each time."""

    routes: Routes
    upstreams: tuple[Upstream, ...]
    model: str
    dialect: DialectName
    path: str  # of the dialect, below an upstream's base_url
    stream: bool
    forwarded: ForwardedHeaders

    def send(self, body: bytes, first: bool) -> Awaitable[UpstreamAnswer]:
        """One turn; what identifies a single call goes with the first only."""
        forwarded = self.forwarded
        request = UpstreamRequest(
            self.path if not forwarded.query else f"{self.path}?{forwarded.query}",
            body,
            forwarded.first if first else forwarded.later,
            self.stream,
            self.model,
            bearer=forwarded.bearer,
            repeatable=first or not self.stream,
            dialect=self.dialect,
        )
        return self.routes.send(self.upstreams, request)


def may_fall_back(outcome: Outcome) -> bool:
    """Whether another upstream might do better: not when this one refused its key or rejected the request itself."""
    if isinstance(outcome, errors.UpstreamError):
        return not isinstance(outcome, errors.UpstreamAuth)
    return outcome.status in RETRIED_STATUSES


def has_failed(outcome: Outcome) -> bool:
    """Whether an outcome counts against the upstream's health."""
    if isinstance(outcome, errors.UpstreamError):
        return not isinstance(outcome, errors.UpstreamAuth)
    return outcome.status >= 500


async def discard(outcome: Outcome) -> None:
    if not isinstance(outcome, errors.UpstreamError):
        await outcome.close()


def compute_retry_delay(outcome: Outcome, attempt: int, clock: RetryClock) -> float | None:
    """Seconds to wait before calling the same upstream again; None when that would not help."""
    if isinstance(outcome, errors.UpstreamError):
        retries = isinstance(outcome, errors.UpstreamUnreachable)
        return compute_backoff(attempt, clock.chance()) if retries else None
    if outcome.status not in RETRIED_STATUSES or outcome.headers.get("x-should-retry") == "false":
        return None
    requested = read_requested_delay(outcome.headers, clock.wall_time())
    if requested is None:
        return compute_backoff(attempt, clock.chance())
    return requested if requested <= MAX_RETRY_AFTER else None


def compute_backoff(attempt: int, chance: float) -> float:
    """A delay between the minimum and a ceiling that doubles with every attempt (`attempt` counts from 0)."""
    ceiling = min(MAX_DELAY, MIN_DELAY * (2 << attempt))
    return MIN_DELAY + chance * (ceiling - MIN_DELAY)


def read_requested_delay(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds that an upstream asks to wait, in `retry-after-ms` or `Retry-After`."""
    milliseconds = headers.get("retry-after-ms", "").strip()
    if DELAY_SECONDS.fullmatch(milliseconds):
        return float(milliseconds) / 1000
    return parse_retry_after(headers.get("retry-after", ""), now)


def parse_retry_after(value: str, now: float) -> float | None:
    """Seconds from `now` that a Retry-After header asks for: a number or an HTTP date (RFC 9110 §10.2.3)."""
    value = value.strip()
    if DELAY_SECONDS.fullmatch(value):
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - now)
    except (ValueError, TypeError, OverflowError):
        return None
