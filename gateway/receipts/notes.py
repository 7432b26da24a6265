"""Receipts of which only what differs from others is noted; most are, so each has few steps here."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from gateway.domain.exchange import STAGES, Exchange, ExchangeStatus
from gateway.domain.price import ModelPrice
from gateway.domain.receipt_note import NULL, NotedStart, NoteTemplate, ReceiptNote, StartNote
from gateway.receipts.documents import PendingReceipt
from gateway.receipts.prices import NO_TOKENS, PriceTable, count_tokens, read_count
from gateway.receipts.reported import read_usage
from gateway.receipts.templates import TemplateKey, make_key
from gateway.receipts.usage import COUNTS, SHORT_USAGE, is_shown

QUICK_BYTES = 64 * 1024  # of a reply, which is looked through for its usage
STAGE_COUNT = len(STAGES)
OK = ExchangeStatus.OK

_encode = msgspec.json.Encoder().encode


class CommonPart(NamedTuple):
    """What exchanges with the same key have in common."""

    template: NoteTemplate | None  # None: they have to be rendered
    price: ModelPrice | None
    notes: list[ReceiptNote]  # of those that are over


class NoteTaker:
    """Notes some receipts while nothing else happens: what they have in common is looked up once.

    Keys have identities of objects in them, which others may get as soon as exchanges go on or are forgotten.
    """

    def __init__(
        self, find_template: Callable[[TemplateKey, Exchange], NoteTemplate | None], prices: PriceTable
    ) -> None:
        self._find_template, self._prices = find_template, prices
        self._known: dict[TemplateKey, CommonPart] = {}

    @property
    def noted(self) -> Iterator[tuple[NoteTemplate, list[ReceiptNote]]]:
        """What was noted of exchanges that are over."""
        return ((one.template, one.notes) for one in self._known.values() if one.template is not None and one.notes)

    def note(self, pending: PendingReceipt) -> bool:
        """Note what differs of an exchange that is over; False: its receipt has to be rendered.

        Most are like others of their template and were answered by one call. Nothing of them may be stored yet but a
        note that they have started.
        """
        exchange = pending.exchange
        replies, usage = exchange.replies, exchange.usage
        if pending.single or len(replies) != 1 or exchange.status is not OK:
            return False
        if exchange.tool_runs or exchange.omitted_tools or exchange.expansions:
            return False
        key = make_key(exchange)
        template, price, notes = self._known.get(key) or self._look_up(key, exchange)
        reply = replies[0]
        if template is None or reply.upstream != exchange.upstream:
            return False
        if usage is None:
            if len(pending.body) > QUICK_BYTES:
                return False
            usage = find_usage(pending)
        if usage is None:
            encoded, tokens = NULL, NO_TOKENS
        else:
            encoded, tokens = _encode(usage), count_tokens(usage)
            if len(encoded) > SHORT_USAGE and not is_shown(encoded):
                return False
        cost = None if price is None or usage is None else round(price.compute_cost(tokens), 9)
        notes.append(
            ReceiptNote(
                exchange.id,
                exchange.seconds,
                exchange.http_status,
                encoded,
                tokens,
                cost,
                reply.status,
                reply.seconds,
                exchange.began,
                exchange.times,
            )
        )
        return True

    def note_start(self, pending: PendingReceipt) -> NotedStart | None:
        """What differs of an exchange that waits for its upstream; None: its receipt has to be rendered."""
        exchange, times = pending.exchange, pending.exchange.times
        if exchange.replies or pending.single or exchange.usage is not None or exchange.usages:
            return None
        if exchange.tool_runs or exchange.omitted_tools or exchange.expansions or len(times) != STAGE_COUNT:
            return None
        key = make_key(exchange)
        template = (self._known.get(key) or self._look_up(key, exchange)).template
        return None if template is None else NotedStart(template, StartNote(exchange.id, exchange.began, times))

    def _look_up(self, key: TemplateKey, exchange: Exchange) -> CommonPart:
        price = self._prices.find(exchange.model) if exchange.model is not None else None
        common = self._known[key] = CommonPart(self._find_template(key, exchange), price, [])
        return common


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
