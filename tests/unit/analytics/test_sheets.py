"""Sheets: receipts are counted with the batch that they were written in, once, whatever was written before."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from gateway.analytics.counting import StatisticsCounter
from gateway.analytics.facts import FactReader
from gateway.analytics.reports import ExchangeFilter, Period, Reports
from gateway.analytics.sheets import SheetMaker, TallySheet, encode_sheet, read_sheets
from gateway.domain.exchange import Exchange, TurnReply
from gateway.domain.memory_budget import MemoryBudget
from gateway.domain.price import ModelPrice
from gateway.domain.principal import ANONYMOUS
from gateway.domain.receipt import STARTED, Receipt, SharedDetails
from gateway.domain.receipt_note import NotedReceipt, ReceiptBatch
from gateway.domain.scope import ContextRequest, Scope
from gateway.domain.snapshot import Snapshot
from gateway.domain.statistics import Span
from gateway.ids import encode_id_time, make_id
from gateway.receipts.documents import PendingReceipt
from gateway.receipts.prices import PriceTable
from gateway.receipts.rendering import ReceiptRenderer
from gateway.settings import AnalyticsSettings
from gateway.stores.sqlite_migrations import RECEIPT_MIGRATIONS, migrate
from gateway.stores.sqlite_receipts import SqliteReceiptStore
from gateway.stores.sqlite_statistics import SqliteStatisticsStore
from tests.support.built_injections import build, make_builder

DAY = 20_000 * 86_400
PRICES = PriceTable({"m": ModelPrice(input=2.0, output=8.0, cached_input=1.0)})


def make(number: int, status: str = "ok") -> Receipt:
    return Receipt(f"{encode_id_time(DAY + number)}{number:012x}", "default", status, summary=b'{"model":"m"}')


@pytest.fixture
async def receipts(tmp_path: Path) -> AsyncIterator[SqliteReceiptStore]:
    store = await SqliteReceiptStore.open(tmp_path / "receipts.db")
    store.tally = SheetMaker(PRICES.find).tally
    yield store
    await store.close()


@pytest.fixture
async def figures(tmp_path: Path, receipts: SqliteReceiptStore) -> AsyncIterator[SqliteStatisticsStore]:
    store = await SqliteStatisticsStore.open(tmp_path / "receipts.db")
    yield store
    await store.close()


async def count_requests(figures: SqliteStatisticsStore) -> dict[str, int]:
    await StatisticsCounter(figures, AnalyticsSettings(), PRICES.find).count()
    report = await Reports(figures).summarize("default", Period(Span.DAY, DAY, DAY + 86_400), ExchangeFilter())
    found = {"requests": report["totals"]["requests"], **report["totals"]["statuses"]}
    return {name: count for name, count in found.items() if count}


async def test_a_batch_is_counted_without_its_receipts(
    receipts: SqliteReceiptStore, figures: SqliteStatisticsStore
) -> None:
    await receipts.write(ReceiptBatch([make(1), make(2, "error"), make(3, STARTED)]), "boot")
    waiting = await figures.read_uncounted(10)
    assert (waiting.receipts, waiting.marks, len(waiting.sheets)) == ([], [], 1)
    assert await count_requests(figures) == {"requests": 2, "ok": 1, "error": 1}
    await receipts.write(ReceiptBatch([make(3)]), "boot")
    assert await count_requests(figures) == {"requests": 3, "ok": 2, "error": 1}
    assert not await figures.read_uncounted(10)


async def test_what_is_written_again_is_not_counted_again(
    receipts: SqliteReceiptStore, figures: SqliteStatisticsStore
) -> None:
    await receipts.write(ReceiptBatch([make(1), make(2)]), "boot")
    await receipts.write(ReceiptBatch([make(1), make(2), make(3)]), "boot")  # the answer to the first came too late
    assert len((await figures.read_uncounted(10)).marks) == 1
    assert await count_requests(figures) == {"requests": 3, "ok": 3}
    await receipts.write(ReceiptBatch([make(1), make(2), make(3)]), "boot")
    assert await count_requests(figures) == {"requests": 3, "ok": 3}


async def test_what_was_swept_too_early_stays_counted_as_aborted(
    receipts: SqliteReceiptStore, figures: SqliteStatisticsStore
) -> None:
    await receipts.write(ReceiptBatch([make(1, STARTED)]), "slow")
    assert await receipts.sweep() == 1
    assert await count_requests(figures) == {"requests": 1, "aborted": 1}
    await receipts.write(ReceiptBatch([make(1), make(2)]), "slow")
    assert await count_requests(figures) == {"requests": 2, "aborted": 1, "ok": 1}
    found = await receipts.find("default", make(1).id)
    assert found is not None
    assert found.status == "ok"


async def test_two_that_count_at_once_count_a_sheet_once(
    receipts: SqliteReceiptStore, figures: SqliteStatisticsStore, tmp_path: Path
) -> None:
    other = await SqliteStatisticsStore.open(tmp_path / "receipts.db")
    await receipts.write(ReceiptBatch([make(number) for number in range(100)]), "boot")
    await asyncio.gather(count_requests(figures), count_requests(other))
    await other.close()
    assert await count_requests(figures) == {"requests": 100, "ok": 100}


async def test_a_name_without_an_encoding_is_counted_later(
    receipts: SqliteReceiptStore, figures: SqliteStatisticsStore
) -> None:
    await receipts.write(ReceiptBatch([make(1), replace(make(2), agent="\ud800")]), "boot")
    assert len((await figures.read_uncounted(10)).receipts) == 2
    assert await count_requests(figures) == {"requests": 2, "ok": 2}


async def test_a_sheet_that_cannot_be_read_is_skipped(caplog: pytest.LogCaptureFixture) -> None:
    sheet = await SheetMaker(PRICES.find).tally(ReceiptBatch([make(1)]))
    assert sheet is not None
    assert read_sheets([b"nonsense", sheet]).exchanges == read_sheets([sheet]).exchanges
    assert "is not counted" in caplog.text


async def test_a_file_of_an_earlier_release_is_counted_on(tmp_path: Path) -> None:
    file = tmp_path / "receipts.db"
    with closing(sqlite3.connect(file)) as connection:
        migrate(connection, RECEIPT_MIGRATIONS[:3])
        connection.execute(
            """CREATE TRIGGER uncounted_insert AFTER INSERT ON receipts WHEN new.status <> 'started'
            BEGIN INSERT OR IGNORE INTO uncounted VALUES (new.number); END"""
        )
        common = SharedDetails(b'{"selection":{}}')
        connection.execute("INSERT INTO receipt_details VALUES (?, 1, ?)", (common.key, common.body))
        values = (b"default", bytes.fromhex(make(1).id), "ok", b"", b'{"model":"m"}', b'{"turns":[]}', common.key)
        columns = "workspace, id, status, resources, summary, details, shared"
        connection.execute(f"INSERT INTO receipts ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", values)
        connection.commit()
    receipts = await SqliteReceiptStore.open(file)
    figures = await SqliteStatisticsStore.open(file)
    try:
        receipts.tally = SheetMaker(PRICES.find).tally
        await receipts.write(ReceiptBatch([make(2)]), "boot")
        assert await count_requests(figures) == {"requests": 2, "ok": 2}
        found = await receipts.find("default", make(1).id)
        assert found is not None
        assert (found.summary, found.details) == (b'{"model":"m"}', b'{"selection":{},"turns":[]}')
    finally:
        await figures.close()
        await receipts.close()


def render_some(snapshot: Snapshot) -> list[Receipt]:
    """Receipts of one scope, with several ends and figures."""
    asked = ContextRequest()
    injection = asyncio.run(build(make_builder(MemoryBudget(10**6)), snapshot, asked, ANONYMOUS, None, "m", "?"))
    scope, renderer = Scope(asked, None, None, None, None, True, frozenset(), False), ReceiptRenderer(PRICES, str)
    receipts = []
    for number in range(30):
        exchange = Exchange(make_id(), ANONYMOUS, snapshot, scope=scope, injection=injection, model="m", turns=1)
        exchange.upstream, exchange.replies = "u", [TurnReply("u", 200, 0.001 * number)]
        exchange.note_injection(injection)
        exchange.times = [exchange.began + 0.001 * step for step in range(number % 5)]
        if number % 3:
            exchange.usage = {"prompt_tokens": 10 * number, "completion_tokens": number, "cached": "x" * 300 * number}
        if number % 7 == 0:
            exchange.degraded.add("semantic")
        exchange.http_status, exchange.seconds = 200, 0.0012345678 * number
        pending = PendingReceipt(exchange, finished=True)
        receipts.append(renderer.render(pending, finished=True))
    return receipts


def test_figures_in_memory_are_those_that_the_receipts_say(policies: Callable[[str], Snapshot]) -> None:
    rendered = render_some(policies("contexts: {a: {resources: {b: {type: text, data: {content: B}}}}}"))
    assert sum(one.figures is not None for one in rendered) == len(rendered)
    assert sum(one.shared is not None and one.shared.summary != b"" for one in rendered) > 20
    assert add_up(rendered) == add_up([replace(one.merge_shared(), figures=None) for one in rendered])


@pytest.mark.parametrize("beyond", [False, True], ids=["usual", "beyond all reason"])
@pytest.mark.parametrize("prices", [PRICES, PriceTable({})])
def test_what_is_noted_says_and_counts_what_a_rendered_receipt_does(
    policies: Callable[[str], Snapshot], prices: PriceTable, beyond: bool
) -> None:
    snapshot = policies("contexts: {a: {resources: {b: {type: text, data: {content: B}}}}}")
    asked, renderer = ContextRequest(), ReceiptRenderer(prices, str)
    injection = asyncio.run(build(make_builder(MemoryBudget(10**6)), snapshot, asked, ANONYMOUS, None, "m", "?"))
    scope = Scope(asked, None, None, None, None, True, frozenset(), False)
    noted, rendered = list[NotedReceipt](), list[Receipt]()
    for number in range(30):
        exchange = Exchange(make_id(), ANONYMOUS, snapshot, scope=scope, model="m", turns=1, upstream="u")
        exchange.note_injection(injection)
        exchange.replies = [TurnReply("u", 200, 0.001 * number)]
        exchange.times = [exchange.began + 0.001 * step for step in range(1, 5 - number % 3)]
        if number % 3:
            details = {"prompt_tokens_details": {"cached_tokens": 2 * number}} if number % 2 else {}
            exchange.usage = {"prompt_tokens": 3 * number, "completion_tokens": number, **details}
        exchange.http_status, exchange.seconds = 200, 0.0012345678 * number
        if beyond and number % 4 == 0:
            exchange.seconds = 1e9 * number
            counts = (2**53, number) if number % 8 else (number, 2**50)
            exchange.usage = dict(zip(("prompt_tokens", "completion_tokens"), counts, strict=True))
        pending = PendingReceipt(exchange, finished=True)
        receipt = renderer.render(pending, finished=True)
        taker = renderer.take_notes()
        if taker.note(pending):
            rendered.append(receipt)
            noted += [NotedReceipt(template, note) for template, notes in taker.noted for note in notes]
    assert len(noted) > 20
    assert [one.render().merge_shared() for one in noted] == [one.merge_shared() for one in rendered]
    assert add_up([], noted, prices) == add_up(rendered, [], prices)


def add_up(receipts: Sequence[Receipt], noted: Sequence[NotedReceipt] = (), prices: PriceTable = PRICES) -> bytes:
    sheet = TallySheet(prices.find, FactReader())
    for receipt in receipts:
        sheet.add(receipt)
    for template, notes in ReceiptBatch(noted).noted.items():
        sheet.add_noted(template, notes)
    rows = sheet.finish()
    rows.exchanges = dict(sorted(rows.exchanges.items()))
    rows.names = dict(sorted(rows.names.items()))
    return encode_sheet(rows)
