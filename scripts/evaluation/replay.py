"""Replays a log of conversations through the gateway's own walk of a request and counts what was at hand."""

from collections.abc import Iterable
from dataclasses import dataclass

import orjson

from evaluation.traffic import Message
from gateway.domain.exchange import Exchange
from gateway.domain.principal import Principal
from gateway.domain.snapshot import Snapshot
from gateway.pipeline import Pipeline

CUSTOMER = Principal("customer")


@dataclass(frozen=True, slots=True)
class Replayed:
    """What became of the questions of a log."""

    requests: int
    remembered: int  # selections that were made before

    @property
    def share(self) -> float:
        return self.remembered / self.requests if self.requests else 0.0

    def __str__(self) -> str:
        return f"{self.requests} requests, {self.share:.1%} of their selections were remembered"


async def replayed(pipeline: Pipeline, snapshot: Snapshot, log: Iterable[list[Message]]) -> Replayed:
    """Raises RuntimeError for a request that was served with less: it would count as something else than it is."""
    count, before = 0, pipeline.lookups.hits
    for messages in log:
        exchange = Exchange(f"replay-{count}", CUSTOMER, snapshot, [])
        await pipeline.prepare(exchange, orjson.dumps({"model": "demo", "messages": messages}))
        if exchange.degraded:
            raise RuntimeError(f"A request was degraded: {exchange.degraded}.")
        count += 1
    return Replayed(count, pipeline.lookups.hits - before)
