"""What a process counts, and its text for Prometheus.

Counting only adds to plain numbers, for a whole batch of requests at once; everything else is done at a scrape.
"""

import asyncio
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING

import msgspec

from gateway.circuit_breaker import BreakerState, CircuitBreaker
from gateway.domain.exchange import TurnReply
from gateway.edge.worker_metrics import Labels, WorkerMetrics

if TYPE_CHECKING:
    from prometheus_client.core import Metric
    from starlette.requests import Request
    from starlette.responses import Response


class MetricInfo(msgspec.Struct, frozen=True):
    """A metric as Prometheus shows it."""

    name: str
    help: str
    labels: Labels = ()


COUNTERS = {
    "requests": MetricInfo("gateway_requests", "Answered requests, refused ones included", ("route", "status")),
    "turns": MetricInfo("gateway_upstream_turns", "Answered upstream calls", ("upstream", "status")),
    "tools": MetricInfo("gateway_tool_runs", "Tool calls run by the gateway", ("tool",)),
    "degraded": MetricInfo("gateway_degraded", "Degraded requests", ("reason",)),
    "injected": MetricInfo("gateway_injected_resources", "Injected resources"),
    "tokens": MetricInfo("gateway_context_tokens", "Injected context tokens"),
    "reload_failures": MetricInfo("gateway_reload_failures", "Failed policy reloads"),
    "job_restarts": MetricInfo("gateway_job_restarts", "Restarts of background jobs", ("job",)),
    "loop_stalls": MetricInfo("gateway_loop_stalls", "Times that the event loop stood still for more than 250 ms"),
    "shed": MetricInfo("gateway_shed", "Work refused because too much of its workspace was waiting", ("queue",)),
    "limited": MetricInfo("gateway_limited", "Requests refused by a rate limit of their key", ("limit",)),
    "log_lines_lost": MetricInfo("gateway_log_lines_lost", "Log lines that were dropped because nobody read them"),
    "content_unread": MetricInfo("gateway_content_unread", "Nodes left out of requests, too large together to be read"),
    "session_changes_lost": MetricInfo("gateway_session_changes_lost", "Changes of sessions that the store never took"),
    "receipts_lost": MetricInfo("gateway_receipts_lost", "Exchanges without a receipt, because too many were waiting"),
    "selection_cache": MetricInfo("gateway_selection_cache", "Selection cache lookups", ("outcome",)),
    "lookups": MetricInfo("gateway_passage_lookups", "Passage lookups in Redis", ("outcome",)),
    "summaries": MetricInfo("gateway_summaries", "Summaries that were made, adopted, failed or given up", ("outcome",)),
    "summary_tokens": MetricInfo("gateway_summary_tokens", "Tokens that calls for summaries used", ("direction",)),
    "vector_cache": MetricInfo("gateway_vector_cache", "Vector cache lookups", ("outcome",)),
}
GAUGES = {
    "in_flight": MetricInfo("gateway_in_flight", "Requests in flight"),
    "workers": MetricInfo("gateway_workers", "Worker processes"),
    "generation": MetricInfo("gateway_policies_generation", "Policy generation"),
    "breakers": MetricInfo(
        "gateway_breaker_state", "Circuit breaker state: 0 closed, 1 half open, 2 open", ("upstream",)
    ),
    "responses_waiting": MetricInfo("gateway_responses_waiting", "Responses that are kept but not stored yet"),
    "receipts_waiting": MetricInfo("gateway_receipts_waiting", "Exchanges whose receipt is not finished and stored"),
    "summaries_waiting": MetricInfo("gateway_summaries_waiting", "Summaries that are still to be made"),
    "store_breaker": MetricInfo("gateway_store_breaker_open", "1 while the circuit breaker of the store is open"),
}
DURATION = MetricInfo("gateway_request_seconds", "Seconds to the end of the answer", ("route",))
BUCKET_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
BREAKER_VALUES = {BreakerState.CLOSED: 0, BreakerState.HALF_OPEN: 1, BreakerState.OPEN: 2}

find_bucket = partial(bisect_left, BUCKET_SECONDS)
read_turn = attrgetter("upstream", "status")

ValueReader = Callable[[], Mapping[Labels, float]]


class Metrics:
    """The counters of one process."""

    def __init__(self) -> None:
        self.in_flight = 0  # the edge counts it up and down
        self._counts: dict[str, Counter[Labels]] = {name: Counter() for name in COUNTERS}
        self._buckets: defaultdict[str, list[int]] = defaultdict(lambda: [0] * (len(BUCKET_SECONDS) + 1))
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._gauges: dict[str, ValueReader] = {"in_flight": lambda: {(): self.in_flight}, "workers": lambda: {(): 1}}
        self._external: list[tuple[str, ValueReader]] = []
        self._read_totals: Callable[[], WorkerMetrics] | None = None
        self._preparations: list[Callable[[], None]] = []

    def watch_gauge(self, name: str, values: ValueReader) -> None:
        """Expose a gauge of GAUGES; its values are read at each scrape."""
        self._gauges[name] = values

    def watch_generation(self, generation: Callable[[], float]) -> None:
        """Expose the generation of the policies."""
        self.watch_gauge("generation", lambda: {(): generation()})

    def watch_breakers(self, breakers: Mapping[str, CircuitBreaker]) -> None:
        """Expose the circuit breaker of each upstream."""
        self.watch_gauge(
            "breakers", lambda: {(name,): BREAKER_VALUES[breaker.state] for name, breaker in breakers.items()}
        )

    def watch_counts(self, name: str, counts: ValueReader) -> None:
        """Expose a counter of COUNTERS that is kept elsewhere; its values are read at each scrape."""
        self._external.append((name, counts))

    def prepare_collection(self, prepare: Callable[[], None]) -> None:
        """Call this before the numbers are read, so that it can count what is not counted yet."""
        self._preparations.append(prepare)

    def show_totals(self, read_totals: Callable[[], WorkerMetrics]) -> None:
        """Show the totals of all workers in place of this process's own numbers.

        `read_totals` is called in a thread. It gives what this process saved last, so that a counter does not fall when
        the process dies a moment after the scrape.
        """
        self._read_totals = read_totals

    def count_requests(self, routes: Sequence[str], statuses: Iterable[int], seconds: Sequence[float]) -> None:
        """Count answered requests, of which each has an entry in each column; routes are our names, never paths."""
        counts = self._counts["requests"]
        for (route, status), count in Counter(zip(routes, statuses, strict=True)).items():
            counts[route, str(status)] += count
        for (route, bucket), count in Counter(zip(routes, map(find_bucket, seconds), strict=True)).items():
            self._buckets[route][bucket] += count
        for route, spent in zip(routes, seconds, strict=True):
            self._seconds[route] += spent

    def count_turns(self, replies: Iterable[TurnReply]) -> None:
        """Count answered upstream calls."""
        counts = self._counts["turns"]
        for (upstream, status), count in Counter(map(read_turn, replies)).items():
            counts[upstream, str(status)] += count

    def count_tool_run(self, name: str) -> None:
        """Count a run of one of the gateway's own tools."""
        self._counts["tools"][(name,)] += 1

    def count_injections(self, resources: int, tokens: int) -> None:
        """Count what was injected into requests."""
        self._counts["injected"][()] += resources
        self._counts["tokens"][()] += tokens

    def count_degraded(self, reasons: Iterable[str]) -> None:
        """Count why requests were degraded; each under every one of its reasons."""
        for reason in reasons:
            self._counts["degraded"][(reason,)] += 1

    def count_failed_reload(self) -> None:
        """Count a reload that kept the old policies."""
        self._counts["reload_failures"][()] += 1

    def collect(self) -> WorkerMetrics:
        """The numbers of this process now; call it on the event loop, which is where they change."""
        for prepare in self._preparations:
            prepare()
        counts: dict[str, dict[Labels, float]] = {name: dict(kept) for name, kept in self._counts.items()}
        for name, read in self._external:
            counts[name] |= read()
        return WorkerMetrics(
            {name: list(values.items()) for name, values in counts.items()},
            {route: list(row) for route, row in self._buckets.items()},
            dict(self._seconds),
            {name: list(read().items()) for name, read in self._gauges.items()},
        )

    def render(self) -> bytes:
        """Everything in Prometheus's text format."""
        return render_metrics(self._read_totals() if self._read_totals is not None else self.collect())

    async def serve(self, request: "Request") -> "Response":
        """`GET /metrics`."""
        from prometheus_client.exposition import CONTENT_TYPE_LATEST
        from starlette.responses import Response

        # The numbers of other workers are in files, and reading those may take a moment.
        text = self.render() if self._read_totals is None else await asyncio.to_thread(self.render)
        return Response(text, headers={"content-type": CONTENT_TYPE_LATEST})


def render_metrics(metrics: WorkerMetrics) -> bytes:
    """Metrics in Prometheus's text format."""
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry(auto_describe=False)
    registry.register(PrometheusAdapter(metrics))
    return generate_latest(registry)


class PrometheusAdapter:
    """Metrics as prometheus_client asks for them."""

    def __init__(self, metrics: WorkerMetrics) -> None:
        self._metrics = metrics

    def collect(self) -> "Iterator[Metric]":
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        for key, info in COUNTERS.items():
            counter = CounterMetricFamily(info.name, info.help, labels=info.labels)
            for values, count in self._metrics.counts.get(key) or ([] if info.labels else [((), 0.0)]):
                counter.add_metric(values, count)
            yield counter
        yield self._build_histogram()
        for key, info in GAUGES.items():
            gauge = GaugeMetricFamily(info.name, info.help, labels=info.labels)
            for values, value in self._metrics.gauges.get(key, ()):
                gauge.add_metric(values, value)
            yield gauge

    def _build_histogram(self) -> "Metric":
        from prometheus_client.core import HistogramMetricFamily

        family = HistogramMetricFamily(DURATION.name, DURATION.help, labels=DURATION.labels)
        bounds = [*map(str, map(float, BUCKET_SECONDS)), "+Inf"]
        for route, counts in self._metrics.buckets.items():
            sums = [sum(counts[: place + 1]) for place in range(len(counts))]
            family.add_metric([route], list(zip(bounds, sums, strict=True)), self._metrics.seconds[route])
        return family
