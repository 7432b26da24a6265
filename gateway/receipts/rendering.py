"""An exchange becomes a receipt. All of this runs off the request's path."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from gateway.domain.agent import Placement
from gateway.domain.exchange import Exchange, ExchangeStatus, ToolRun
from gateway.domain.injection import Injection
from gateway.domain.lru import LruCache
from gateway.domain.receipt import STARTED, Receipt, ReceiptFigures, SharedDetails, join_objects
from gateway.domain.receipt_note import NOTHING, NULL, NoteTemplate
from gateway.receipts.documents import ExchangeText, InjectionDescription, PendingReceipt, UsageAccount
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
from gateway.receipts.notes import QUICK_BYTES, NoteTaker, find_usage
from gateway.receipts.overlap import OverlapMeter, list_texts
from gateway.receipts.prices import NO_TOKENS, PriceTable, count_tokens
from gateway.receipts.reported import read_answer
from gateway.receipts.scopes import ScopeDescriber
from gateway.receipts.templates import (
    ReceiptTemplate,
    TemplateKey,
    add_fields,
    encode_json,
    list_constants,
    make_key,
    render_details,
    render_own_summary,
)
from gateway.receipts.usage import encode_usage, select_counts

KEPT_INJECTIONS = 256  # whose description is not written again for each request of the same scope
KEPT_TEMPLATES = 512
KEPT_BYTES = 16_000_000  # of injections; of templates half of it
MAX_BLOCKS = 256 * 1024  # characters of the blocks, and of any other text
MAX_ARGUMENTS = 8 * 1024  # characters of one tool call's arguments
MAX_TOOLS = 100  # runs of tools that are described
LONGEST_SECRET = 4096  # characters; none is longer

NO_USAGE = UsageAccount(NULL, 0, None, None)


class ReceiptRenderer:
    """Renders receipts; one at a time."""

    def __init__(
        self, prices: PriceTable, redact: Callable[[str], str], placement: Placement = Placement.SYSTEM
    ) -> None:
        self._prices, self._redact = prices, redact
        self._scopes = ScopeDescriber(encode_json, placement)
        self._overlap = OverlapMeter()
        self._descriptions: LruCache[int, InjectionDescription] = LruCache(KEPT_INJECTIONS, KEPT_BYTES)
        self._templates: LruCache[TemplateKey, ReceiptTemplate] = LruCache(KEPT_TEMPLATES, KEPT_BYTES // 2)

    def is_quick(self, pending: PendingReceipt) -> bool:
        """Whether rendering takes some microseconds, whatever the exchange was about."""
        if pending.text is not None or len(pending.body) > QUICK_BYTES:
            return False
        injection = pending.exchange.injection
        return injection is None or self._descriptions.get(id(injection)) is not None

    def take_notes(self) -> NoteTaker:
        """Notes what needs no rendering; to be used at once."""
        return NoteTaker(self._find_note_template, self._prices)

    def _find_note_template(self, key: TemplateKey, exchange: Exchange) -> NoteTemplate | None:
        template = self._templates.get(key)
        if template is None or template.shared is None:
            return None
        if template.noted is None:
            template.noted = self._make_note_template(exchange, template, template.shared)
        return template.noted

    def _make_note_template(self, exchange: Exchange, template: ReceiptTemplate, shared: SharedDetails) -> NoteTemplate:
        placed, scope = template.described.placed if template.described is not None else (), template.scope
        names = (exchange.principal.workspace, exchange.agent, scope.content, placed)
        return NoteTemplate(*names, shared, scope.details, encode_json(exchange.upstream))

    def render(self, pending: PendingReceipt, finished: bool) -> Receipt:
        """The receipt of an exchange that goes on, or of one that is over."""
        exchange, text = pending.exchange, pending.text
        template = self._find_template(exchange)
        described, scope = template.described, template.scope
        account = self._account(exchange.model, find_usage(pending))
        tools: list[dict[str, Any]] = []
        resources = described.placed if described is not None else ()
        if exchange.tool_runs:
            tools = self._describe_tools(exchange, described, with_text=text is not None and text.stored)
            fetched = (one["resource"] for one in tools if one["resource"] is not None)
            resources = tuple(dict.fromkeys((*resources, *fetched)))
        turns = (account,) if len(exchange.replies) == 1 else self._account_turns(exchange)
        details = render_details(template, pending, turns, encode_json(tools) if tools else NOTHING)
        if exchange.omitted_tools or exchange.expansions or text is not None:
            details = add_fields(details, self._list_more(pending, tools, finished))
        receipt = Receipt(
            exchange.id,
            exchange.principal.workspace,
            exchange.status.value if finished else STARTED,
            scope.session,
            exchange.agent,
            scope.content,
            resources,
            render_own_summary(pending, account),
            details,
            template.shared,
        )
        if template.shared is None:
            receipt.summary = join_objects(receipt.summary, template.summary)
            if described is not None:
                receipt.shared = described.shared
                if described.shared is None:
                    receipt.details = join_objects(described.body, details)
        if finished and template.kept and text is None and not tools:
            tokens, used = account.tokens or NO_TOKENS, account.tokens is not None
            receipt.figures = ReceiptFigures(template, pending.seconds, tokens, account.cost, used)
        return receipt

    def _find_template(self, exchange: Exchange) -> ReceiptTemplate:
        key = make_key(exchange)
        template = self._templates.get(key)
        if template is None:
            scope = self._scopes.describe(exchange)
            described = self._describe(exchange.injection) if exchange.injection is not None else None
            summary = encode_json(list_constants(exchange, scope))
            kept = scope.shared and described is not None and not described.injection.selection.items
            template = ReceiptTemplate(scope, described, summary, kept)
            if kept and described is not None:
                self._templates.put(key, template, 2 * len(summary) + scope.size + described.size)
        elif template.shared is None and template.described is not None:
            template.shared = SharedDetails(template.described.body, template.summary)
        return template

    def _describe(self, injection: Injection) -> InjectionDescription:
        described = self._descriptions.get(id(injection))
        if described is None:
            described = describe_injection(injection)
            if not injection.selection.items:  # the caller's own texts: nobody else gets this injection
                self._descriptions.put(id(injection), described, described.size)
        elif described.shared is None:
            described.shared = SharedDetails(described.body)
        return described

    def _account(self, model: str | None, usage: Mapping[str, Any] | None) -> UsageAccount:
        if usage is None:
            return NO_USAGE
        tokens = stored = count_tokens(usage)
        encoded = encode_usage(usage)
        if encoded is None:
            counts = select_counts(usage)
            encoded, stored = encode_json(counts), count_tokens(counts)
        price = self._prices.find(model) if model is not None else None
        cost = round(price.compute_cost(tokens), 9) if price is not None else None
        return UsageAccount(encoded, tokens.cached, cost, stored)

    def _account_turns(self, exchange: Exchange) -> list[UsageAccount]:
        """What each upstream call that was answered used; those that reported nothing come last."""
        count = len(exchange.replies)
        used = [self._account(exchange.model, one) for one in exchange.usages[:count]]
        return used + [NO_USAGE] * (count - len(used))

    def _list_more(self, pending: PendingReceipt, tools: Sequence[Mapping[str, Any]], finished: bool) -> dict[str, Any]:
        """Fields that only some receipts have."""
        exchange, text, more = pending.exchange, pending.text, dict[str, Any]()
        if exchange.omitted_tools:
            more["client_tools"] = describe_omitted_tools(exchange.omitted_tools)
        if exchange.expansions and exchange.injection is not None:
            chosen = exchange.injection.selection
            more["expanded"] = [describe_placed(chosen, one, at) for at, one in enumerate(exchange.expansions)]
        if text is not None:
            if finished and text.sampled and not text.truncated and exchange.status is ExchangeStatus.OK:
                more["overlap"] = self._measure_overlap(text, exchange, tools)
            if text.stored:
                more["text"] = self._describe_text(text, exchange)
        return more

    def _describe_tools(
        self, exchange: Exchange, described: InjectionDescription | None, *, with_text: bool
    ) -> list[dict[str, Any]]:
        return [self._describe_tool(one, described, with_text) for one in exchange.tool_runs[:MAX_TOOLS]]

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


def read_resource_id(arguments: str) -> str | None:
    try:
        asked = msgspec.json.decode(arguments or "{}")
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    found = asked.get("resource_id") if isinstance(asked, dict) else None
    return found if isinstance(found, str) else None


def to_ms(seconds: float) -> float:
    """Milliseconds with three digits; `round` would take twice as long."""
    return int(seconds * 1e6 + 0.5) / 1000
