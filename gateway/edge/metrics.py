"""What is counted, for Prometheus. Requests only add to plain numbers, well under a microsecond each."""

import asyncio
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping

from starlette.types import Send

from gateway.edge.exposition import exposition
from gateway.edge.respond import send_body
from gateway.edge.tally import COUNTERS, SECONDS, Labels, Tally
from gateway.upstreams.breaker import Breaker, State

STATES = {State.CLOSED: 0, State.HALF_OPEN: 1, State.OPEN: 2}

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
        self._everyone: Callable[[], Tally] | None = None

    def watch_gauge(self, name: str, values: Watched) -> None:
        """Expose a gauge of the table, by label values, asked for at each scrape."""
        self._gauges[name] = values

    def watch_generation(self, generation: Callable[[], float]) -> None:
        """Expose the policies' generation."""
        self.watch_gauge("generation", lambda: {(): generation()})

    def watch_breakers(self, breakers: Mapping[str, Breaker]) -> None:
        """Expose each upstream's circuit breaker."""
        self.watch_gauge("breakers", lambda: {(name,): STATES[breaker.state] for name, breaker in breakers.items()})

    def watch_counts(self, name: str, counts: Watched) -> None:
        """Expose counts that somebody else keeps, by label values, asked for at each scrape."""
        self._external.append((name, counts))

    def share(self, everyone: Callable[[], Tally]) -> None:
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

    def tally(self) -> Tally:
        """The numbers of this process now; call it on the event loop, which is where they change."""
        counts: dict[str, dict[Labels, float]] = {name: dict(kept) for name, kept in self._counts.items()}
        for name, current in self._external:
            counts[name] |= current()
        return Tally(
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
