"""Which upstream serves a model, and what happens when it fails before its first byte."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from gateway import errors
from gateway.domain.upstream import Upstream, UpstreamReply, UpstreamRequest
from gateway.settings import Settings
from gateway.upstreams.breaker import CircuitBreaker
from gateway.upstreams.retry import RETRIED, Outcome, Pace, delay_before_retry

MEMO_MODELS = 1024
MEMO_CHARACTERS = 256  # a client chooses the name: long ones are matched but not remembered


class Routes:
    """The routing table, with one circuit breaker per upstream."""

    def __init__(self, settings: Settings, upstreams: Mapping[str, Upstream], pace: Pace | None = None) -> None:
        self._pace = pace or Pace()
        self.breakers: Mapping[str, CircuitBreaker] = {name: CircuitBreaker(self._pace.clock) for name in upstreams}
        self._retries = {name: upstream.retries for name, upstream in settings.upstreams.items()}
        self._connect = {name: upstream.timeouts.connect for name, upstream in settings.upstreams.items()}
        usable = {name: up for name, up in upstreams.items() if settings.upstreams[name].enabled}
        self._table = [
            (route.model, tuple(usable[name] for name in (route.upstream, *route.fallbacks) if name in usable))
            for route in settings.routes
            if route.upstream in usable
        ]
        self._remembered = lru_cache(MEMO_MODELS)(self._match)

    def candidates(self, model: str) -> tuple[Upstream, ...]:
        """The upstreams that may serve a model, best first."""
        return self._remembered(model) if len(model) <= MEMO_CHARACTERS else self._match(model)

    async def send(
        self,
        candidates: Sequence[Upstream],
        request: UpstreamRequest,
        *,
        body_for: Callable[[Upstream], bytes] | None = None,
    ) -> tuple[Upstream, UpstreamReply]:
        """The first usable reply and who gave it; when all fail, the last failure as it is."""
        # An open breaker only matters while there is somebody else to ask.
        order = [one for one in candidates if self.breakers[one.name].ready] or candidates[:1]
        for upstream in order:
            call = request if body_for is None else replace(request, body=body_for(upstream))
            outcome = await self._persist(upstream, call)
            if upstream is order[-1] or not falls_back(outcome):
                break
            await discard(outcome)
        if isinstance(outcome, errors.UpstreamError):
            raise outcome
        return upstream, outcome

    async def _persist(self, upstream: Upstream, request: UpstreamRequest) -> Outcome:
        """What one upstream says in the end, after as many retries as it is worth."""
        began = self._pace.clock()
        for attempt in range(self._retries[upstream.name]):
            outcome = await self._once(upstream, request)
            delay = delay_before_retry(outcome, attempt, self._pace)
            # A client waits for a connection no longer than `connect`, however often it is tried.
            too_late = isinstance(outcome, errors.UpstreamUnreachable) and (
                self._pace.clock() - began >= self._connect[upstream.name]
            )
            if delay is None or too_late:
                return outcome
            await discard(outcome)
            await self._pace.sleep(delay)
        return await self._once(upstream, request)

    async def _once(self, upstream: Upstream, request: UpstreamRequest) -> Outcome:
        breaker = self.breakers[upstream.name]
        breaker.begin()
        outcome: Outcome
        try:
            outcome = await upstream.send(request)
        except errors.UpstreamError as error:
            outcome = error
        if has_failed(outcome):
            breaker.failed()
        else:
            breaker.succeeded()
        return outcome

    def _match(self, model: str) -> tuple[Upstream, ...]:
        for pattern, upstreams in self._table:
            if matches(pattern, model):
                return upstreams
        raise errors.UnknownAlias("model", model, [name for name, _ in self._table if "*" not in name], param="model")


def matches(pattern: str, name: str) -> bool:
    """Whether `name` is what `pattern` says, `*` standing for any characters; linear, since clients choose names."""
    first, *middle = pattern.split("*")
    if not middle:
        return name == pattern
    last = middle.pop()
    if len(name) < len(first) + len(last) or not (name.startswith(first) and name.endswith(last)):
        return False
    at, end = len(first), len(name) - len(last)
    for part in middle:
        found = name.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True


def falls_back(outcome: Outcome) -> bool:
    """Whether another upstream might do better: not when this one refused its key or judged the request itself."""
    if isinstance(outcome, errors.UpstreamError):
        return not isinstance(outcome, errors.UpstreamAuth)
    return outcome.status in RETRIED


def has_failed(outcome: Outcome) -> bool:
    """Whether an outcome counts against the upstream's health."""
    if isinstance(outcome, errors.UpstreamError):
        return not isinstance(outcome, errors.UpstreamAuth)
    return outcome.status >= 500


async def discard(outcome: Outcome) -> None:
    if not isinstance(outcome, errors.UpstreamError):
        await outcome.close()
