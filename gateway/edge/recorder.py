"""The account of every request: a metric, a receipt and a line of the log, made in batches.

A request only appends itself to a list. Thirty times a second, before a scrape, before receipts are written, and when
the list is full, everything in it is counted, its receipts are queued and its log lines are encoded in one pass.
"""

import asyncio
import time
from collections.abc import Sequence
from functools import cache
from itertools import chain
from operator import attrgetter
from typing import Any

import msgspec
import orjson

from gateway.domain.exchange import NOTHING_FORWARDED, Exchange, ExchangeStatus
from gateway.domain.principal import Principal
from gateway.edge.logs import MAX_VALUE, RequestLog, cut, encode_line
from gateway.edge.metrics import Metrics
from gateway.receipts.recorder import ReceiptRecorder
from gateway.receipts.reported import read_usage

DRAIN_SECONDS = 0.03  # what waits longer has left the CPU's cache
CAPACITY = 1000  # requests that wait to be counted
MAX_USAGE_BYTES = 1000  # of an upstream's usage object in a line
MAX_TOOLS = 20  # names in a line

UNLOGGED = ("health", "metrics")  # asked every few seconds by machines

# A line as `describe_exchange` tells it: its names without their braces, then its figures with their closing one.
LINE = b'{"time":%r,"event":"exchange","receipt":"%b",%b,%b'

# What is counted of each, for a whole batch at once.
read_request, read_outcome = attrgetter("dialect", "http_status", "seconds"), attrgetter("route", "status", "seconds")
read_injected, read_tokens = attrgetter("injected"), attrgetter("tokens")
read_replies, read_tools, read_degraded = attrgetter("replies"), attrgetter("tools_run"), attrgetter("degraded")
read_names = attrgetter(  # what `describe_names` takes
    "principal.workspace", "principal.name", "principal.key", "agent", "model", "upstream", "status"
)


class RequestOutcome(msgspec.Struct):
    """A request that is no exchange, and how it ended: refused ones, models, pass-through, management."""

    route: str  # a name of ours, never a client's path
    status: int = 0  # 0: the client left
    code: str | None = None  # of the error, if it was one
    principal: Principal | None = None  # None: nobody was admitted
    model: str | None = None
    upstream: str | None = None
    tokens: int | None = None  # that were charged
    detail: str | None = None  # what an MCP client asked for
    seconds: float = 0.0
    ended: float = 0.0
    recorded: bool = False  # by its endpoint, as an exchange


class RequestRecorder:
    """Counts and logs what has ended; `log` is None where lines are not wanted."""

    def __init__(
        self,
        metrics: Metrics,
        log: RequestLog | None,
        receipts: ReceiptRecorder | None = None,
        capacity: int = CAPACITY,
    ) -> None:
        self._metrics, self._log, self._receipts = metrics, log, receipts
        self._capacity = capacity
        self._exchanges: list[Exchange] = []
        self._outcomes: list[RequestOutcome] = []
        self._was_drained = False  # for somebody else, since the last time
        metrics.prepare_collection(self.drain)
        if receipts is not None:
            receipts.prepare_flush(self.drain)

    def record_exchange(self, exchange: Exchange, status: int, seconds: float) -> None:
        """Note a chat request that has ended; only what the account needs is kept."""
        exchange.http_status, exchange.seconds, exchange.ended = status, seconds, time.time()
        exchange.context_headers, exchange.forwarded = (), NOTHING_FORWARDED
        model, exchanges = exchange.model, self._exchanges
        if model is not None and len(model) > MAX_VALUE:
            exchange.model = cut(model)
        exchanges.append(exchange)
        if len(exchanges) >= self._capacity:
            self.drain()

    def record_outcome(self, outcome: RequestOutcome) -> None:
        """Note any other request that has ended."""
        outcome.ended = time.time()
        if outcome.model is not None:
            outcome.model = cut(outcome.model)
        self._outcomes.append(outcome)
        if len(self._outcomes) >= self._capacity:
            self.drain()

    async def run(self) -> None:
        """Drain and write periodically; once more when cancelled."""
        try:
            while True:
                await asyncio.sleep(DRAIN_SECONDS)
                if not self._was_drained:
                    self.drain()
                self._was_drained = False
                if self._log is not None:
                    await self._log.write()
        finally:
            self.flush()

    def flush(self) -> None:
        """Count and write everything now."""
        self.drain()
        if self._log is not None:
            self._log.flush()

    def drain(self) -> None:
        """Count what has ended and queue its receipts and log lines."""
        self._was_drained = True
        exchanges, self._exchanges = self._exchanges, []
        outcomes, self._outcomes = self._outcomes, []
        if self._log is not None or self._receipts is not None:
            for exchange in exchanges:
                if exchange.usage_event is not None and exchange.usage is None:
                    exchange.usage = read_usage(exchange.usage_event)
        if self._receipts is not None:
            self._receipts.finish(exchanges)
        if exchanges:
            self._count_exchanges(exchanges)
        if outcomes:
            self._metrics.count_requests(*zip(*map(read_outcome, outcomes), strict=True))
        if self._log is not None:
            self._log.queue(encode_exchanges(exchanges))
            self._log.queue([encode_line(describe_outcome(one)) for one in outcomes if one.route not in UNLOGGED])

    def _count_exchanges(self, exchanges: Sequence[Exchange]) -> None:
        metrics = self._metrics
        metrics.count_requests(*zip(*map(read_request, exchanges), strict=True))
        metrics.count_injections(sum(map(read_injected, exchanges)), sum(map(read_tokens, exchanges)))
        metrics.count_turns(chain.from_iterable(map(read_replies, exchanges)))
        for name in chain.from_iterable(map(read_tools, exchanges)):
            metrics.count_tool_run(name)
        metrics.count_degraded(chain.from_iterable(map(read_degraded, exchanges)))


def encode_exchanges(exchanges: Sequence[Exchange]) -> list[bytes]:
    """The lines of chat requests; names that several of them have in common are encoded once."""
    encode = cache(encode_names)
    return [encode_exchange(one, encode(*read_names(one))) for one in exchanges]


def encode_exchange(exchange: Exchange, names: bytes | None) -> bytes:
    """The line of a chat request; a line that is short has a short usage, which need not be measured by itself."""
    try:
        if names is not None:
            figures = orjson.dumps(describe_figures(exchange))
            line = LINE % (exchange.ended, exchange.id.encode(), names, figures[1:])
            if len(line) <= MAX_USAGE_BYTES:
                return line
    except TypeError:
        pass
    return encode_line(describe_exchange(exchange) | {"usage": cut_usage(exchange.usage)})


def encode_names(*names: Any) -> bytes | None:
    """What `describe_names` says, without braces; None: it has no encoding."""
    try:
        return orjson.dumps(describe_names(*names))[1:-1]
    except TypeError:
        return None


def describe_exchange(exchange: Exchange) -> dict[str, Any]:
    """The line of a chat request, without any text of the conversation; every value but the usage is bounded."""
    begin = {"time": exchange.ended, "event": "exchange", "receipt": exchange.id}
    return begin | describe_names(*read_names(exchange)) | describe_figures(exchange)


def describe_names(
    workspace: str,
    principal: str,
    key: str | None,
    agent: str | None,
    model: str | None,
    upstream: str | None,
    status: ExchangeStatus,
) -> dict[str, Any]:
    """Who asked whom, and how it ended: of most exchanges of a batch the same."""
    return {
        "workspace": cut(workspace),
        "principal": cut(principal),
        "key": cut(key),
        "agent": cut(agent),
        "model": model,
        "upstream": cut(upstream),
        "status": status,
    }


def describe_figures(exchange: Exchange) -> dict[str, Any]:
    """What is to be said of each exchange by itself."""
    return {
        "http_status": exchange.http_status,
        "seconds": round(exchange.seconds, 6),
        "snapshot": exchange.snapshot.hash[:12],
        "injected": exchange.injected,
        "tokens": exchange.tokens,
        "turns": exchange.turns,
        "tools_run": cut_names(exchange.tools_run) if exchange.tools_run else [],
        "usage": exchange.usage,
        "degraded": sorted(exchange.degraded) if exchange.degraded else [],
    }


def describe_outcome(outcome: RequestOutcome) -> dict[str, Any]:
    """The line of any other request."""
    return {
        "time": outcome.ended,
        "event": "request",
        "route": outcome.route,
        **describe_principal(outcome.principal),
        "model": outcome.model,
        "upstream": cut(outcome.upstream),
        "http_status": outcome.status,
        "code": outcome.code,
        "seconds": round(outcome.seconds, 6),
        "charged": outcome.tokens,
        "detail": cut(outcome.detail),
    }


def describe_principal(principal: Principal | None) -> dict[str, str | None]:
    """Who asked; nothing but nulls if nobody knows."""
    if principal is None:
        return {"workspace": None, "principal": None, "key": None}
    return {"workspace": cut(principal.workspace), "principal": cut(principal.name), "key": cut(principal.key)}


def cut_names(names: list[str]) -> list[str | None]:
    return [cut(name) for name in names[:MAX_TOOLS]] + (["…"] if len(names) > MAX_TOOLS else [])


def cut_usage(usage: dict[str, Any] | None) -> dict[str, Any] | None:
    """A usage object as the upstream sent it; only its numbers if it is large."""
    if usage is None:
        return None
    try:
        if len(orjson.dumps({"usage": usage})) <= MAX_USAGE_BYTES:
            return usage
    except TypeError:
        pass  # a number without bounds, half a character, or more levels than a line may have
    known = ("prompt_tokens", "completion_tokens", "total_tokens")
    return {name: usage[name] for name in known if is_count(usage.get(name))}


def is_count(value: Any) -> bool:
    return isinstance(value, int | float) and abs(value) < 2**53
