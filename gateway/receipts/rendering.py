"""An exchange becomes a receipt. All of this runs off the request's path."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec

from gateway.domain.agent import Placement
from gateway.domain.exchange import STAGES, Exchange, ExchangeStatus, ToolRun
from gateway.domain.injection import Injection
from gateway.domain.lru import LruCache
from gateway.domain.receipt import STARTED, Receipt, SharedDetails, join_objects
from gateway.ids import read_id_microseconds
from gateway.receipts.documents import (
    ExchangeDetails,
    ExchangeSummary,
    ExchangeText,
    PendingReceipt,
    TurnDescription,
    UsageAccount,
)
from gateway.receipts.items import (
    describe_collectors,
    describe_dropped,
    describe_injected,
    describe_items,
    describe_omitted_tools,
    describe_placed,
    describe_sources,
    describe_warnings,
    name_server,
    summarize_tokens,
)
from gateway.receipts.overlap import OverlapMeter, list_texts
from gateway.receipts.prices import PriceTable, count_tokens, read_count
from gateway.receipts.reported import read_answer, read_usage
from gateway.receipts.scopes import ScopeDescriber, ScopeDescription, shorten_name

KEPT_INJECTIONS = 256  # whose description is not written again for each request of the same scope
KEPT_BYTES = 16_000_000
MAX_BLOCKS = 256 * 1024  # characters of the blocks, and of any other text
MAX_ARGUMENTS = 8 * 1024  # characters of one tool call's arguments
MAX_TOOLS = 100  # runs of tools that are described
MAX_USAGE = 2000  # bytes of what an upstream reports; of more than that, only the usual counts
LONGEST_SECRET = 4096  # characters; none is longer
TIMING_NAMES = tuple(f"{stage}_ms" for stage in STAGES)
QUICK_BYTES = 64 * 1024  # of a reply, which is looked through for its usage

NO_USAGE = UsageAccount(None, 0, None)

_encode = msgspec.json.Encoder().encode


@dataclass(slots=True)
class InjectionDescription:
    """What a receipt says about an injection, encoded once."""

    injection: Injection  # as long as it is kept, no other has its identity
    body: bytes  # a JSON object
    placed: tuple[str, ...]  # ids of the resources
    known: Mapping[str, str | None]  # ids of all resources that the tools can reach too; why they were left out
    shared: SharedDetails | None = None  # once a second receipt has the same


class ReceiptRenderer:
    """Renders receipts; one at a time."""

    def __init__(
        self, prices: PriceTable, redact: Callable[[str], str], placement: Placement = Placement.SYSTEM
    ) -> None:
        self._prices, self._redact = prices, redact
        self._scopes = ScopeDescriber(encode_json, placement)
        self._overlap = OverlapMeter()
        self._descriptions: LruCache[int, InjectionDescription] = LruCache(KEPT_INJECTIONS, KEPT_BYTES)

    def is_quick(self, pending: PendingReceipt) -> bool:
        """Whether rendering takes some microseconds, whatever the exchange was about."""
        if pending.text is not None or len(pending.body) > QUICK_BYTES:
            return False
        injection = pending.exchange.injection
        return injection is None or self._descriptions.get(id(injection)) is not None

    def render(self, pending: PendingReceipt, finished: bool) -> Receipt:
        """The receipt of an exchange that goes on, or of one that is over."""
        exchange = pending.exchange
        scope = self._scopes.describe(exchange)
        described = self._describe(exchange.injection) if exchange.injection is not None else None
        account = self._account(exchange.model, find_usage(pending))
        resources = described.placed if described is not None else ()
        tools: list[dict[str, Any]] = []
        if exchange.tool_runs:
            with_text, runs = pending.text is not None and pending.text.stored, exchange.tool_runs[:MAX_TOOLS]
            tools = [self._describe_tool(one, described, with_text) for one in runs]
            fetched = (one["resource"] for one in tools if one["resource"] is not None)
            resources = tuple(dict.fromkeys((*resources, *fetched)))
        turns = self._describe_turns(exchange, account)
        timings = describe_timings(exchange, pending.seconds)
        details = ExchangeDetails(scope.details, turns, tools, timings)
        if exchange.omitted_tools:
            details.client_tools = describe_omitted_tools(exchange.omitted_tools)
        if exchange.expansions and exchange.injection is not None:
            chosen = exchange.injection.selection
            details.expanded = [describe_placed(chosen, one, at) for at, one in enumerate(exchange.expansions)]
        if pending.text is not None:
            self._add_text(details, pending.text, exchange, finished)
        receipt = Receipt(
            exchange.id,
            exchange.principal.workspace,
            exchange.status.value if finished else STARTED,
            scope.session,
            exchange.agent,
            scope.content,
            resources,
            encode_json(summarize(pending, account, scope)),
            encode_json(details),
        )
        if described is not None:
            receipt.shared = described.shared
            if described.shared is None:
                receipt.details = join_objects(described.body, receipt.details)
        return receipt

    def _describe(self, injection: Injection) -> InjectionDescription:
        described = self._descriptions.get(id(injection))
        if described is None:
            described = describe_injection(injection)
            if not injection.selection.items:  # the caller's own texts: nobody else gets this injection
                texts = len(injection.stable) + 2 * len(injection.volatile)
                self._descriptions.put(id(injection), described, 2 * len(described.body) + texts)
        elif described.shared is None:
            described.shared = SharedDetails(described.body)
        return described

    def _describe_turns(self, exchange: Exchange, whole: UsageAccount) -> list[TurnDescription]:
        """One entry per upstream call that was answered."""
        usages = exchange.usages
        alone = len(exchange.replies) == 1
        turns = []
        for position, reply in enumerate(exchange.replies):
            used = usages[position] if position < len(usages) else None
            account = whole if alone else self._account(exchange.model, used)
            turns.append(
                TurnDescription(
                    reply.upstream, reply.status, to_ms(reply.seconds), account.usage, account.cached, account.cost
                )
            )
        return turns

    def _account(self, model: str | None, usage: Mapping[str, Any] | None) -> UsageAccount:
        if usage is None:
            return NO_USAGE
        tokens, encoded = count_tokens(usage), encode_json(usage)
        if len(encoded) > MAX_USAGE:
            counts = ("prompt_tokens", "completion_tokens", "total_tokens")
            encoded = encode_json({name: read_count(usage, name) for name in counts})
        price = self._prices.find(model) if model is not None else None
        cost = round(price.compute_cost(tokens), 9) if price is not None else None
        return UsageAccount(msgspec.Raw(encoded), tokens.cached, cost)

    def _describe_tool(
        self, result: ToolRun, described: InjectionDescription | None, with_text: bool
    ) -> dict[str, Any]:
        tool = result.resource
        asked = read_resource_id(result.arguments) if tool is None else None  # others may call an argument the same
        # Any other id is text that the model made up.
        known = asked if described is not None and asked in described.known else None
        entry: dict[str, Any] = {
            "name": result.name,
            "resource": known if tool is None else tool.id,
            "server": None if tool is None else name_server(tool),
            "left_out": described.known[known] if described is not None and known is not None else None,
            "characters": result.characters,
            "failed": result.failed,
            "ms": to_ms(result.seconds),
        }
        return entry | ({"arguments": self._redact_whole(result.arguments, MAX_ARGUMENTS)} if with_text else {})

    def _add_text(self, details: ExchangeDetails, text: ExchangeText, exchange: Exchange, finished: bool) -> None:
        if finished and text.sampled and not text.truncated and exchange.status is ExchangeStatus.OK:
            details.overlap = self._measure_overlap(text, exchange, details.tools)
        if text.stored:
            details.text = self._describe_text(text, exchange)

    def _measure_overlap(
        self, text: ExchangeText, exchange: Exchange, tools: Sequence[Mapping[str, Any]]
    ) -> list[dict[str, Any]]:
        """What an exchange that was answered as a whole says about its resources."""
        fetched = frozenset(one["resource"] for one in tools if one["resource"] is not None and not one["failed"])
        answer = read_answer(b"".join(text.pieces))
        return self._overlap.measure(list_texts(exchange, fetched), text.request, answer)

    def _describe_text(self, text: ExchangeText, exchange: Exchange) -> dict[str, Any]:
        injection, bearer = exchange.injection, text.bearer
        written = {
            "request": text.request.decode("utf-8", "replace"),
            "blocks": injection.block if injection is not None else "",
            "answer": read_answer(b"".join(text.pieces)),
        }
        if bearer:
            written = {name: value.replace(bearer, "[redacted]") for name, value in written.items()}
        truncated = text.truncated or len(written["blocks"]) > MAX_BLOCKS + LONGEST_SECRET
        written = {name: self._redact_whole(value, MAX_BLOCKS + LONGEST_SECRET) for name, value in written.items()}
        for name, cut in (("request", text.request_cut), ("answer", text.full)):
            if cut:
                # Where it was cut there may be half a secret, which is no secret to the redactor.
                written[name] = written[name][:-LONGEST_SECRET]
        return {**written, "truncated": truncated}

    def _redact_whole(self, text: str, limit: int) -> str:
        """A text without secrets, cut afterwards: half of one would not be recognised."""
        if len(text) <= limit:
            return self._redact(text)
        return self._redact(text[: limit + LONGEST_SECRET])[:limit]


def describe_injection(injection: Injection) -> InjectionDescription:
    selection = injection.selection
    placed = tuple(one.candidate.resource.id for one in (*selection.stable, *selection.volatile, *selection.tools))
    left_out = {left.candidate.resource.id: left.reason for left in selection.catalogue}
    dropped = {left.candidate.resource.id: left.reason for left in selection.dropped}
    described = {
        "selection": {
            "injected": describe_injected(selection),
            "items": describe_items(selection),
            "catalogue": list(left_out),
            "dropped": describe_dropped(selection),
            "over_budget": [id for id, reason in (left_out | dropped).items() if reason == "over_budget"],
        },
        "sources": describe_sources(selection),
        "collectors": describe_collectors(selection),
        "tokens": summarize_tokens(injection),
        "warnings": describe_warnings(selection.warnings),
    }
    body = encode_json(described)
    return InjectionDescription(injection, body, tuple(dict.fromkeys(placed)), dict.fromkeys(placed) | left_out)


def summarize(pending: PendingReceipt, account: UsageAccount, scope: ScopeDescription) -> ExchangeSummary:
    exchange = pending.exchange
    principal = exchange.principal
    return ExchangeSummary(
        format_id_time(exchange.id),
        None if pending.seconds is None else round(pending.seconds, 6),
        pending.http_status or None,
        exchange.failure,
        principal.name,
        principal.key,
        scope.user,
        scope.profile,
        scope.prompt,
        scope.task,
        exchange.suggested,
        shorten_name(exchange.asked_model),
        shorten_name(exchange.model),
        exchange.upstream,
        exchange.dialect,
        exchange.snapshot.hash,
        scope.placement,
        exchange.injected,
        exchange.tokens,
        exchange.turns,
        len(exchange.tools_run),
        sorted(exchange.degraded) if exchange.degraded else [],
        account.usage,
        account.cached,
        account.cost,
    )


def describe_timings(exchange: Exchange, seconds: float | None) -> dict[str, float | None]:
    """Milliseconds that each stage took, in the order of the walk."""
    timings: dict[str, float | None] = {}
    last = exchange.began
    for name, at in zip(TIMING_NAMES, exchange.times, strict=False):  # a request that goes on has fewer
        timings[name] = int((at - last) * 1e6 + 0.5) / 1000
        last = at
    timings["first_byte_ms"] = to_ms(exchange.replies[0].seconds) if exchange.replies else None
    timings["total_ms"] = None if seconds is None else to_ms(seconds)
    return timings


# What a usage object counts, in the words of chat completions and of responses.
COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens", "input_tokens", "output_tokens")


def find_usage(pending: PendingReceipt) -> dict[str, Any] | None:
    """What all turns used: as the turn loop summed it up, or as the relayed reply says."""
    exchange = pending.exchange
    if exchange.usage is not None:
        return exchange.usage
    if exchange.usages:
        sums = {name: sum(read_count(used, name) for used in exchange.usages) for name in COUNTS}
        return {name: count for name, count in sums.items() if count or name in exchange.usages[0]}
    relayed = exchange.usage_event or pending.body
    return read_usage(relayed) if relayed else None


def read_resource_id(arguments: str) -> str | None:
    try:
        asked = msgspec.json.decode(arguments or "{}")
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    found = asked.get("resource_id") if isinstance(asked, dict) else None
    return found if isinstance(found, str) else None


def format_id_time(id: str) -> str:
    """When an id was made."""
    milliseconds = read_id_microseconds(id) // 1000
    return f"{format_second(milliseconds // 1000)}.{milliseconds % 1000:03}Z"


@lru_cache(maxsize=16)
def format_second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def to_ms(seconds: float) -> float:
    """Milliseconds with three digits; `round` would take twice as long."""
    return int(seconds * 1e6 + 0.5) / 1000


def encode_json(value: Any) -> bytes:
    """JSON; lone surrogates, which have no encoding, become question marks."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _encode(_replace_surrogates(msgspec.to_builtins(value, enc_hook=msgspec.json.decode)))  # of what is Raw


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
