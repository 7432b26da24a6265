"""A tally in Prometheus's text format. Its library, with its locks and its import, is used here only."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gateway.edge.tally import COUNTERS, GAUGES, SECONDS, Tally

if TYPE_CHECKING:
    from prometheus_client.core import Metric


def exposition(tally: Tally) -> bytes:
    """Everything that was counted, as text."""
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Families(tally))
    return generate_latest(registry)


class Families:
    """A tally as the library wants it."""

    def __init__(self, tally: Tally) -> None:
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
