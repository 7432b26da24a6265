"""Sheets: what a batch of receipts adds to the figures, small enough to be stored with the batch.

A store that takes them (SQLite) writes receipts and sheet in one transaction, so that a receipt is counted if and only
if it is stored. Sheets are added up later; no receipt has to be read again for that.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import groupby
from typing import Self, TypeVar

import msgspec

from gateway.analytics.facts import FactReader, ReceiptFacts, SummaryFacts
from gateway.analytics.tallies import (
    HOUR,
    ExchangeUse,
    FindPrice,
    GroupKey,
    NameRows,
    NameUse,
    ReceiptGroup,
    add_fetches,
    add_overlap,
    add_selection,
    limit_tokens,
    make_tally,
    price_token,
)
from gateway.domain.price import ModelPrice
from gateway.domain.receipt import Receipt, ReceiptFigures
from gateway.domain.receipt_note import NotedReceipt, NoteTemplate, ReceiptBatch, ReceiptNote
from gateway.domain.statistics import (
    AGENT_RESOURCES,
    EXCHANGES,
    RESOURCES,
    SEPARATOR,
    Bucket,
    Span,
    Tallies,
    Tally,
    add_tally,
)
from gateway.ids import read_id_microseconds, read_id_time
from gateway.receipts.prices import count_tokens

SLICE = 32  # receipts that are added up before the loop goes on

log = logging.getLogger(__name__)

Use = TypeVar("Use", NameUse, ExchangeUse)


class SheetRows(msgspec.Struct):
    """What receipts add up to, before it is spread over hours, days, agents and all time."""

    names: dict[NameUse, Tally] = msgspec.field(default_factory=dict)
    exchanges: dict[ExchangeUse, Tally] = msgspec.field(default_factory=dict)

    def merge(self, other: Self) -> None:
        """Add what another sheet says; it is not used afterwards."""
        for name, tally in other.names.items():
            add_row(self.names, RESOURCES.name, name, tally)
        for use, tally in other.exchanges.items():
            add_row(self.exchanges, EXCHANGES.name, use, tally)

    def spread(self) -> Tallies:
        """Everything that was counted, by row of the figures."""
        spread = TallySpread()
        for name, tally in self.names.items():
            for span in (Span.HOUR, Span.DAY, Span.EVER):
                spread.add(Bucket(name.workspace, RESOURCES.name, span, span.find_start(name.hour)), name.name, tally)
            if name.agent:
                day = Bucket(name.workspace, AGENT_RESOURCES.name, Span.DAY, Span.DAY.find_start(name.hour))
                spread.add(day, f"{name.agent}{SEPARATOR}{name.name}", Tally(tally.counters, []))
        for one, tally in self.exchanges.items():
            for span in (Span.HOUR, Span.DAY):
                spread.add(Bucket(one.workspace, EXCHANGES.name, span, span.find_start(one.hour)), one.key, tally)
        return spread.rows


class StoredSheet(msgspec.Struct, array_like=True):
    """Rows of a sheet as they are stored."""

    names: list[tuple[NameUse, Tally]]
    exchanges: list[tuple[ExchangeUse, Tally]]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(StoredSheet).decode


class TallySpread:
    """Tallies of rows."""

    def __init__(self) -> None:
        self.rows: dict[Bucket, dict[str, Tally]] = {}

    def add(self, bucket: Bucket, key: str, tally: Tally) -> None:
        rows = self.rows.setdefault(bucket, {})
        known = rows.get(key)
        if known is None:
            # Only days have sketches, so that other rows need no copy.
            sketches = [set(one) for one in tally.sketches] if bucket.span == Span.DAY else []
            rows[key] = Tally(list(tally.counters), sketches, tally.established)
        else:
            add_tally(bucket.series, known, tally)


class AlikeReceipts(msgspec.Struct):
    """Receipts that differ in their figures only: of the first one, the facts were read."""

    group: ReceiptGroup
    summary: SummaryFacts
    price: ModelPrice | None

    def add_notes(self, notes: Sequence[ReceiptNote]) -> None:
        """Count noted receipts, oldest first."""
        self.group.add_notes(self.summary, notes, self.price)
        self.group.last = max(self.group.last, read_id_time(notes[-1].id))

    def add(self, figures: ReceiptFigures, at: float) -> None:
        tokens = limit_tokens(figures.tokens)
        dollars = price_token(self.price, self.summary.turn_count, tokens) if self.price is not None else 0.0
        self.group.add(self.summary, figures, tokens, dollars)
        if at > self.group.last:
            self.group.last = at


class TallySheet:
    """The tallies of a batch of receipts."""

    def __init__(self, find_price: FindPrice, reader: FactReader) -> None:
        self._find_price, self._reader = cache(find_price), reader
        self._names: defaultdict[NameUse, Tally] = defaultdict(lambda: make_tally(RESOURCES))
        self._groups: dict[GroupKey, ReceiptGroup] = {}
        self._alike: dict[tuple[int, str, int], AlikeReceipts] = {}  # by identity, status and hour

    def add(self, receipt: Receipt) -> None:
        """Count a receipt."""
        figures, at = receipt.figures, read_id_time(receipt.id)
        hour = int(at)
        hour -= hour % HOUR
        if figures is None:
            facts = self._reader.read(receipt)
            self._add_facts(facts, hour)
            return
        key = (id(figures.alike), receipt.status, hour)
        alike = self._alike.get(key)
        if alike is None:
            facts = self._reader.read(receipt)
            alike = self._alike[key] = self._find_alike(facts, hour)
        alike.add(figures, at)

    def add_noted(self, template: NoteTemplate, notes: Sequence[ReceiptNote]) -> None:
        """Count receipts of one template that were only noted, oldest first, all of one hour together."""
        facts = self._reader.read_noted(NotedReceipt(template, notes[0]))
        for hour, some in split_by_hour(notes):
            self._find_alike(facts, hour).add_notes(some)

    def finish(self) -> SheetRows:
        """Everything that was counted."""
        for key, group in self._groups.items():
            add_selection(NameRows(self._names, key.workspace, key.hour, key.agent), key.contexts, group)
        return SheetRows(dict(self._names), self._add_up_exchanges())

    def _add_facts(self, facts: ReceiptFacts, hour: int) -> None:
        summary = facts.summary
        figures = ReceiptFigures(
            None, summary.seconds, count_tokens(summary.usage), summary.cost, summary.usage is not None
        )
        alike = self._find_alike(facts, hour)
        alike.add(figures, facts.at)
        if facts.fetched or facts.overlap:
            alike.group.add_evidence(facts)
            rows = NameRows(self._names, facts.receipt.workspace, hour, facts.receipt.agent or "")
            add_fetches(rows, facts)
            add_overlap(rows, facts)

    def _find_alike(self, facts: ReceiptFacts, hour: int) -> AlikeReceipts:
        receipt, summary, selection = facts.receipt, facts.summary, facts.selection
        what = (receipt.status, summary.model, summary.placement, summary.degraded, id(selection), facts.contexts)
        key = GroupKey(receipt.workspace, hour, receipt.agent or "", *what)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = ReceiptGroup(selection)
        if facts.session is not None:
            group.sessions.add(facts.session)
        return AlikeReceipts(group, summary, self._find_price(summary.model) if summary.model is not None else None)

    def _add_up_exchanges(self) -> dict[ExchangeUse, Tally]:
        """Groups become rows; a row is established by one exchange that was answered."""
        tallies: dict[ExchangeUse, Tally] = {}
        for key, group in self._groups.items():
            model = (key.model or "").replace(SEPARATOR, " ")  # the client's own word
            use = ExchangeUse(key.workspace, key.hour, SEPARATOR.join((key.agent, model, key.placement or "")))
            tally = Tally(group.list_values(key), [set(group.sessions)], established=key.status == "ok")
            add_row(tallies, EXCHANGES.name, use, tally)
        return tallies


def split_by_hour(notes: Sequence[ReceiptNote]) -> Iterable[tuple[int, Sequence[ReceiptNote]]]:
    """Notes in their order, with the hours that they belong to; nearly always it is one."""
    first, last = read_hour(notes[0]), read_hour(notes[-1])
    return [(first, notes)] if first == last else ((hour, list(some)) for hour, some in groupby(notes, read_hour))


def read_hour(note: ReceiptNote) -> int:
    """When the hour began in which the exchange began."""
    second = read_id_microseconds(note.id) // 1_000_000
    return second - second % HOUR


class SheetMaker:
    """Makes the sheets of batches, for a store that takes them."""

    def __init__(self, find_price: FindPrice) -> None:
        self._find_price, self._reader = find_price, FactReader()

    async def tally(self, receipts: ReceiptBatch) -> bytes | None:
        """The sheet of finished receipts; None: each of them has to be looked at later."""
        sheet = TallySheet(self._find_price, self._reader)
        try:
            for template, notes in receipts.noted.items():
                sheet.add_noted(template, notes)
            others = receipts.finished
            for start in range(0, len(others), SLICE):
                if start:
                    await asyncio.sleep(0)
                for receipt in others[start : start + SLICE]:
                    sheet.add(receipt)
            return encode_sheet(sheet.finish())
        except Exception:  # what cannot be counted is found one by one by whoever counts later
            log.exception("receipts cannot be added up as a batch")
            return None


def encode_sheet(rows: SheetRows) -> bytes:
    """A sheet as it is stored; raises if a name or a number has no encoding."""
    return _encode(StoredSheet(list(rows.names.items()), list(rows.exchanges.items())))


def read_sheets(sheets: Iterable[bytes]) -> SheetRows:
    """Stored sheets, added up."""
    rows = SheetRows()
    for body in sheets:
        try:
            stored = _decode(body)
        except (msgspec.MsgspecError, UnicodeError) as error:
            log.error("a sheet of receipts is not counted: %r", error)
            continue
        rows.merge(SheetRows(dict(stored.names), dict(stored.exchanges)))
    return rows


def add_row(rows: dict[Use, Tally], series: str, use: Use, tally: Tally) -> None:
    known = rows.get(use)
    if known is None:
        rows[use] = tally
    else:
        add_tally(series, known, tally)
