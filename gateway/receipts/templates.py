"""The JSON of a receipt, joined from what many receipts have in common, encoded once, and from its own figures."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from gateway.domain.exchange import Exchange
from gateway.domain.receipt import SharedDetails, join_objects
from gateway.domain.receipt_note import DETAILS, NULL, NoteTemplate, render_summary, render_times, render_turn
from gateway.receipts.documents import InjectionDescription, PendingReceipt, SummaryConstants, UsageAccount
from gateway.receipts.scopes import ScopeDescription, shorten_name

_encode = msgspec.json.Encoder().encode


class ReceiptTemplate(msgspec.Struct):
    """What receipts have in common whose exchanges differ in nothing but their figures."""

    scope: ScopeDescription
    described: InjectionDescription | None
    summary: bytes  # a JSON object: what lists show besides figures
    kept: bool  # for others of the same
    shared: SharedDetails | None = None  # once a second receipt has the same
    noted: NoteTemplate | None = None  # once only what differs is noted


TemplateKey = tuple[object, ...]


def make_key(exchange: Exchange) -> TemplateKey:
    """What exchanges with the same template have in common; objects count by identity, and the template keeps them.

    How much was injected is said by the injection.
    """
    return (
        id(exchange.scope),
        id(exchange.injection),
        id(exchange.principal),
        exchange.snapshot.hash,
        exchange.model,
        exchange.asked_model,
        exchange.upstream,
        exchange.dialect,
        exchange.turns,
        exchange.failure,
        exchange.suggested,
        len(exchange.tools_run) if exchange.tools_run else 0,
        tuple(exchange.degraded) if exchange.degraded else None,
    )


def list_constants(exchange: Exchange, scope: ScopeDescription) -> SummaryConstants:
    """What lists show of an exchange besides its figures."""
    principal = exchange.principal
    return SummaryConstants(
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
        sorted(exchange.degraded),
    )


def render_own_summary(pending: PendingReceipt, account: UsageAccount) -> bytes:
    """The figures that lists show."""
    id, status = pending.exchange.id, pending.http_status
    return render_summary(id, pending.seconds, status, account.usage, account.cached, account.cost)


def render_details(
    template: ReceiptTemplate, pending: PendingReceipt, turns: Sequence[UsageAccount], tools: bytes
) -> bytes:
    """What a receipt says besides its summary and its injection; `turns`: what the upstream calls used."""
    exchange = pending.exchange
    replies = exchange.replies
    told = [
        render_turn(encode_json(one.upstream), one.status, one.seconds, used.usage, used.cached, used.cost)
        for one, used in zip(replies, turns, strict=True)
    ]
    return DETAILS % (
        template.scope.details,
        b",".join(told),
        tools,
        render_times(exchange.began, exchange.times),
        b"%.3f" % (replies[0].seconds * 1000) if replies else NULL,
        NULL if pending.seconds is None else b"%.3f" % (pending.seconds * 1000),
    )


def add_fields(details: bytes, more: Mapping[str, Any]) -> bytes:
    """Details with further fields, if there are any."""
    return join_objects(details, encode_json(more)) if more else details


def encode_json(value: Any) -> bytes:
    """JSON; lone surrogates, which have no encoding, become question marks."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _encode(_replace_surrogates(msgspec.to_builtins(value)))


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
