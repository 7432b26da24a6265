"""`scripts/receipts`: what receipts cost a request and the store, and how fast a million of them list and filter.

The exit code says whether the medians of all pages, and the cost to a request, stay within their limits.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from gateway.domain.receipt import ReceiptFilter
from gateway.stores.sqlite_receipts import SqliteReceiptStore
from scripts.receipt_queries.enqueue import measure_enqueue
from scripts.receipt_queries.made_receipts import BEGIN, fill

PAGE_MS = 50.0
ENQUEUE_US = 60.0
REPEATS = 7

QUERIES = {
    "newest first": ReceiptFilter(),
    "session": ReceiptFilter(session="s777"),
    "agent": ReceiptFilter(agent="agent0"),
    "rare agent": ReceiptFilter(agent="agent15"),
    "content": ReceiptFilter(content="site/page5"),
    "resource": ReceiptFilter(resource="context3/resource"),
    "status ok": ReceiptFilter(status="ok"),
    "status error": ReceiptFilter(status="error"),
    "time": ReceiptFilter(begin=BEGIN + 500_000, end=BEGIN + 600_000),
    "agent, status error": ReceiptFilter(agent="agent0", status="error"),
    "resource, content": ReceiptFilter(resource="context3/resource", content="site/page5"),
    "resource, an agent that never used it": ReceiptFilter(resource="context0/resource", agent="nobody"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    given = build_parser().parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="receipts-") as folder:
        file = given.file or Path(folder) / "receipts.db"
        count = 0 if file.exists() else given.count
        return asyncio.run(measure(file, count, given.seed))


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/receipts", description="Measures what receipts cost.")
    parser.add_argument("--count", type=int, default=1_000_000, help="receipts to store; default: a million")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--file", type=Path, help="a file to keep; one that exists is queried as it is")
    return parser


async def measure(file: Path, count: int, seed: int) -> int:
    slowest = await measure_pages(file, count, seed)
    microseconds = measure_enqueue()
    print(f"on the request's path: {microseconds:.1f} µs of CPU (at most {ENQUEUE_US:g})")
    print(f"slowest median of a page: {slowest:.1f} ms (at most {PAGE_MS:g})")
    return int(slowest > PAGE_MS or microseconds > ENQUEUE_US)


async def measure_pages(file: Path, count: int, seed: int) -> float:
    """Print the milliseconds of pages of 100; returns the highest median."""
    store = await SqliteReceiptStore.open(file)
    try:
        if count:
            seconds = await fill(store, count, seed)
            print(f"stored {count} receipts, {seconds / count * 1e6:.0f} µs of CPU each")
        medians = [await measure_page(store, name, criteria) for name, criteria in QUERIES.items()]
    finally:
        await store.close()
    return max(medians)


async def measure_page(store: SqliteReceiptStore, name: str, criteria: ReceiptFilter) -> float:
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        page = await store.list_page("default", criteria, None, 100)
        times.append((time.perf_counter() - began) * 1000)
    median = statistics.median(times)
    print(f"{name:40} {len(page.receipts):4} receipts, first {times[0]:6.1f} ms, median {median:6.1f} ms")
    return median


if __name__ == "__main__":
    sys.exit(main())
