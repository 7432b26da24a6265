"""Receipts that wait for the store, as they are written: by template those that are only noted, by id all others."""

from collections.abc import Iterator, Sequence
from itertools import islice

from gateway.domain.receipt import STARTED, Receipt
from gateway.domain.receipt_note import NotedStart, NoteTemplate, ReceiptBatch, ReceiptNote
from gateway.receipts.documents import PendingReceipt

BATCH = 1000  # receipts that are written at once: a batch costs as much as dozens of those that are only noted
SINGLE, SINGLE_BYTES = 200, 4_000_000  # of them, how many may be single ones, and their bytes


class UnwrittenReceipts:
    """Whatever was noted or rendered, until it is stored."""

    def __init__(self) -> None:
        self._noted: dict[NoteTemplate, list[ReceiptNote]] = {}  # of exchanges that are over
        self._others: dict[str, Receipt | NotedStart] = {}  # oldest first; what was started gives way to what is over

    def __bool__(self) -> bool:
        return bool(self._noted or self._others)

    def add_notes(self, template: NoteTemplate, notes: list[ReceiptNote]) -> None:
        """Add what was noted of exchanges that are over; at least one."""
        self._noted.setdefault(template, []).extend(notes)

    def put(self, receipt: Receipt | NotedStart) -> None:
        self._others[receipt.id] = receipt

    def forget_starts(self, finished: Sequence[PendingReceipt]) -> None:
        """Forget what was to be written of exchanges when they began: they are over."""
        if self._others:
            for pending in finished:
                self._others.pop(pending.exchange.id, None)

    def has(self, workspace: str, id: str) -> bool:
        """Whether a receipt of this workspace is among them."""
        other = self._others.get(id)
        if other is not None:
            return other.workspace == workspace
        templates = [one for one in self._noted if one.workspace == workspace]
        return any(note.id == id for template in templates for note in self._noted[template])

    def choose_batch(self) -> ReceiptBatch:
        """As many as are written at once; at least one."""
        batch = ReceiptBatch(self._choose_others())
        room = BATCH - len(batch.single) - sum(map(len, batch.starts.values()))
        for template, notes in self._noted.items():
            if room <= 0:
                break
            batch.noted[template] = notes[:room]
            room -= len(notes)
        return batch

    def remove(self, batch: ReceiptBatch) -> None:
        """Forget what has been stored."""
        for template, notes in batch.noted.items():
            left = self._noted.pop(template)[len(notes) :]
            if left:
                self._noted[template] = left
        for one in batch.single:
            del self._others[one.id]
        for starts in batch.starts.values():
            for start in starts:
                del self._others[start.id]

    def count_finished(self) -> int:
        """Exchanges among them that are over."""
        return sum(map(len, self._noted.values())) + sum(
            isinstance(one, Receipt) and one.status != STARTED for one in self._others.values()
        )

    def _choose_others(self) -> Iterator[Receipt | NotedStart]:
        single = size = 0
        for number, one in enumerate(islice(self._others.values(), BATCH)):
            if isinstance(one, Receipt):
                single += 1
                size += len(one.summary) + len(one.details)
                if number and (single > SINGLE or size > SINGLE_BYTES):
                    return
            yield one
