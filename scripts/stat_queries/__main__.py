"""`scripts/stats`: what it costs to count receipts, and how fast the figures of a million of them are shown.

The exit code says whether the median of every question stays within its limit.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from gateway.analytics.counting import StatisticsCounter
from gateway.analytics.reports import AGENT, ExchangeFilter, PageChoice, Period, Reports, ResourceFilter
from gateway.domain.price import ModelPrice
from gateway.domain.receipt_note import ReceiptBatch
from gateway.settings import AnalyticsSettings
from gateway.stores.sqlite_receipts import SqliteReceiptStore
from gateway.stores.sqlite_statistics import SqliteStatisticsStore
from scripts.stat_queries.made_receipts import make_receipts

ANSWER_MS = 50.0
REPEATS = 7
BATCH = 200
EVERY = 20_000  # receipts between two counts, so that the file grows as a busy gateway's does
PRICE = ModelPrice(2.5, 10, 1.25)


def main(arguments: Sequence[str] | None = None) -> int:
    given = build_parser().parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="stats-") as folder:
        file = given.file or Path(folder) / "receipts.db"
        return asyncio.run(measure(file, 0 if file.exists() else given.count, given.seed))


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/stats", description="Measures figures about receipts.")
    parser.add_argument("--count", type=int, default=1_000_000, help="receipts to store; default: a million")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--file", type=Path, help="a file to keep; one that exists is queried as it is")
    return parser


async def measure(file: Path, count: int, seed: int) -> int:
    receipts = await SqliteReceiptStore.open(file)
    store = await SqliteStatisticsStore.open(file)
    try:
        if count:
            await fill(receipts, store, count, seed)
        medians = [await measure_answer(name, ask) for name, ask in list_questions(Reports(store)).items()]
    finally:
        await store.close()
        await receipts.close()
    print(f"slowest median: {max(medians):.1f} ms (at most {ANSWER_MS:g})")
    return int(max(medians) > ANSWER_MS)


async def fill(receipts: SqliteReceiptStore, store: SqliteStatisticsStore, count: int, seed: int) -> None:
    """Store and count receipts, and print what both take."""
    counter = StatisticsCounter(store, AnalyticsSettings(), lambda model: PRICE)
    batch, written, counted = [], 0.0, 0.0
    for number, receipt in enumerate(make_receipts(count, seed, time.time()), 1):
        batch.append(receipt)
        if len(batch) == BATCH or number == count:
            began = time.process_time()
            await receipts.write(ReceiptBatch(batch), "boot")
            written += time.process_time() - began
            batch = []
        if number % EVERY == 0 or number == count:
            began = time.process_time()
            await counter.count()
            counted += time.process_time() - began
    print(f"{count} receipts: written with {written / count * 1e6:.1f} µs of CPU each, ", end="")
    print(f"counted with {counted / count * 1e6:.1f}")


def list_questions(reports: Reports) -> dict[str, Callable[[], Awaitable[Any]]]:
    month, anything = Period.choose(time.time(), None, None), ExchangeFilter()
    day = Period.choose(time.time(), None, None, "hour")
    every, agent = ResourceFilter(), ResourceFilter(agent="agent0")
    return {
        "/stats": lambda: reports.summarize("default", month, anything),
        "/stats?bucket=hour": lambda: reports.summarize("default", day, anything),
        "/stats/resources": lambda: reports.list_resources("default", month, every, PageChoice("tokens")),
        "/stats/resources?agent=": lambda: reports.list_resources("default", month, agent, PageChoice("tokens")),
        "/stats/contexts": lambda: reports.list_contexts("default", month, PageChoice()),
        "/stats/series": lambda: reports.trace_resource("default", month, "context3/r3"),
        "/stats/agents": lambda: reports.group("default", month, AGENT),
        "/stats/quality": lambda: reports.assess("default", month, anything),
        "/stats/cache": lambda: reports.describe_caches("default", month),
    }


async def measure_answer(name: str, ask: Callable[[], Awaitable[Any]]) -> float:
    times, costs = [], []
    for _ in range(REPEATS):
        began, used = time.perf_counter(), time.process_time()
        await ask()
        times.append((time.perf_counter() - began) * 1000)
        costs.append((time.process_time() - used) * 1000)
    median = statistics.median(times)
    print(f"{name:28} first {times[0]:6.1f} ms, median {median:6.1f} ms, CPU {statistics.median(costs):5.1f} ms")
    return median


if __name__ == "__main__":
    sys.exit(main())
