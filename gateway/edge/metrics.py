"""What is counted, for Prometheus. Children are bound once: an observation costs about a microsecond."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.types import Send

from gateway.edge.respond import send_body
from gateway.upstreams.breaker import Breaker, State

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
BREAKER_HELP = "Circuit breaker: 0 closed, 1 half open, 2 open"


class Metrics:
    """One process's counters, in a registry of their own."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self.running = 0  # requests in flight; the edge counts it up and down
        self._requests = Counter("gateway_requests", "Requests answered", ["route", "status"], registry=registry)
        self._seconds = Histogram(
            "gateway_request_seconds", "Time to the end of the answer", ["route"], buckets=SECONDS, registry=registry
        )
        self._turns = Counter("gateway_upstream_turns", "Upstream calls", ["upstream", "status"], registry=registry)
        self._tools = Counter("gateway_tool_runs", "Tools run by the gateway", ["tool"], registry=registry)
        self._degraded = Counter("gateway_degraded", "Requests served with less", ["reason"], registry=registry)
        self._injected = Counter("gateway_injected_resources", "Resources placed", registry=registry)
        self._tokens = Counter("gateway_context_tokens", "Tokens of context placed", registry=registry)
        self._reload_failures = Counter("gateway_reload_failures", "Reloads that kept the old", registry=registry)
        self._bound: dict[tuple[object, ...], Callable[[float], None]] = {}
        Gauge("gateway_in_flight", "Requests in flight", registry=registry).set_function(lambda: self.running)

    def watch_generation(self, generation: Callable[[], float]) -> None:
        """Expose the policies' generation, asked for at each scrape."""
        gauge = Gauge("gateway_policies_generation", "Generation of the policies", registry=self._registry)
        gauge.set_function(generation)

    def watch_breakers(self, breakers: Mapping[str, Breaker]) -> None:
        """Expose each upstream's circuit breaker, asked for at each scrape."""
        gauge = Gauge("gateway_breaker_state", BREAKER_HELP, ["upstream"], registry=self._registry)
        for upstream, breaker in breakers.items():
            gauge.labels(upstream).set_function(partial(_state, breaker))

    def request(self, route: str, status: int, seconds: float) -> None:
        """One answered request; `route` is a name from our own table, never a client's path."""
        self._count(self._requests, route, status)
        observe = self._bound.get((self._seconds, route))
        if observe is None:
            observe = self._bound[self._seconds, route] = self._seconds.labels(route).observe
        observe(seconds)

    def turn(self, upstream: str, status: int) -> None:
        """One upstream call; status 0: there was no reply."""
        self._count(self._turns, upstream, status)

    def tool(self, name: str) -> None:
        """One run of a tool of ours."""
        self._count(self._tools, name)

    def placed(self, resources: int, tokens: int) -> None:
        """What one request got."""
        self._injected.inc(resources)
        self._tokens.inc(tokens)

    def degraded(self, reasons: Iterable[str]) -> None:
        """One request that was served with less, for each reason."""
        for reason in reasons:
            self._count(self._degraded, reason)

    def reload_failed(self) -> None:
        """One reload that kept the old policies."""
        self._reload_failures.inc()

    def exposition(self) -> bytes:
        """Everything in Prometheus's text format."""
        return generate_latest(self._registry)

    async def serve(self, send: Send) -> None:
        """`GET /metrics`."""
        await send_body(send, 200, self.exposition(), [(b"content-type", CONTENT_TYPE_LATEST.encode())])

    def _count(self, counter: Counter, *labels: object) -> None:
        count = self._bound.get((counter, *labels))
        if count is None:
            count = self._bound[counter, *labels] = counter.labels(*labels).inc
        count(1)


def _state(breaker: Breaker) -> float:
    return {State.CLOSED: 0, State.HALF_OPEN: 1, State.OPEN: 2}[breaker.state]
