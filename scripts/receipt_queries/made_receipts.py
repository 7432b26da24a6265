"""Made-up receipts, distributed as those of a busy gateway."""

import random
import time
from collections.abc import Iterator

from gateway.domain.receipt import Receipt
from gateway.domain.receipt_note import ReceiptBatch
from gateway.ids import encode_id_time
from gateway.stores.protocols import ReceiptStore

BEGIN = 1_790_000_000.0
SECONDS_BETWEEN = 2.0
BATCH = 200
SUMMARY = (
    b'{"at":"2026-11-17T00:00:00.000Z","seconds":1.23,"http_status":200,"error":null,"principal":"app","key":"key-1",'
    b'"user":null,"profile":null,"prompt":null,"task":null,"asked_model":"gpt-4o","model":"gpt-4o","upstream":"openai",'
    b'"dialect":"chat","injected":6,"context_tokens":1234,"turn_count":1,"tools_run":0,"degraded":[],'
    b'"usage":{"prompt_tokens":1200,"completion_tokens":200,"total_tokens":1400},"cached_tokens":0,"cost":0.0012}'
)
DETAILS = b'{"selection":"%s"}' % (b"d" * 1500)


def make_receipts(count: int, seed: int) -> Iterator[Receipt]:
    chance = random.Random(seed)
    for number in range(count):
        used = {min(int(chance.expovariate(0.05)), 299) for _ in range(6)}
        yield Receipt(
            f"{encode_id_time(BEGIN + number * SECONDS_BETWEEN)}{chance.getrandbits(48):012x}",
            "default" if chance.random() < 0.9 else f"workspace{chance.randrange(20)}",
            chance.choices(["ok", "error", "aborted", "loop_limit"], [97, 2, 0.9, 0.1])[0],
            f"s{chance.randrange(max(1, count // 20))}" if chance.random() < 0.7 else None,
            f"agent{min(int(chance.expovariate(0.5)), 19)}",
            f"site/page{chance.randrange(2000)}" if chance.random() < 0.5 else None,
            tuple(f"context{one}/resource" for one in sorted(used)),
            SUMMARY,
            DETAILS,
        )


async def fill(store: ReceiptStore, count: int, seed: int) -> float:
    """Store receipts in batches as the recorder does; returns the seconds of CPU that the store took."""
    batch: list[Receipt] = []
    seconds = 0.0
    for number, receipt in enumerate(make_receipts(count, seed), 1):
        batch.append(receipt)
        if len(batch) == BATCH or number == count:
            began = time.process_time()
            await store.write(ReceiptBatch(batch), "boot")
            seconds += time.process_time() - began
            batch = []
    return seconds
