"""Receipts in memory: for tests, and for one process that may lose them at a restart."""

import time
from collections import Counter
from collections.abc import Callable

from msgspec.structs import replace

from gateway.domain.receipt import STARTED, SWEPT, Receipt, ReceiptFilter, ReceiptPage
from gateway.domain.receipt_note import ReceiptBatch
from gateway.ids import read_id_time
from gateway.stores.protocols import PRUNE_LIMIT, ReceiptScan

MAX_RECEIPTS = 10_000


class MemoryReceiptStore:
    """A ReceiptStore for one process; of too many, the oldest of the workspace that has the most are dropped."""

    def __init__(self, *, clock: Callable[[], float] = time.time, capacity: int = MAX_RECEIPTS) -> None:
        self._clock, self._capacity = clock, capacity
        self._receipts: dict[str, Receipt] = {}
        self._ids: dict[str, dict[str, None]] = {}  # by workspace, as they came
        self._owners: dict[str, str] = {}  # id → boot id, until the receipt is finished
        self._boots: dict[str, float] = {}  # boot id → when its lease ends
        self.uncounted: dict[str, Receipt] | None = None  # finished ones that wait to be counted; None: nobody counts

    async def write(self, receipts: ReceiptBatch, boot: str) -> None:
        for receipt in [one.merge_shared() for one in receipts.write_out()]:
            if receipt.id in self._receipts and receipt.id not in self._owners:
                continue
            self._note_end(self._receipts.get(receipt.id), receipt)
            self._receipts[receipt.id] = receipt
            self._ids.setdefault(receipt.workspace, {})[receipt.id] = None
            if receipt.status == STARTED:
                self._owners[receipt.id] = boot
            else:
                self._owners.pop(receipt.id, None)
        for _ in range(len(self._receipts) - self._capacity):
            self._remove_oldest(max(self._ids, key=lambda name: len(self._ids[name])))

    async def list_page(
        self, workspace: str, criteria: ReceiptFilter, after: str | None, take: int, whole: bool = False
    ) -> ReceiptPage:
        found: list[Receipt] = []
        ours = (one for one in sorted(self._receipts, reverse=True) if self._receipts[one].workspace == workspace)
        scan = ReceiptScan()
        for id in (one for one in ours if after is None or one < after):
            receipt, at = self._receipts[id], read_id_time(id)
            if criteria.end is not None and at >= criteria.end:
                continue
            if criteria.begin is not None and at < criteria.begin:
                break
            if len(found) == take:
                return ReceiptPage(found, found[-1].id)
            if criteria.matches(receipt):
                found.append(receipt if whole else replace(receipt, details=b""))
            if scan.is_over():
                return ReceiptPage(found, id)
        return ReceiptPage(found, None)

    async def find(self, workspace: str, id: str) -> Receipt | None:
        receipt = self._receipts.get(id)
        return receipt if receipt is not None and receipt.workspace == workspace else None

    async def delete(self, workspace: str, id: str) -> bool:
        if await self.find(workspace, id) is None:
            return False
        self._remove(id)
        return True

    async def renew(self, boot: str, seconds: float) -> None:
        self._boots[boot] = self._clock() + seconds

    async def sweep(self) -> int:
        now = self._clock()
        self._boots = {boot: expires for boot, expires in self._boots.items() if expires > now}
        left = [
            receipt
            for id, boot in self._owners.items()
            if boot not in self._boots and (receipt := self._receipts[id]).status == STARTED
        ]
        for receipt in left:
            swept = self._receipts[receipt.id] = replace(receipt, status=SWEPT)
            self._note_end(receipt, swept)
        return len(left)

    async def prune(self, before: float, max_bytes: int) -> int:
        old = [id for id in sorted(self._receipts)[:PRUNE_LIMIT] if read_id_time(id) < before]
        for id in old:
            self._remove(id)
        sizes: Counter[str] = Counter()
        for receipt in self._receipts.values():
            sizes[receipt.workspace] += measure_receipt(receipt)
        size, deleted = sizes.total(), len(old)
        while size > max_bytes and deleted < PRUNE_LIMIT:
            ((largest, _),) = sizes.most_common(1)
            gone = measure_receipt(self._remove_oldest(largest))
            sizes[largest] -= gone
            size, deleted = size - gone, deleted + 1
        return deleted

    async def close(self) -> None:
        return None

    def _note_end(self, former: Receipt | None, receipt: Receipt) -> None:
        """Let a receipt wait to be counted when it stops being `started`."""
        if self.uncounted is not None and receipt.status != STARTED and (former is None or former.status == STARTED):
            self.uncounted[receipt.id] = receipt

    def _remove_oldest(self, workspace: str) -> Receipt:
        """Called for whoever has the most: nobody loses what is within an equal share."""
        return self._remove(next(iter(self._ids[workspace])))

    def _remove(self, id: str) -> Receipt:
        self._owners.pop(id, None)
        receipt = self._receipts.pop(id)
        ids = self._ids[receipt.workspace]
        del ids[id]
        if not ids:
            del self._ids[receipt.workspace]
        return receipt


def measure_receipt(receipt: Receipt) -> int:
    return len(receipt.summary) + len(receipt.details)
