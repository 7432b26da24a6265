"""What is counted, for Prometheus.

Requests only add to plain numbers, well under a microsecond each; Prometheus's own classes, with their locks and their
import, come in when somebody asks for /metrics.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from starlette.types import Send

from gateway.edge.respond import send_body
from gateway.upstreams.breaker import Breaker, State

if TYPE_CHECKING:
    from prometheus_client.core import Metric

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
STATES = {State.CLOSED: 0, State.HALF_OPEN: 1, State.OPEN: 2}

# Name, what it says, its labels.
COUNTERS = {
    "requests": ("gateway_requests", "Requests answered", ("route", "status")),
    "turns": ("gateway_upstream_turns", "Upstream calls that were answered", ("upstream", "status")),
    "tools": ("gateway_tool_runs", "Tools run by the gateway", ("tool",)),
    "degraded": ("gateway_degraded", "Requests served with less", ("reason",)),
    "injected": ("gateway_injected_resources", "Resources placed", ()),
    "tokens": ("gateway_context_tokens", "Tokens of context placed", ()),
    "reload_failures": ("gateway_reload_failures", "Reloads that kept the old", ()),
    "semantic_cache": ("gateway_semantic_cache", "Sentences looked up in the cache of vectors", ("outcome",)),
}


class Metrics:
    """One process's counters."""

    def __init__(self) -> None:
        self.running = 0  # requests in flight; the edge counts it up and down
        self._counts: dict[str, Counter[tuple[str, ...]]] = {name: Counter() for name in COUNTERS}
        self._buckets: dict[str, list[int]] = {}
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._gauges: list[Callable[[], Metric]] = []
        self._external: list[tuple[str, Callable[[], Mapping[tuple[str, ...], float]]]] = []

    def watch_generation(self, generation: Callable[[], float]) -> None:
        """Expose the policies' generation, asked for at each scrape."""
        self._gauges.append(lambda: gauge("gateway_policies_generation", "Generation of the policies", generation()))

    def watch_breakers(self, breakers: Mapping[str, Breaker]) -> None:
        """Expose each upstream's circuit breaker, asked for at each scrape."""

        def states() -> "Metric":
            from prometheus_client.core import GaugeMetricFamily

            help_ = "Circuit breaker: 0 closed, 1 half open, 2 open"
            family = GaugeMetricFamily("gateway_breaker_state", help_, labels=["upstream"])
            for upstream, breaker in breakers.items():
                family.add_metric([upstream], STATES[breaker.state])
            return family

        self._gauges.append(states)

    def watch_counts(self, name: str, counts: Callable[[], Mapping[tuple[str, ...], float]]) -> None:
        """Expose counts that somebody else keeps, by label values, asked for at each scrape."""
        self._external.append((name, counts))

    def request(self, route: str, status: int, seconds: float) -> None:
        """One answered request; `route` is a name from our own table, never a client's path."""
        self._counts["requests"][route, str(status)] += 1
        buckets = self._buckets.get(route)
        if buckets is None:
            buckets = self._buckets[route] = [0] * (len(SECONDS) + 1)
        buckets[bisect_left(SECONDS, seconds)] += 1
        self._seconds[route] += seconds

    def turn(self, upstream: str, status: int) -> None:
        """One upstream call that was answered."""
        self._counts["turns"][upstream, str(status)] += 1

    def tool(self, name: str) -> None:
        """One run of a tool of ours."""
        self._counts["tools"][(name,)] += 1

    def placed(self, resources: int, tokens: int) -> None:
        """What one request got."""
        self._counts["injected"][()] += resources
        self._counts["tokens"][()] += tokens

    def degraded(self, reasons: Iterable[str]) -> None:
        """One request that was served with less, for each reason."""
        for reason in reasons:
            self._counts["degraded"][(reason,)] += 1

    def reload_failed(self) -> None:
        """One reload that kept the old policies."""
        self._counts["reload_failures"][()] += 1

    def collect(self) -> "Iterator[Metric]":
        """Everything as Prometheus's library wants it."""
        from prometheus_client.core import CounterMetricFamily

        for name, (metric, help_, labels) in COUNTERS.items():
            counter = CounterMetricFamily(metric, help_, labels=labels)
            counts: dict[tuple[str, ...], float] = {} if labels else {(): 0}
            counts |= self._counts[name]
            for external, current in self._external:
                counts |= current() if external == name else {}
            for values, count in counts.items():
                counter.add_metric(values, count)
            yield counter
        yield self._histogram()
        yield gauge("gateway_in_flight", "Requests in flight", self.running)
        for current_gauge in self._gauges:
            yield current_gauge()

    def exposition(self) -> bytes:
        """Everything in Prometheus's text format."""
        from prometheus_client import CollectorRegistry, generate_latest

        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        return generate_latest(registry)

    async def serve(self, send: Send) -> None:
        """`GET /metrics`."""
        from prometheus_client.exposition import CONTENT_TYPE_LATEST

        await send_body(send, 200, self.exposition(), [(b"content-type", CONTENT_TYPE_LATEST.encode())])

    def _histogram(self) -> "Metric":
        from prometheus_client.core import HistogramMetricFamily

        family = HistogramMetricFamily("gateway_request_seconds", "Time to the end of the answer", labels=["route"])
        for route, counts in self._buckets.items():
            bounds = [*map(str, map(float, SECONDS)), "+Inf"]
            sums = [sum(counts[: place + 1]) for place in range(len(counts))]
            family.add_metric([route], list(zip(bounds, sums, strict=True)), self._seconds[route])
        return family


def gauge(name: str, help_: str, value: float) -> "Metric":
    from prometheus_client.core import GaugeMetricFamily

    return GaugeMetricFamily(name, help_, value=value)
