"""Builds what records exchanges and what counts their receipts."""

from collections.abc import Mapping
from typing import NamedTuple

from gateway.analytics.counting import StatisticsCounter
from gateway.analytics.sheets import SheetMaker
from gateway.domain.lru import HitCounter
from gateway.domain.price import ModelPrice
from gateway.receipts.prices import PriceTable
from gateway.receipts.recorder import ReceiptRecorder
from gateway.receipts.rendering import ReceiptRenderer
from gateway.redaction import build_redactor
from gateway.semantic.service import SemanticService
from gateway.settings import Settings
from gateway.stores.open import open_receipts, open_statistics
from gateway.stores.protocols import ReceiptStore
from gateway.stores.sqlite_receipts import SqliteReceiptStore
from gateway.stores.statistics import StatisticsStore
from gateway.upstreams.litellm.library import find_listed_price


def build_prices(settings: Settings) -> PriceTable:
    """The configured prices, and litellm's for models that have none."""
    prices = {name: ModelPrice(one.input, one.output, one.cached_input) for name, one in settings.prices.items()}
    return PriceTable(prices, find_listed_price)


def build_recorder(settings: Settings, receipts: ReceiptStore) -> ReceiptRecorder:
    redact, placement = build_redactor(settings).redact, settings.defaults.placement
    renderer = ReceiptRenderer(build_prices(settings), redact, placement)
    sample = settings.analytics.sample if settings.analytics.enabled else 0.0
    return ReceiptRecorder(receipts, settings.receipts, renderer, sample)


class Recording(NamedTuple):
    """Where receipts and figures are kept, and what writes receipts."""

    receipts: ReceiptStore
    statistics: StatisticsStore
    recorder: ReceiptRecorder | None  # None: receipts are switched off


async def open_recording(settings: Settings) -> Recording:
    """The stores and the recorder that a configuration asks for; raises StoreError."""
    receipts, enabled = await open_receipts(settings.store), settings.receipts.enabled
    counted = settings.analytics.enabled and enabled
    statistics = await open_statistics(settings.store, receipts, enabled=counted)
    if counted and isinstance(receipts, SqliteReceiptStore):
        receipts.tally = SheetMaker(build_prices(settings).find).tally
    return Recording(receipts, statistics, build_recorder(settings, receipts) if enabled else None)


def build_counter(
    settings: Settings, statistics: StatisticsStore, semantic: SemanticService | None = None
) -> StatisticsCounter:
    def get_lookups() -> Mapping[str, HitCounter]:
        return semantic.lookups_by_workspace if semantic is not None else {}

    return StatisticsCounter(statistics, settings.analytics, build_prices(settings).find, get_lookups)
