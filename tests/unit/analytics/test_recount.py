"""Figures against an independent recount: random receipts, several writers and counters, on every engine."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from gateway.analytics.counting import StatisticsCounter
from gateway.analytics.reports import ExchangeFilter, PageChoice, Period, Reports, ResourceFilter
from gateway.analytics.sheets import SheetMaker
from gateway.domain.price import ModelPrice
from gateway.domain.receipt import STARTED, Receipt, ReceiptFilter
from gateway.domain.receipt_note import ReceiptBatch
from gateway.domain.redis_address import redis_address
from gateway.domain.statistics import Span
from gateway.ids import encode_id_time
from gateway.receipts.views import describe_receipt, read_pages
from gateway.settings import AnalyticsSettings
from gateway.stores.memory_receipts import MemoryReceiptStore
from gateway.stores.memory_statistics import MemoryStatisticsStore
from gateway.stores.protocols import ReceiptStore
from gateway.stores.redis_connection import RedisTimeouts
from gateway.stores.redis_receipts import RedisReceiptStore
from gateway.stores.redis_statistics import RedisStatisticsStore
from gateway.stores.sqlite_receipts import SqliteReceiptStore
from gateway.stores.sqlite_statistics import SqliteStatisticsStore
from gateway.stores.statistics import StatisticsStore
from tests.support.recount import check, recount
from tests.support.redis_server import RedisServer, running_redis

DAY = 20_000 * 86_400
DAYS = 3
SEEDS = range(4)
EVERYTHING = PageChoice(take=1000, sessions=True)
PRICE = ModelPrice(input=2.0, output=8.0, cached_input=1.0)


def find_price(model: str) -> ModelPrice | None:
    return PRICE if model == "m-large" else None


@dataclass
class Place:
    """The stores of two workers."""

    receipts: list[ReceiptStore]
    figures: list[StatisticsStore]


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_redis() as server:
        yield server


@pytest.fixture(params=["memory", "sqlite", "sqlite with sheets", "redis"])
async def place(request: pytest.FixtureRequest, tmp_path: Path, server: RedisServer) -> AsyncIterator[Place]:
    async with AsyncExitStack() as stack:
        receipts: list[ReceiptStore]
        figures: list[StatisticsStore]
        if request.param == "memory":
            memory = MemoryReceiptStore()
            receipts, figures = [memory] * 2, [MemoryStatisticsStore(memory)] * 2
        elif request.param.startswith("sqlite"):
            files = [await SqliteReceiptStore.open(tmp_path / "receipts.db") for _ in range(2)]
            for one in files if request.param == "sqlite with sheets" else ():
                one.tally = SheetMaker(find_price).tally
            receipts = [*files]
            figures = [await SqliteStatisticsStore.open(tmp_path / "receipts.db") for _ in range(2)]
        else:
            server.client().flushall()
            address, timeouts = redis_address(server.url), RedisTimeouts(background=10)
            receipts = [await RedisReceiptStore.open(address, timeouts) for _ in range(2)]
            figures = [await RedisStatisticsStore.open(address, timeouts) for _ in range(2)]
        for store in receipts:
            stack.push_async_callback(store.close)
        for counted in figures:
            stack.push_async_callback(counted.close)
        await figures[0].read_uncounted(1)
        yield Place(receipts, figures)


def make_item(chance: random.Random, id: str) -> dict[str, Any]:
    via = chance.choice(["contexts", "contexts", "semantic", "expansion", "session", "include", "retained"])
    tokens, truncated = chance.randrange(200), chance.random() < 0.2
    return {"id": id, "context": id.split("/")[0], "via": via, "tokens": tokens, "truncated": truncated}


def make_details(chance: random.Random) -> dict[str, Any]:
    if chance.random() < 0.1:  # it failed before anything was chosen
        return {"turns": [], "tools": [], "timings": {}}
    ids = [f"context{chance.randrange(3)}/r{number}" for number in range(12)]
    placed = chance.sample(ids, chance.randrange(6))
    injected = [make_item(chance, id) for id in placed]
    left = chance.sample(ids, chance.randrange(3))
    fetched = [
        {
            "name": "get_context_resource",
            "resource": chance.choice([None, *ids]),
            "left_out": chance.choice([None, "below_threshold", "over_budget"]),
            "characters": chance.randrange(500),
            "failed": chance.random() < 0.2,
            "ms": 1.0,
        }
        for _ in range(chance.randrange(3))
    ]
    sources = [{"level": "agent", "entity": "a", "context": f"context{n}"} for n in range(3) if chance.random() < 0.7]
    overlap = [{"id": id, "phrases": chance.randrange(1, 9), "shown": chance.randrange(5)} for id in placed[:2]]
    return {
        "selection": {"injected": injected, "catalogue": [], "dropped": [], "over_budget": left},
        "sources": sources,
        "tools": fetched,
        **({"overlap": overlap} if chance.random() < 0.3 else {}),
    }


def make_receipt(chance: random.Random, number: int) -> Receipt:
    prompt = chance.randrange(3000)
    usage = {"prompt_tokens": prompt, "completion_tokens": 5, "total_tokens": prompt + 5}
    cached = chance.randrange(prompt + 1)
    usage["prompt_tokens_details"] = {"cached_tokens": cached}  # type: ignore[assignment]
    known = chance.random() < 0.8
    summary = {
        "principal": chance.choice(["one", "two"]),
        "key": chance.choice([None, "key-1"]),
        "user": chance.choice([None, "u"]),
        "model": chance.choice(["m-large", "m-small"]),
        "placement": chance.choice([None, "system", "turn"]),
        "seconds": chance.random(),
        "context_tokens": chance.randrange(900),
        "turn_count": chance.randrange(4),
        "tools_run": chance.randrange(3),
        "usage": usage if known else None,
        "cached_tokens": cached if known else 0,
        "cost": chance.choice([None, 0.001]),
        "degraded": chance.choice([[], [], ["semantic"], ["store"]]),
    }
    at = DAY + chance.random() * DAYS * 86_400
    return Receipt(
        f"{encode_id_time(at)}{number:012x}",
        chance.choice(["default", "default", "other"]),
        chance.choice(["ok", "ok", "ok", "error", "aborted", "upstream_truncated", "loop_limit"]),
        chance.choice([None, *(f"s{number}" for number in range(9))]),
        chance.choice([None, "writer", "editor"]),
        summary=orjson.dumps(summary),
        details=orjson.dumps(make_details(chance)),
    )


async def write_randomly(chance: random.Random, place: Place, receipts: Sequence[Receipt]) -> None:
    """As recorders do: some first as started, some twice, some never finished, by two processes at once."""
    stores = place.receipts
    for store, boot in zip(stores, ("boot0", "boot1"), strict=True):
        await store.renew(boot, 60)
    await stores[0].renew("dead", 0)
    for first in range(0, len(receipts), 20):
        batch = list(receipts[first : first + 20])
        worker = chance.randrange(2)
        begun = [replace(one, status=STARTED) for one in batch if chance.random() < 0.5]
        await stores[worker].write(ReceiptBatch(begun), f"boot{worker}")
        await stores[worker].write(ReceiptBatch(batch), f"boot{worker}")
        if chance.random() < 0.3:
            await stores[worker].write(ReceiptBatch(batch), f"boot{worker}")  # after an answer that came too late
        if chance.random() < 0.3:
            await asyncio.gather(*(make_counter(one).count() for one in place.figures))


def make_counter(store: StatisticsStore) -> StatisticsCounter:
    return StatisticsCounter(store, AnalyticsSettings(), find_price)


async def read_all(receipts: ReceiptStore, workspace: str) -> list[dict[str, Any]]:
    pages = read_pages(receipts, workspace, ReceiptFilter())
    return [describe_receipt(one) async for page in pages for one in page.receipts]


@pytest.mark.parametrize("seed", SEEDS)
async def test_the_figures_are_those_of_the_receipts(place: Place, seed: int) -> None:
    chance = random.Random(seed)
    receipts = [make_receipt(chance, number) for number in range(160)]
    await write_randomly(chance, place, receipts[:150])
    await place.receipts[0].write(ReceiptBatch([replace(one, status=STARTED) for one in receipts[150:]]), "dead")
    assert await place.receipts[0].sweep() == 10
    await asyncio.gather(*(make_counter(one).count() for one in place.figures))
    await make_counter(place.figures[0]).count()
    reports, period = Reports(place.figures[1]), Period(Span.DAY, DAY, DAY + DAYS * 86_400)
    for workspace in ("default", "other"):
        raw = await read_all(place.receipts[1], workspace)
        summary = await reports.summarize(workspace, period, ExchangeFilter(), sessions=True)
        resources = await reports.list_resources(workspace, period, ResourceFilter(), EVERYTHING)
        contexts = await reports.list_contexts(workspace, period, EVERYTHING)
        check(summary, [*resources.items, *contexts.items], recount(raw))
        assert sum(point["requests"] for point in summary["points"]) == len(raw)
        await check_filters(reports, workspace, period, raw)


async def check_filters(reports: Reports, workspace: str, period: Period, raw: list[dict[str, Any]]) -> None:
    """Agents and models add up, and each is what its receipts say."""
    for agent in ("writer", "editor"):
        own = recount(one for one in raw if one["agent"] == agent)
        page = await reports.list_resources(
            workspace, period, ResourceFilter(agent=agent), PageChoice("tokens", take=1000)
        )
        for item in page.items:
            assert item["injected"] == own["resources"][item["name"]].get("injected", 0)
            assert item["fetched"] == own["resources"][item["name"]].get("fetched", 0)
        summary = await reports.summarize(workspace, period, ExchangeFilter(agent=agent))
        assert summary["totals"]["requests"] == own["totals"]["requests"]
    cost = sum(one["tokens"] * price_token(receipt) for receipt in raw for one in list_placed(receipt))
    page = await reports.list_resources(workspace, period, ResourceFilter(), PageChoice("cost", take=1000))
    assert sum(item["cost"] for item in page.items) == pytest.approx(cost, abs=1e-4)
    days = {receipt["id"][:14] for receipt in raw}
    assert len(days) > 1


def list_placed(receipt: dict[str, Any]) -> list[dict[str, Any]]:
    placed: list[dict[str, Any]] = receipt.get("selection", {}).get("injected", [])
    return placed


def price_token(receipt: dict[str, Any]) -> float:
    if receipt["model"] != "m-large":
        return 0.0
    prompt = (receipt["usage"] or {}).get("prompt_tokens", 0)
    mean = 2.0 if not prompt else (2.0 * (prompt - receipt["cached_tokens"]) + receipt["cached_tokens"]) / prompt
    return float(receipt["turn_count"]) * mean / 1e6
