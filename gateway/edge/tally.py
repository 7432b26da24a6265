"""What one process has counted, as plain numbers that can be added up and written down."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

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
class Tally:
    """Numbers of one process, or of several together."""

    counts: Values = field(default_factory=dict)
    buckets: dict[str, list[int]] = field(default_factory=dict)  # route → answers per bound of SECONDS and beyond
    seconds: dict[str, float] = field(default_factory=dict)  # route → time spent
    gauges: Values = field(default_factory=dict)


def encoded(tally: Tally) -> bytes:
    return msgspec.json.encode(tally)


def decoded(written: bytes) -> Tally:
    """Raises ValueError for anything but what `encoded` gives."""
    return msgspec.json.decode(written, type=Tally)


def together(tallies: Iterable[Tally]) -> Tally:
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
    return Tally(
        {name: list(values.items()) for name, values in counts.items()},
        buckets,
        dict(seconds),
        {name: list(values.items()) for name, values in gauges.items()},
    )
