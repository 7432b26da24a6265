"""What waits for the store: batches within their bounds, and nothing is forgotten before it is stored."""

from collections.abc import Iterable

import pytest

from gateway.domain.exchange import Exchange
from gateway.domain.price import TokenCount
from gateway.domain.principal import ANONYMOUS
from gateway.domain.receipt import STARTED, Receipt, SharedDetails
from gateway.domain.receipt_note import NotedStart, NoteTemplate, ReceiptBatch, ReceiptNote, StartNote
from gateway.domain.snapshot import EMPTY_SNAPSHOT
from gateway.receipts import unwritten as module
from gateway.receipts.documents import PendingReceipt
from gateway.receipts.unwritten import UnwrittenReceipts

SHARED = SharedDetails(b"{}")
OURS, THEIRS = (NoteTemplate(name, None, None, (), SHARED, b"{}", b'"up"') for name in ("ours", "theirs"))


def make_id(number: int) -> str:
    return f"{number:026x}"


def make_notes(numbers: Iterable[int]) -> list[ReceiptNote]:
    return [
        ReceiptNote(make_id(one), 0.1, 200, b"null", TokenCount(), None, 200, 0.1, 1.0, [1.0] * 4) for one in numbers
    ]


def make_single(number: int, status: str = "ok", size: int = 2) -> Receipt:
    return Receipt(make_id(number), "ours", status, details=b"x" * size)


def make_start(number: int) -> NotedStart:
    return NotedStart(OURS, StartNote(make_id(number), 1.0, [1.0] * 4))


def list_numbers(batch: ReceiptBatch) -> list[int]:
    return [int(one.id, 16) for one in batch]


def write_all(receipts: UnwrittenReceipts) -> list[list[int]]:
    """The numbers of all batches, each of which is stored."""
    written = []
    while receipts:
        batch = receipts.choose_batch()
        written.append(list_numbers(batch))
        receipts.remove(batch)
    return written


def test_what_is_noted_fills_up_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH", 5)
    receipts = UnwrittenReceipts()
    receipts.add_notes(OURS, make_notes(range(4)))
    receipts.add_notes(THEIRS, make_notes(range(10, 13)))
    receipts.put(make_single(20))
    receipts.put(make_start(21))
    assert write_all(receipts) == [[20, 0, 1, 2, 21], [10, 11, 12, 3]]


def test_single_receipts_are_bounded_by_number_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SINGLE", 2)
    monkeypatch.setattr(module, "SINGLE_BYTES", 1000)
    receipts = UnwrittenReceipts()
    for number, size in enumerate([2000, 10, 10, 10, 900, 900]):
        receipts.put(make_single(number, size=size))
    assert write_all(receipts) == [[0], [1, 2], [3, 4], [5]]


def test_what_is_not_stored_stays_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH", 3)
    receipts = UnwrittenReceipts()
    receipts.add_notes(OURS, make_notes(range(2)))
    receipts.put(make_single(9))
    failed = receipts.choose_batch()
    receipts.add_notes(OURS, make_notes(range(2, 4)))
    assert list_numbers(failed) == [9, 0, 1]
    assert write_all(receipts) == [[9, 0, 1], [2, 3]]


def test_what_was_started_gives_way_to_what_is_over() -> None:
    receipts, ended = UnwrittenReceipts(), Exchange(make_id(1), ANONYMOUS, EMPTY_SNAPSHOT)
    receipts.put(make_start(1))
    receipts.put(make_single(2, STARTED))
    receipts.put(make_single(2))
    assert receipts.count_finished() == 1
    receipts.forget_starts([PendingReceipt(ended)])
    receipts.add_notes(OURS, make_notes([1]))
    assert receipts.count_finished() == 2
    assert write_all(receipts) == [[2, 1]]


def test_a_receipt_is_found_in_its_own_workspace_only() -> None:
    receipts = UnwrittenReceipts()
    receipts.add_notes(THEIRS, make_notes([1]))
    receipts.put(make_single(2))
    receipts.put(make_start(3))
    found = [(name, one) for name in ("ours", "theirs") for one in range(4) if receipts.has(name, make_id(one))]
    assert found == [("ours", 2), ("ours", 3), ("theirs", 1)]
