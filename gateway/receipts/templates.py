"""The JSON of a receipt, joined from what many receipts have in common, encoded once, and from its own figures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec

from gateway.domain.exchange import STAGES, Exchange
from gateway.domain.receipt import SharedDetails, join_objects
from gateway.ids import read_id_microseconds
from gateway.receipts.documents import InjectionDescription, PendingReceipt, SummaryConstants, UsageAccount
from gateway.receipts.scopes import ScopeDescription, shorten_name

SUMMARY = b'{"at":"%b.%03dZ","seconds":%b,"http_status":%b,"usage":%b,"cached_tokens":%d,"cost":%b}'
TURN = b'{"upstream":%b,"status":%d,"first_byte_ms":%.3f,"usage":%b,"cached_tokens":%d,"cost":%b}'
DETAILS = b'{"scope":%b,"turns":[%b],"tools":%b,"timings":{%b"first_byte_ms":%b,"total_ms":%b}}'
STAGE_TIMES = [b'"%b_ms":%%.3f,' % name.encode() for name in STAGES]
ALL_STAGES = b"".join(STAGE_TIMES)
NULL, NOTHING = b"null", b"[]"

_encode = msgspec.json.Encoder().encode


@dataclass(slots=True)
class ReceiptTemplate:
    """What receipts have in common whose exchanges differ in nothing but their figures."""

    scope: ScopeDescription
    described: InjectionDescription | None
    summary: bytes  # a JSON object: what lists show besides figures
    kept: bool  # for others of the same
    shared: SharedDetails | None = None  # once a second receipt has the same


def make_key(exchange: Exchange) -> tuple[object, ...]:
    """What exchanges with the same template have in common; objects count by identity, and the template keeps them."""
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
        exchange.injected,
        exchange.tokens,
        exchange.failure,
        exchange.suggested,
        len(exchange.tools_run),
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


def render_summary(pending: PendingReceipt, account: UsageAccount) -> bytes:
    """The figures that lists show."""
    second, rest = divmod(read_id_microseconds(pending.exchange.id), 1_000_000)
    seconds, status = pending.seconds, pending.http_status
    return SUMMARY % (
        format_second(second),
        rest // 1000,
        NULL if seconds is None else _encode(round(seconds, 6)),
        b"%d" % status if status else NULL,
        account.usage,
        account.cached,
        NULL if account.cost is None else _encode(account.cost),
    )


def render_details(
    template: ReceiptTemplate, pending: PendingReceipt, turns: Sequence[UsageAccount], tools: bytes
) -> bytes:
    """What a receipt says besides its summary and its injection; `turns`: what the upstream calls used."""
    replies = pending.exchange.replies
    return DETAILS % (
        template.scope.details,
        b",".join(
            [
                TURN
                % (
                    encode_json(reply.upstream),
                    reply.status,
                    reply.seconds * 1000,
                    used.usage,
                    used.cached,
                    NULL if used.cost is None else _encode(used.cost),
                )
                for reply, used in zip(replies, turns, strict=True)
            ]
        ),
        tools,
        render_times(pending.exchange),
        b"%.3f" % (replies[0].seconds * 1000) if replies else NULL,
        NULL if pending.seconds is None else b"%.3f" % (pending.seconds * 1000),
    )


def render_times(exchange: Exchange) -> bytes:
    """Milliseconds that each stage took, in the order of the walk; a request that goes on has fewer."""
    times = exchange.times
    if len(times) == len(STAGES):
        decoded, scoped, built, composed = times
        return ALL_STAGES % (
            (decoded - exchange.began) * 1000,
            (scoped - decoded) * 1000,
            (built - scoped) * 1000,
            (composed - built) * 1000,
        )
    spent = zip(STAGE_TIMES, [exchange.began, *times], times, strict=False)
    return b"".join(name % ((end - begin) * 1000) for name, begin, end in spent)


def add_fields(details: bytes, more: Mapping[str, Any]) -> bytes:
    """Details with further fields, if there are any."""
    return join_objects(details, encode_json(more)) if more else details


@lru_cache(maxsize=16)
def format_second(second: int) -> bytes:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S").encode()


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
