"""Replays a log of conversations through the pipeline of a request and counts cached selections."""

from collections.abc import Iterable
from dataclasses import dataclass

import orjson

from gateway.domain.exchange import Exchange
from gateway.domain.principal import Principal
from gateway.domain.snapshot import Snapshot
from gateway.pipeline import Pipeline
from scripts.banking_eval.traffic import Message

CUSTOMER = Principal("customer")


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """What became of the questions of a log."""

    requests: int
    cached: int  # selections that were made before

    @property
    def share(self) -> float:
        return self.cached / self.requests if self.requests else 0.0

    def __str__(self) -> str:
        return f"{self.requests} requests, {self.share:.1%} of their selections were cached"


async def replay_log(pipeline: Pipeline, snapshot: Snapshot, log: Iterable[list[Message]]) -> ReplayResult:
    """Raises RuntimeError for a degraded request, which would distort the count."""
    count, before = 0, pipeline.builder.lookups.hits
    for messages in log:
        exchange = Exchange(f"replay-{count}", CUSTOMER, snapshot, [])
        await pipeline.prepare(exchange, orjson.dumps({"model": "demo", "messages": messages}))
        if exchange.degraded:
            raise RuntimeError(f"A request was degraded: {exchange.degraded}.")
        count += 1
    return ReplayResult(count, pipeline.builder.lookups.hits - before)
