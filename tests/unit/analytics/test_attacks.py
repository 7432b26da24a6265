"""Tenants that flood the figures with names, numbers and nonsense."""

import json
import random
import time
from pathlib import Path
from typing import Any

import pytest

from gateway.analytics.counting import QUERY_EMBEDDINGS, StatisticsCounter
from gateway.analytics.reports import AGENT, ExchangeFilter, PageChoice, Period, Reports, ResourceFilter
from gateway.domain.lru import HitCounter
from gateway.domain.receipt import Receipt
from gateway.domain.receipt_note import ReceiptBatch
from gateway.domain.statistics import EXCHANGES, OTHER, RESOURCES, Span
from gateway.ids import encode_id_time
from gateway.settings import AnalyticsSettings
from gateway.stores.memory_receipts import MemoryReceiptStore
from gateway.stores.memory_statistics import MemoryStatisticsStore
from gateway.stores.sqlite_receipts import SqliteReceiptStore
from gateway.stores.sqlite_statistics import SqliteStatisticsStore
from gateway.stores.statistics import StatisticsStore

DAY = 20_000 * 86_400
PERIOD = Period(Span.DAY, DAY, DAY + 86_400)


def make(number: int, workspace: str = "default", status: str = "ok", **said: Any) -> Receipt:
    id = f"{encode_id_time(DAY + number / 1000)}{number:012x}"
    summary = {"principal": "p", "model": "m", **said.pop("summary", {})}
    agent = said.pop("agent", "a")
    details = json.dumps(said).encode()
    return Receipt(id, workspace, status, "s", agent, summary=json.dumps(summary).encode(), details=details)


def inject(id: str) -> dict[str, Any]:
    return {"injected": [{"id": id, "context": id.split("/")[0], "via": "contexts", "tokens": 1}]}


def make_counter(store: StatisticsStore) -> StatisticsCounter:
    return StatisticsCounter(store, AnalyticsSettings())


async def test_a_flood_of_names_fills_a_bucket_and_no_more(tmp_path: Path) -> None:
    receipts = await SqliteReceiptStore.open(tmp_path / "receipts.db")
    store = await SqliteStatisticsStore.open(tmp_path / "receipts.db")
    counter, reports = make_counter(store), Reports(store)
    await receipts.write(ReceiptBatch([make(0, "quiet", selection=inject("c/quiet"))]), "boot")
    flood = range(1, 12_001)
    for first in range(1, 12_001, 2000):
        batch = [
            make(n, agent=f"agent{n}", selection=inject(f"c{n}/r"), summary={"model": f"model{n}"})
            for n in range(first, first + 2000)
        ]
        await receipts.write(ReceiptBatch(batch), "boot")
        assert await counter.count() in (2000, 2001)
    resources = await reports.sum_resources("default", PERIOD)
    assert len(resources) == RESOURCES.max_keys + 1
    used = sum(one["injected"] for name, one in resources.items() if "/" in name or name == OTHER)
    assert used >= len(flood) - RESOURCES.max_keys  # nothing is lost: it is counted as something else
    groups = await reports.group("default", PERIOD, AGENT)
    assert len(groups) == EXCHANGES.max_keys + 1
    assert sum(one["requests"] for one in groups) == len(flood)
    other = (await reports.list_resources("quiet", PERIOD, ResourceFilter(), PageChoice())).items
    assert [(one["name"], one["injected"]) for one in other] == [("c/quiet", 1)]
    await store.close()
    await receipts.close()


@pytest.mark.parametrize("seed", range(20))
async def test_receipts_full_of_nonsense_are_counted_and_hold_up_nothing(seed: int) -> None:
    receipts = MemoryReceiptStore()
    store = MemoryStatisticsStore(receipts)
    chance = random.Random(seed)
    nonsense: list[Any] = [
        None,
        -1,
        10**30,
        1e308,
        "x",
        [],
        {},
        [[]],
        {"injected": 5},
        {"injected": [{"id": 5}]},
        True,
        "\u0000",
    ]

    def choose() -> Any:
        return chance.choice(nonsense)

    names = ("selection", "sources", "tools", "overlap")
    fields = ("usage", "cost", "seconds", "model", "degraded", "turn_count", "context_tokens", "placement", "key")
    broken = [
        make(n, summary={name: choose() for name in fields}, **{name: choose() for name in names}) for n in range(50)
    ]
    raw = [Receipt(make(n).id, "default", "ok", summary=b"\xff{", details=b"[") for n in range(50, 60)]
    usage = {"prompt_tokens": 10**40, "completion_tokens": 10**40}
    await receipts.write(
        ReceiptBatch([*broken, *raw, make(60, summary={"usage": usage, "cost": 1e300, "seconds": 1e300})]), "boot"
    )
    assert await make_counter(store).count() == 61
    summary = await Reports(store).summarize("default", PERIOD, ExchangeFilter())
    assert summary["totals"]["requests"] == 61


async def test_a_resource_that_a_model_made_up_is_not_counted() -> None:
    receipts = MemoryReceiptStore()
    store = MemoryStatisticsStore(receipts)
    tool = {"name": "get_context_resource", "resource": None, "left_out": None, "characters": 9, "failed": True}
    await receipts.write(ReceiptBatch([make(1, tools=[tool])]), "boot")
    await make_counter(store).count()
    assert await Reports(store).sum_resources("default", PERIOD) == {}


async def test_lookups_are_added_once_for_each_workspace() -> None:
    store = MemoryStatisticsStore(MemoryReceiptStore())
    lookups = {"default": HitCounter(), "other": HitCounter()}
    counter = StatisticsCounter(store, AnalyticsSettings(), get_lookups=lambda: lookups)
    for hits, misses in ((3, 1), (4, 1), (4, 1)):
        lookups["default"].hits, lookups["default"].misses = hits, misses
        lookups["other"].misses = 7
        await counter.add_lookups()
    now = Period.choose(time.time(), None, None)
    shown = (await Reports(store).describe_caches("default", now))[QUERY_EMBEDDINGS]
    assert shown == {"hits": 4, "misses": 1, "hit_share": 0.8}
    assert (await Reports(store).describe_caches("other", now))[QUERY_EMBEDDINGS]["misses"] == 7
