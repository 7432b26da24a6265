"""An exchange becomes a receipt. All of this runs off the request's path."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Raw

from gateway.domain.exchange import Exchange, ToolRun
from gateway.domain.injection import Injection
from gateway.domain.lru import LruCache
from gateway.domain.price import TokenCount
from gateway.domain.receipt import STARTED, Receipt
from gateway.domain.scope import Scope
from gateway.ids import read_id_time
from gateway.receipts.items import (
    describe_collectors,
    describe_injected,
    describe_omission,
    describe_sources,
    describe_warnings,
    summarize_tokens,
)
from gateway.receipts.prices import PriceTable, count_tokens, read_count
from gateway.receipts.reported import read_answer, read_usage

DIALECT = "chat"
MAX_NAME = 512  # characters of a session or another name that the caller chose
KEPT_INJECTIONS = 256  # whose description is not written again for each request of the same scope
KEPT_BYTES = 16_000_000

_encode = msgspec.json.Encoder().encode


@dataclass(slots=True)
class ExchangeText:
    """The text of a conversation, kept only if it is configured."""

    request: bytes
    bearer: str | None = None  # the client's own, to be redacted
    pieces: list[bytes] = field(default_factory=list)  # of the reply
    size: int = 0  # of all pieces
    full: bool = False  # no more pieces are kept
    truncated: bool = False


@dataclass(slots=True)
class PendingReceipt:
    """An exchange whose receipt has to be written."""

    exchange: Exchange
    body: bytes = b""  # of a whole reply, for its usage
    text: ExchangeText | None = None
    http_status: int | None = None
    seconds: float | None = None
    finished: bool = False

    def count_text(self) -> int:
        """Bytes of text that it holds."""
        return len(self.text.request) + self.text.size if self.text is not None else 0


@dataclass(frozen=True, slots=True)
class InjectionDescription:
    """What a receipt says about an injection, encoded once."""

    injection: Injection  # as long as it is kept, no other has its identity
    fields: dict[str, Raw]
    placed: tuple[str, ...]  # ids of the resources
    known: frozenset[str]  # ids of all resources that the tools can reach too


class ReceiptRenderer:
    """Renders receipts; one thread at a time."""

    def __init__(self, prices: PriceTable, redact: Callable[[str], str]) -> None:
        self._prices, self._redact = prices, redact
        self._descriptions: LruCache[int, InjectionDescription] = LruCache(KEPT_INJECTIONS, KEPT_BYTES)

    def render(self, pending: PendingReceipt, finished: bool) -> Receipt:
        """The receipt of an exchange that goes on, or of one that is over."""
        exchange, scope = pending.exchange, pending.exchange.scope
        described = self._describe(exchange.injection) if exchange.injection is not None else None
        usage = find_usage(pending)
        tokens = count_tokens(usage)
        tools = [self._describe_tool(one, described, pending.text is not None) for one in exchange.tool_runs]
        details: dict[str, Any] = dict(described.fields) if described is not None else {}
        details["turns"] = self._describe_turns(exchange, usage)
        details["tools"] = tools
        details["timings"] = describe_timings(exchange, pending.seconds)
        if pending.text is not None:
            details["text"] = self._describe_text(pending.text, exchange)
        summary = summarize(pending) | {
            "usage": usage,
            "cached_tokens": tokens.cached,
            "cost": self._compute_cost(exchange.model, usage, tokens),
        }
        fetched = (one["resource"] for one in tools if one["resource"] is not None)
        return Receipt(
            exchange.id,
            exchange.principal.workspace,
            exchange.status.value if finished else STARTED,
            shorten_name(scope.request.session) if scope is not None else None,
            exchange.agent,
            scope.node.path if scope is not None and scope.node is not None else None,
            tuple(dict.fromkeys((*(described.placed if described is not None else ()), *fetched))),
            encode_json(summary),
            encode_json(details),
        )

    def _describe(self, injection: Injection) -> InjectionDescription:
        described = self._descriptions.get(id(injection))
        if described is None:
            described = describe_injection(injection)
            if not injection.selection.items:  # the caller's own texts: nobody else gets this injection
                size = sum(len(bytes(one)) for one in described.fields.values())
                texts = len(injection.stable) + 2 * len(injection.volatile)
                self._descriptions.put(id(injection), described, size + texts)
        return described

    def _describe_turns(self, exchange: Exchange, usage: Mapping[str, Any] | None) -> list[dict[str, Any]]:
        """One entry per upstream call that was answered."""
        usages: Sequence[Mapping[str, Any] | None] = exchange.usages
        if len(exchange.replies) == 1:
            usages = [usage]
        turns = []
        for position, reply in enumerate(exchange.replies):
            used = usages[position] if position < len(usages) else None
            tokens = count_tokens(used)
            turns.append(
                {
                    "upstream": reply.upstream,
                    "status": reply.status,
                    "first_byte_ms": to_ms(reply.seconds),
                    "usage": used,
                    "cached_tokens": tokens.cached,
                    "cost": self._compute_cost(exchange.model, used, tokens),
                }
            )
        return turns

    def _compute_cost(self, model: str | None, usage: Mapping[str, Any] | None, tokens: TokenCount) -> float | None:
        price = self._prices.find(model) if model is not None and usage is not None else None
        return round(price.compute_cost(tokens), 9) if price is not None else None

    def _describe_tool(
        self, result: ToolRun, described: InjectionDescription | None, with_text: bool
    ) -> dict[str, Any]:
        asked = read_resource_id(result.arguments)
        # Any other id is text that the model made up.
        known = asked if described is not None and asked in described.known else None
        entry: dict[str, Any] = {
            "name": result.name,
            "resource": known,
            "characters": result.characters,
            "failed": result.failed,
            "ms": to_ms(result.seconds),
        }
        return entry | ({"arguments": self._redact(result.arguments)} if with_text else {})

    def _describe_text(self, text: ExchangeText, exchange: Exchange) -> dict[str, Any]:
        injection, bearer = exchange.injection, text.bearer
        blocks = (injection.stable, injection.volatile) if injection is not None else ()
        written = {
            "request": text.request.decode("utf-8", "replace"),
            "blocks": "\n\n".join(block for block in blocks if block),
            "answer": read_answer(b"".join(text.pieces)),
        }
        if bearer:
            written = {name: value.replace(bearer, "[redacted]") for name, value in written.items()}
        return {name: self._redact(value) for name, value in written.items()} | {"truncated": text.truncated}


def describe_injection(injection: Injection) -> InjectionDescription:
    selection = injection.selection
    placed = tuple(one.candidate.resource.id for one in (*selection.stable, *selection.volatile))
    offered = [left.candidate.resource.id for left in selection.catalogue]
    described = {
        "selection": {
            "injected": describe_injected(selection),
            "catalogue": offered,
            "dropped": [describe_omission(selection, left) for left in selection.dropped],
        },
        "sources": describe_sources(selection),
        "collectors": describe_collectors(selection),
        "tokens": summarize_tokens(injection),
        "warnings": describe_warnings(selection),
    }
    fields = {name: Raw(encode_json(value)) for name, value in described.items()}
    return InjectionDescription(injection, fields, placed, frozenset((*placed, *offered)))


def summarize(pending: PendingReceipt) -> dict[str, Any]:
    """What lists show, without what depends on usage."""
    exchange, principal = pending.exchange, pending.exchange.principal
    return {
        "at": format_time(read_id_time(exchange.id)),
        "seconds": None if pending.seconds is None else round(pending.seconds, 6),
        "http_status": pending.http_status or None,
        "error": exchange.failure,
        "principal": principal.name,
        "key": principal.key,
        **name_scope(exchange.scope),
        "asked_model": shorten_name(exchange.asked_model),
        "model": shorten_name(exchange.model),
        "upstream": exchange.upstream,
        "dialect": DIALECT,
        "snapshot": exchange.snapshot.hash,
        "injected": exchange.injected,
        "context_tokens": exchange.tokens,
        "turn_count": exchange.turns,
        "tools_run": len(exchange.tools_run),
        "degraded": sorted(exchange.degraded),
    }


def name_scope(scope: Scope | None) -> dict[str, str | None]:
    """The names in a scope that have no column of their own."""
    return {
        "user": shorten_name(scope.request.user) if scope is not None else None,
        "profile": scope.profile.alias if scope is not None and scope.profile is not None else None,
        "prompt": scope.prompt.alias if scope is not None and scope.prompt is not None else None,
        "task": shorten_name(scope.request.task) if scope is not None else None,
    }


def describe_timings(exchange: Exchange, seconds: float | None) -> dict[str, float | None]:
    """Milliseconds that each room took, in the order of the walk."""
    timings: dict[str, float | None] = {}
    last = exchange.began
    for room, at in list(exchange.times.items()):
        timings[f"{room}_ms"] = to_ms(at - last)
        last = at
    first = exchange.replies[0].seconds if exchange.replies else None
    timings["first_byte_ms"] = None if first is None else to_ms(first)
    timings["total_ms"] = None if seconds is None else to_ms(seconds)
    return timings


def find_usage(pending: PendingReceipt) -> dict[str, Any] | None:
    """What all turns used: as the turn loop summed it up, or as the relayed reply says."""
    exchange = pending.exchange
    if exchange.usage is not None:
        return exchange.usage
    if exchange.usages:
        counts = ("prompt_tokens", "completion_tokens", "total_tokens")
        return {name: sum(read_count(used, name) for used in exchange.usages) for name in counts}
    relayed = exchange.usage_event or pending.body
    return read_usage(relayed) if relayed else None


def read_resource_id(arguments: str) -> str | None:
    try:
        asked = msgspec.json.decode(arguments or "{}")
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    found = asked.get("resource_id") if isinstance(asked, dict) else None
    return found if isinstance(found, str) else None


def format_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def shorten_name(name: str | None) -> str | None:
    return name[:MAX_NAME] if name is not None else None


def to_ms(seconds: float) -> float:
    return round(seconds * 1000, 3)


def encode_json(value: Any) -> bytes:
    """JSON; lone surrogates, which have no encoding, become question marks."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _encode(_replace_surrogates(value))


def _replace_surrogates(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case dict():
            return {_replace_surrogates(key): _replace_surrogates(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_replace_surrogates(inner) for inner in value]
        case _:
            return value
