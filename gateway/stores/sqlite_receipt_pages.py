"""Pages of receipts in SQLite: single ones and those in lists, as one walk from the newest to the oldest."""

import heapq
import sqlite3
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import NamedTuple

from msgspec.structs import replace

from gateway.domain.receipt import Receipt, ReceiptFilter, ReceiptPage, SharedDetails, is_receipt_id
from gateway.domain.receipt_note import OK
from gateway.ids import encode_id_time
from gateway.stores.codec import decode_text, encode_text
from gateway.stores.protocols import ReceiptScan
from gateway.stores.sqlite_receipt_batches import read_shared
from gateway.stores.sqlite_receipt_notes import NotePosition, find_noted, walk_lists
from gateway.stores.sqlite_receipt_starts import StartPosition, find_start, walk_starts

SEPARATOR = b"\n"  # between the ids of resources, which contain no control characters

COLUMNS = "workspace, id, status, session, agent, content, resources, boot, summary, shared"
SELECT = f"SELECT number, {COLUMNS} FROM receipts "
# CROSS JOIN keeps the order of the tables: the index of the resource is walked, whatever the planner thinks.
SELECT_BY_RESOURCE = f"""SELECT number, {", ".join("r." + name for name in COLUMNS.split(", "))}
    FROM receipt_resources u CROSS JOIN receipts r ON r.workspace = u.workspace AND r.id = u.id
    WHERE u.workspace = ? AND u.resource = ? AND u.id >= ? AND u.id < ? ORDER BY u.id DESC"""
SELECT_BY_COLUMN = (
    SELECT + "INDEXED BY receipts_{index} WHERE workspace = ?{condition} AND id >= ? AND id < ? ORDER BY id DESC"
)
CONDITIONS = {name: f" AND {name} = ?" for name in ("session", "agent", "content", "resource")} | {
    "status": " AND status = ? AND status <> 'ok'",  # as the index says
}
SELECT_ONE = SELECT + "WHERE id = ? AND workspace = ?"
SELECT_DETAILS = "SELECT details FROM receipts WHERE number = ?"


class ReceiptRow(NamedTuple):
    """A row of the table `receipts`."""

    number: int
    workspace: bytes
    id: bytes
    status: str
    session: bytes | None
    agent: bytes | None
    content: bytes | None
    resources: bytes
    boot: str | None
    summary: bytes
    shared: bytes | None


StoredReceipt = ReceiptRow | NotePosition | StartPosition


class ReceiptReader:
    """Makes receipts of rows; what they have in common is read once."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._shared: dict[bytes, SharedDetails | None] = {}

    def read(self, row: StoredReceipt, whole: bool) -> Receipt:
        if not isinstance(row, ReceiptRow):
            shared = self._find_shared(row.row.shared)
            receipt = row.open(shared).render()
        else:
            shared = self._find_shared(row.shared)
            receipt = _decode(row)
        receipt.shared = shared  # None if it is gone: the rest is told without it
        if whole and isinstance(row, ReceiptRow):
            own = self._connection.execute(SELECT_DETAILS, (row.number,)).fetchone()
            receipt.details = own[0] if own is not None else b"{}"
        merged = receipt.merge_shared()
        return merged if whole else replace(merged, details=b"")

    def _find_shared(self, key: bytes | None) -> SharedDetails | None:
        if key is not None and key not in self._shared:
            self._shared[key] = read_shared(self._connection, key)
        return self._shared[key] if key is not None else None


def walk(
    connection: sqlite3.Connection, workspace: bytes, criteria: ReceiptFilter, after: str | None
) -> Iterator[StoredReceipt]:
    """The receipts in question, newest first, by the index of the narrowest filter."""
    begin, end = _limit(criteria, after)
    rows = _walk_rows(connection, workspace, criteria, begin, end)
    noted = walk_lists(connection, workspace, criteria, begin, end)
    starts = walk_starts(connection, workspace, criteria, begin, end)
    walks: list[Iterable[StoredReceipt]] = [noted, rows, starts]
    former = b""
    # Of the same id, what the first walk has comes first: an exchange that has ended may still stand among the started.
    for row in heapq.merge(*walks, key=attrgetter("id"), reverse=True):
        if row.id != former:
            yield row
        former = row.id


def _walk_rows(
    connection: sqlite3.Connection, workspace: bytes, criteria: ReceiptFilter, begin: bytes, end: bytes
) -> Iterable[ReceiptRow]:
    name, values = criteria.leading, [workspace]
    if name == "status" and criteria.status == OK:
        name = None  # nearly all are: their index is that of the workspace
    if name is not None:
        wanted = getattr(criteria, name)
        values.append(wanted if name == "status" else encode_text(wanted))
    query = SELECT_BY_COLUMN.format(index=name or "workspace", condition=CONDITIONS[name] if name is not None else "")
    rows = connection.execute(SELECT_BY_RESOURCE if name == "resource" else query, (*values, begin, end))
    return (ReceiptRow(*row) for row in rows)


def _limit(criteria: ReceiptFilter, after: str | None) -> tuple[bytes, bytes]:
    """The first id that is wanted, and the one that no longer is."""
    begin = bytes.fromhex(encode_id_time(criteria.begin)) if criteria.begin is not None else b""
    end = bytes.fromhex(encode_id_time(criteria.end)) if criteria.end is not None else b"\xff"
    cursor = _encode_id(after) if after is not None else None
    return begin, end if cursor is None else min(end, cursor)


def build_page(
    connection: sqlite3.Connection, rows: Iterable[StoredReceipt], criteria: ReceiptFilter, take: int, whole: bool
) -> ReceiptPage:
    found: list[Receipt] = []
    scan, reader = ReceiptScan(), ReceiptReader(connection)
    for row in rows:
        if len(found) == take:
            return ReceiptPage(found, found[-1].id)
        if criteria.matches(_decode(row) if isinstance(row, ReceiptRow) else row.open(None).render()):
            found.append(reader.read(row, whole))
        if scan.is_over():
            return ReceiptPage(found, row.id.hex())
    return ReceiptPage(found, None)


def select_one(connection: sqlite3.Connection, workspace: str, id: str) -> StoredReceipt | None:
    key, space = _encode_id(id), encode_text(workspace)
    if key is None:
        return None
    row = connection.execute(SELECT_ONE, (key, space)).fetchone()
    if row is not None:
        return ReceiptRow(*row)
    return find_noted(connection, space, key) or find_start(connection, space, key)


def _encode_id(id: str) -> bytes | None:
    """An id that a caller gave, None if it cannot be one."""
    return bytes.fromhex(id) if is_receipt_id(id) else None


def _decode(row: ReceiptRow) -> Receipt:
    """What the row itself says, without details."""
    session, agent, content = (
        None if one is None else decode_text(one) for one in (row.session, row.agent, row.content)
    )
    resources = tuple(decode_text(one) for one in row.resources.split(SEPARATOR) if one)
    workspace, summary = decode_text(row.workspace), bytes(row.summary)
    return Receipt(row.id.hex(), workspace, row.status, session, agent, content, resources, summary, b"{}")
