"""What is counted, for Prometheus. Requests only add to plain numbers, well under a microsecond each."""

import asyncio
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec
from starlette.types import Send

from gateway.edge.respond import send_body
from gateway.upstreams.breaker import BreakerState, CircuitBreaker

if TYPE_CHECKING:
    from prometheus_client.core import Metric


SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)

Labels = tuple[str, ...]
Values = dict[str, list[tuple[Labels, float]]]  # metric → label values and number; JSON has no tuples as keys

# Metric, what it says, its labels.
COUNTERS = {
    "requests": ("gateway_requests", "Requests answered", ("route", "status")),
    "turns": ("gateway_upstream_turns", "Upstream calls that were answered", ("upstream", "status")),
    "tools": ("gateway_tool_runs", "Tools run by the gateway", ("tool",)),
    "degraded": ("gateway_degraded", "Requests served with less", ("reason",)),
    "injected": ("gateway_injected_resources", "Resources placed", ()),
    "tokens": ("gateway_context_tokens", "Tokens of context placed", ()),
    "reload_failures": ("gateway_reload_failures", "Reloads that kept the old", ()),
    "limited": ("gateway_limited", "Requests refused by a limit of their key", ("limit",)),
    "selection_cache": ("gateway_selection_cache", "Questions looked up among selections made before", ("outcome",)),
    "lookups": ("gateway_passage_lookups", "Questions that a server should look up passages for", ("outcome",)),
    "vector_cache": ("gateway_vector_cache", "Sentences looked up among vectors made before", ("outcome",)),
}

# The same, and which gauges of several workers are added; of the others the highest counts.
GAUGES = {
    "in_flight": ("gateway_in_flight", "Requests in flight", ()),
    "workers": ("gateway_workers", "Processes that answer requests", ()),
    "generation": ("gateway_policies_generation", "Generation of the policies", ()),
    "breakers": ("gateway_breaker_state", "Circuit breaker: 0 closed, 1 half open, 2 open", ("upstream",)),
    "store_breaker": ("gateway_store_breaker_open", "1 while the store is left alone because it is silent", ()),
}
ADDED = ("in_flight", "workers")


@dataclass(frozen=True, slots=True)
class WorkerMetrics:
    """Numbers of one process, or of several together."""

    counts: Values = field(default_factory=dict)
    buckets: dict[str, list[int]] = field(default_factory=dict)  # route → answers per bound of SECONDS and beyond
    seconds: dict[str, float] = field(default_factory=dict)  # route → time spent
    gauges: Values = field(default_factory=dict)


def encoded(tally: WorkerMetrics) -> bytes:
    return msgspec.json.encode(tally)


def decoded(written: bytes) -> WorkerMetrics:
    """Raises ValueError for anything but what `encoded` gives."""
    return msgspec.json.decode(written, type=WorkerMetrics)


def together(tallies: Iterable[WorkerMetrics]) -> WorkerMetrics:
    """The numbers of several processes as one."""
    counts: defaultdict[str, dict[Labels, float]] = defaultdict(dict)
    gauges: defaultdict[str, dict[Labels, float]] = defaultdict(dict)
    buckets: dict[str, list[int]] = {}
    seconds: defaultdict[str, float] = defaultdict(float)
    for tally in tallies:
        for name, values in tally.counts.items():
            for labels, value in values:
                counts[name][labels] = counts[name].get(labels, 0) + value
        for name, values in tally.gauges.items():
            for labels, value in values:
                former = gauges[name].get(labels, 0)
                gauges[name][labels] = former + value if name in ADDED else max(former, value)
        for route, row in tally.buckets.items():
            buckets[route] = [one + more for one, more in zip(buckets.get(route, [0] * len(row)), row, strict=True)]
            seconds[route] += tally.seconds.get(route, 0.0)
    return WorkerMetrics(
        {name: list(values.items()) for name, values in counts.items()},
        buckets,
        dict(seconds),
        {name: list(values.items()) for name, values in gauges.items()},
    )


STATES = {BreakerState.CLOSED: 0, BreakerState.HALF_OPEN: 1, BreakerState.OPEN: 2}

Watched = Callable[[], Mapping[Labels, float]]


class Metrics:
    """One process's counters."""

    def __init__(self) -> None:
        self.running = 0  # requests in flight; the edge counts it up and down
        self._counts: dict[str, Counter[Labels]] = {name: Counter() for name in COUNTERS}
        self._buckets: dict[str, list[int]] = {}
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._gauges: dict[str, Watched] = {"in_flight": lambda: {(): self.running}, "workers": lambda: {(): 1}}
        self._external: list[tuple[str, Watched]] = []
        self._everyone: Callable[[], WorkerMetrics] | None = None

    def watch_gauge(self, name: str, values: Watched) -> None:
        """Expose a gauge of the table, by label values, asked for at each scrape."""
        self._gauges[name] = values

    def watch_generation(self, generation: Callable[[], float]) -> None:
        """Expose the policies' generation."""
        self.watch_gauge("generation", lambda: {(): generation()})

    def watch_breakers(self, breakers: Mapping[str, CircuitBreaker]) -> None:
        """Expose each upstream's circuit breaker."""
        self.watch_gauge("breakers", lambda: {(name,): STATES[breaker.state] for name, breaker in breakers.items()})

    def watch_counts(self, name: str, counts: Watched) -> None:
        """Expose counts that somebody else keeps, by label values, asked for at each scrape."""
        self._external.append((name, counts))

    def share(self, everyone: Callable[[], WorkerMetrics]) -> None:
        """Show what `everyone` gives, the numbers of all workers, in place of this process's alone.

        It is called in a thread; what is shown of this process is what it wrote down last, so that a counter does not
        fall when the process dies a moment after the scrape.
        """
        self._everyone = everyone

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

    def tally(self) -> WorkerMetrics:
        """The numbers of this process now; call it on the event loop, which is where they change."""
        counts: dict[str, dict[Labels, float]] = {name: dict(kept) for name, kept in self._counts.items()}
        for name, current in self._external:
            counts[name] |= current()
        return WorkerMetrics(
            {name: list(values.items()) for name, values in counts.items()},
            {route: list(row) for route, row in self._buckets.items()},
            dict(self._seconds),
            {name: list(current().items()) for name, current in self._gauges.items()},
        )

    def exposition(self) -> bytes:
        """Everything in Prometheus's text format."""
        return exposition(self._everyone() if self._everyone is not None else self.tally())

    async def serve(self, send: Send) -> None:
        """`GET /metrics`."""
        from prometheus_client.exposition import CONTENT_TYPE_LATEST

        # The numbers of other workers are in files, and reading those may take a moment.
        text = self.exposition() if self._everyone is None else await asyncio.to_thread(self.exposition)
        await send_body(send, 200, text, [(b"content-type", CONTENT_TYPE_LATEST.encode())])


def exposition(tally: WorkerMetrics) -> bytes:
    """Everything that was counted, as text."""
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Families(tally))
    return generate_latest(registry)


class Families:
    """A tally as the library wants it."""

    def __init__(self, tally: WorkerMetrics) -> None:
        self._tally = tally

    def collect(self) -> "Iterator[Metric]":
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        for name, (metric, help_, labels) in COUNTERS.items():
            counter = CounterMetricFamily(metric, help_, labels=labels)
            for values, count in self._tally.counts.get(name) or ([] if labels else [((), 0.0)]):
                counter.add_metric(values, count)
            yield counter
        yield self._histogram()
        for name, (metric, help_, labels) in GAUGES.items():
            gauge = GaugeMetricFamily(metric, help_, labels=labels)
            for values, value in self._tally.gauges.get(name, ()):
                gauge.add_metric(values, value)
            yield gauge

    def _histogram(self) -> "Metric":
        from prometheus_client.core import HistogramMetricFamily

        family = HistogramMetricFamily("gateway_request_seconds", "Time to the end of the answer", labels=["route"])
        for route, counts in self._tally.buckets.items():
            bounds = [*map(str, map(float, SECONDS)), "+Inf"]
            sums = [sum(counts[: place + 1]) for place in range(len(counts))]
            family.add_metric([route], list(zip(bounds, sums, strict=True)), self._tally.seconds[route])
        return family
