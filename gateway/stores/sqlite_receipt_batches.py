"""How receipts are written to SQLite: a whole batch in few statements, with what it adds to the figures."""

import sqlite3
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence

import msgspec
from msgspec.structs import replace

from gateway.domain.receipt import STARTED, Receipt, SharedDetails
from gateway.domain.receipt_note import NotedReceipt, ReceiptBatch
from gateway.ids import read_id_time
from gateway.stores.codec import encode_text
from gateway.stores.sqlite_connection import insert_rows, transaction
from gateway.stores.sqlite_receipt_notes import (
    EncodedNotes,
    encode_lists,
    find_noted_ids,
    open_list,
    put_lists,
    remove_lists,
    select_oldest,
)
from gateway.stores.sqlite_receipt_starts import (
    NOTHING_ENDED,
    EncodedStarts,
    EndedStarts,
    are_stored,
    encode_starts,
    put_starts,
    remove_starts,
    select_left,
)

ROW_WIDTH = 12
WRITTEN_OUT = 1000  # receipts of lists that are written out at once
WRITTEN = "workspace, id, status, session, agent, content, resources, boot, summary, details, shared, counted"
# A receipt that its own process has finished never changes again; whose it is does not change before that.
UPSERT = f"""INSERT INTO receipts ({WRITTEN}) VALUES {{}}
    ON CONFLICT (workspace, id) DO UPDATE SET status = excluded.status, resources = excluded.resources,
    boot = excluded.boot, summary = excluded.summary, details = excluded.details, shared = excluded.shared,
    counted = excluded.counted
    WHERE receipts.boot IS NOT NULL"""
PUT_RESOURCES = "INSERT OR IGNORE INTO receipt_resources (workspace, resource, id) VALUES {}"
PUT_SHARED = """INSERT INTO receipt_details (key, used, body, summary) VALUES (?, ?, ?, ?)
    ON CONFLICT (key) DO UPDATE SET used = excluded.used WHERE used < excluded.used"""
SELECT_SHARED = "SELECT body, summary FROM receipt_details WHERE key = ?"
SELECT_FINISHED = "SELECT 1 FROM receipts WHERE id = ? AND workspace = ? AND boot IS NULL"  # not those that were swept
PUT_SHEET = "INSERT INTO uncounted_sheets (body) VALUES (?)"

# What finished receipts add to the figures.
TallyReceipts = Callable[[ReceiptBatch], Awaitable[bytes | None]]


class EncodedBatch(msgspec.Struct, frozen=True):
    """Receipts as they are written; of tables, the values of all rows follow each other."""

    size: int  # rows of `receipts`
    rows: Sequence[object]  # of `receipts`
    used: Sequence[object]  # of `receipt_resources`
    shared: Sequence[tuple[object, ...]]  # of `receipt_details`
    notes: Sequence[EncodedNotes]
    starts: Sequence[EncodedStarts]
    ended: EndedStarts
    sheet: bytes | None  # what the receipts add to the figures; None: each of them waits to be counted


def write_batch(batch: EncodedBatch, connection: sqlite3.Connection) -> Sequence[int] | None:
    """Write a batch; returns the numbers of the lists of started ones.

    None: nothing was changed, since some of it was written before, or swept, and would be there or be counted twice.
    """
    ended = batch.ended
    try:
        with transaction(connection):
            connection.executemany(PUT_SHARED, batch.shared)
            changed = insert_rows(connection, UPSERT, batch.rows, ROW_WIDTH)
            insert_rows(connection, PUT_RESOURCES, batch.used, 3)
            put_lists(connection, batch.notes)
            if batch.sheet is not None:
                if changed < batch.size or (ended.concerned and not are_stored(connection, ended.concerned)):
                    raise sqlite3.IntegrityError("some receipts were finished before, or swept")
                connection.execute(PUT_SHEET, (batch.sheet,))
            remove_starts(connection, ended.emptied)
            return put_starts(connection, batch.starts)
    except sqlite3.IntegrityError:  # here, or by a trigger that saw a receipt that was swept
        if batch.sheet is None:
            raise
        return None


def write_out_lists(connection: sqlite3.Connection) -> None:
    """Make single receipts, which can wait to be counted, of all that stand in lists."""
    while lists := select_oldest(connection, WRITTEN_OUT):
        shared = {key: read_shared(connection, key) for key in {row.shared for row in lists}}
        found = [one.open(shared[row.shared]).render() for row in lists for one in open_list(row)]
        _put_single(connection, found, "")
        remove_lists(connection, lists)


def write_out_left(connection: sqlite3.Connection, now: float) -> None:
    """Make single receipts, which can be swept, of what processes that are gone have left in lists of started ones."""
    while lists := select_left(connection, now, WRITTEN_OUT):
        for row, receipts in lists:
            shared = read_shared(connection, row.shared)
            _put_single(connection, [replace(one, shared=shared) for one in receipts], row.boot)
        remove_starts(connection, [row.number for row, _ in lists])


def _put_single(connection: sqlite3.Connection, receipts: Sequence[Receipt], boot: str) -> None:
    """Store receipts one by one whose shared details are stored already."""
    batch = encode_batch(ReceiptBatch(receipts), boot)
    insert_rows(connection, UPSERT, batch.rows, ROW_WIDTH)
    insert_rows(connection, PUT_RESOURCES, batch.used, 3)


def read_shared(connection: sqlite3.Connection, key: bytes | None) -> SharedDetails | None:
    """What a receipt has in common with others, by its column `shared`."""
    row = connection.execute(SELECT_SHARED, (key,)).fetchone() if key is not None else None
    return SharedDetails(row[0], row[1] or b"") if row is not None else None


def find_stored(receipts: Sequence[NotedReceipt], connection: sqlite3.Connection) -> set[str]:
    """The ids of those that are stored, in a list or by themselves."""
    ids_by_workspace = defaultdict[bytes, list[bytes]](list)
    for one in receipts:
        ids_by_workspace[encode_text(one.workspace)].append(bytes.fromhex(one.id))
    found = set[bytes]()
    for workspace, ids in ids_by_workspace.items():
        found |= {id for id in ids if connection.execute(SELECT_FINISHED, (id, workspace)).fetchone() is not None}
        found |= find_noted_ids(connection, workspace, ids)
    return {id.hex() for id in found}


def encode_written_out(receipts: ReceiptBatch, boot: str, ended: EndedStarts) -> EncodedBatch:
    """A batch whose finished receipts wait to be counted one by one; what is noted of them is written out for that."""
    written = ReceiptBatch(one.render() if isinstance(one, NotedReceipt) else one for one in receipts)
    return encode_batch(written, boot, None, ended)


def encode_batch(
    receipts: ReceiptBatch, boot: str, sheet: bytes | None = None, ended: EndedStarts = NOTHING_ENDED
) -> EncodedBatch:
    rows: list[object] = []
    used: list[object] = []
    shared: dict[bytes, SharedDetails] = {}
    noted, starts = receipts.noted, receipts.starts
    for receipt in receipts.single:
        workspace, id = encode_text(receipt.workspace), bytes.fromhex(receipt.id)
        rows += _encode(workspace, id, receipt, boot, sheet is not None)
        for name in receipt.resources:
            used += workspace, encode_text(name), id
        if receipt.shared is not None:
            shared[receipt.shared.key] = receipt.shared
    shared |= {template.shared.key: template.shared for template in (*noted, *starts)}
    newest = [*[notes[-1].id for notes in noted.values()], *[notes[-1].id for notes in starts.values()]]
    ids = [*[one.id for one in receipts.single], *newest]
    second = int(read_id_time(max(ids))) if ids else 0
    details = [(one.key, second, one.body, one.summary or None) for one in shared.values()]
    lists = (encode_lists(noted), encode_starts(starts, boot))
    return EncodedBatch(len(receipts.single), rows, used, details, *lists, ended, sheet)


def _encode(workspace: bytes, id: bytes, receipt: Receipt, boot: str, counted: bool) -> tuple[object, ...]:
    """The values of WRITTEN."""
    started = receipt.status == STARTED
    return (
        workspace,
        id,
        receipt.status,
        _encode_name(receipt.session),
        _encode_name(receipt.agent),
        _encode_name(receipt.content),
        encode_text("\n".join(receipt.resources)),
        boot if started else None,
        receipt.summary,
        receipt.details,
        receipt.shared.key if receipt.shared is not None else None,
        1 if counted and not started else None,
    )


def _encode_name(name: str | None) -> bytes | None:
    return None if name is None else encode_text(name)
