"""Counting goes on, whatever a single receipt is like."""

import logging
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.analytics.counting import StatisticsCounter
from gateway.analytics.reports import ExchangeFilter, Period, Reports
from gateway.domain.receipt import Receipt
from gateway.domain.receipt_note import ReceiptBatch
from gateway.domain.statistics import Span
from gateway.ids import encode_id_time
from gateway.settings import AnalyticsSettings
from gateway.stores.memory_receipts import MemoryReceiptStore
from gateway.stores.memory_statistics import MemoryStatisticsStore

DAY = 20_000 * 86_400


def make_receipt(number: int) -> Receipt:
    return Receipt(f"{encode_id_time(DAY + number)}{number:08x}", "default", "ok", agent="editor")


async def count_requests(figures: MemoryStatisticsStore) -> int:
    period = Period(Span.DAY, DAY, DAY + 86_400)
    report = await Reports(figures).summarize("default", period, ExchangeFilter())
    return int(report["totals"]["requests"])


async def test_one_receipt_that_cannot_be_counted_does_not_hold_up_the_others(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryReceiptStore()
    figures = MemoryStatisticsStore(store)
    counter = StatisticsCounter(figures, AnalyticsSettings())
    read = counter._reader.read

    def read_or_fail(receipt: Receipt) -> Any:
        if receipt.agent == "cursed":
            raise KeyError("model")
        return read(receipt)

    monkeypatch.setattr(counter._reader, "read", read_or_fail)
    receipts = [make_receipt(number) for number in range(5)]
    cursed = replace(make_receipt(5), agent="cursed")
    await store.write(ReceiptBatch([*receipts[:2], cursed, *receipts[2:]]), "boot")
    with caplog.at_level(logging.ERROR):
        assert await counter.count() == 6
    assert await counter.count() == 0, "the same batch is read again"
    assert [cursed.id in record.getMessage() for record in caplog.records] == [True]
    assert await count_requests(figures) == 5


async def test_figures_that_cannot_be_stored_are_given_up_and_the_next_are_counted(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryReceiptStore()
    figures = MemoryStatisticsStore(store)
    add = figures.add

    async def add_or_fail(tallies: Any, counted: Any, now: float) -> bool:
        if tallies and len(counted.receipts) == 2:
            raise OverflowError("too large")
        return await add(tallies, counted, now)

    monkeypatch.setattr(figures, "add", add_or_fail)
    counter = StatisticsCounter(figures, AnalyticsSettings())
    await store.write(ReceiptBatch([make_receipt(1), make_receipt(2)]), "boot")
    with caplog.at_level(logging.ERROR):
        assert await counter.count() == 2
    await store.write(ReceiptBatch([make_receipt(3)]), "boot")
    assert await counter.count() == 1
    assert await count_requests(figures) == 1
