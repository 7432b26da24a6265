"""Which receipts are deleted from SQLite: those that are too old, and while all are too large, the oldest of whoever
has the most."""

import math
import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from gateway.ids import read_id_time
from gateway.stores.protocols import PRUNE_LIMIT
from gateway.stores.sqlite_connection import transaction
from gateway.stores.sqlite_receipt_notes import NoteRow, remove_lists, select_oldest
from gateway.stores.sqlite_receipt_pages import SELECT, SEPARATOR, ReceiptRow

ORDER_SECONDS = 60  # by which receipts may have come in another order than they began
MEASURED_WORKSPACES, MEASURED_RECEIPTS = 64, 50  # to find whose receipts take the most

DROP_SHARED = "DELETE FROM receipt_details WHERE used < ?"
SELECT_OLDEST = SELECT + "ORDER BY number LIMIT ?"  # as they came, which is about as old as they are
SELECT_OLDEST_OF = SELECT + "INDEXED BY receipts_workspace WHERE workspace = ? ORDER BY id LIMIT ?"
SELECT_FIRST = (
    "SELECT id FROM receipts ORDER BY number LIMIT 1",
    "SELECT last FROM receipt_notes ORDER BY number LIMIT 1",
)
SELECT_FIRST_START = "SELECT first FROM receipt_starts ORDER BY number LIMIT 1"
COUNT_BY_WORKSPACE = """SELECT workspace, count(*) AS receipts FROM receipts INDEXED BY receipts_workspace
    GROUP BY workspace ORDER BY receipts DESC LIMIT ?"""
MEASURE_SOME = """SELECT avg(length(summary) + length(details)) FROM (SELECT summary, details FROM receipts
    INDEXED BY receipts_workspace WHERE workspace = ? ORDER BY id LIMIT ?)"""
# The indexes alone say how many there are: to read all rows would take seconds.
COUNT_LISTS = """SELECT workspace, count(*) AS lists FROM receipt_notes INDEXED BY receipt_notes_workspace
    GROUP BY workspace ORDER BY lists DESC LIMIT ?"""
MEASURE_LISTS = """SELECT avg(receipts), avg(length(body)) FROM (SELECT receipts, body FROM receipt_notes
    INDEXED BY receipt_notes_workspace WHERE workspace = ? ORDER BY last LIMIT ?)"""


class WorkspaceShare(NamedTuple):
    """The receipts of a workspace: how many, and their bytes, about."""

    workspace: bytes
    receipts: float
    size: float

    def count_for(self, excess: float) -> int:
        """How many are deleted at once to make room for so many bytes."""
        return max(1, min(PRUNE_LIMIT, int(excess * self.receipts / self.size)))


def prune(oldest_kept: bytes, max_bytes: int, connection: sqlite3.Connection) -> int:
    """Delete some receipts, if any has to go; returns how many. A list goes when the newest receipt in it may."""
    used = count_used_bytes(connection)
    too_large, oldest = used > max_bytes, find_oldest(connection)
    if oldest is None or not (too_large or oldest < oldest_kept):
        return 0  # as nearly always: no lock, and two rows read
    largest = find_largest(connection, used) if too_large else None
    with transaction(connection):
        limit = largest.count_for(used - max_bytes) if largest is not None else PRUNE_LIMIT
        gone = choose_oldest(connection, limit, largest.workspace if largest is not None else None)
        gone = [one for one in gone if too_large or get_newest(one) < oldest_kept]
        remove_rows(connection, [one for one in gone if isinstance(one, ReceiptRow)])
        remove_lists(connection, [one for one in gone if isinstance(one, NoteRow)])
        drop_shared(connection)
    return sum(one.receipts if isinstance(one, NoteRow) else 1 for one in gone)


def choose_oldest(connection: sqlite3.Connection, limit: int, workspace: bytes | None) -> list[ReceiptRow | NoteRow]:
    """The oldest of all or of one workspace: no more receipts than that, but at least one row."""
    query, values = (SELECT_OLDEST, (limit,)) if workspace is None else (SELECT_OLDEST_OF, (workspace, limit))
    found: list[ReceiptRow | NoteRow] = [*map(ReceiptRow._make, connection.execute(query, values))]
    found += select_oldest(connection, limit, workspace)
    chosen: list[ReceiptRow | NoteRow] = []
    count = 0
    for one in sorted(found, key=get_newest):
        count += one.receipts if isinstance(one, NoteRow) else 1
        if chosen and count > limit:
            break
        chosen.append(one)
    return chosen


def get_newest(row: ReceiptRow | NoteRow) -> bytes:
    return row.last if isinstance(row, NoteRow) else row.id


def find_oldest(connection: sqlite3.Connection) -> bytes | None:
    """The id of the receipt that came first, about."""
    found = [row[0] for query in SELECT_FIRST if (row := connection.execute(query).fetchone()) is not None]
    return min(found, default=None)


def find_largest(connection: sqlite3.Connection, used: int) -> WorkspaceShare:
    """The workspace whose receipts take the most; an estimate by their number and the size of some of them.

    `used` are the bytes of all: receipts take more than their texts, in indexes and in what is left of pages.
    """
    shares = dict[bytes, WorkspaceShare]()
    for workspace, count in connection.execute(COUNT_LISTS, (MEASURED_WORKSPACES,)).fetchall():
        receipts, size = connection.execute(MEASURE_LISTS, (workspace, MEASURED_RECEIPTS)).fetchone()
        shares[workspace] = WorkspaceShare(workspace, count * receipts, count * size)
    for workspace, count in connection.execute(COUNT_BY_WORKSPACE, (MEASURED_WORKSPACES,)).fetchall():
        (size,) = connection.execute(MEASURE_SOME, (workspace, MEASURED_RECEIPTS)).fetchone()
        _, noted, bytes_noted = shares.get(workspace, (workspace, 0.0, 0.0))
        shares[workspace] = WorkspaceShare(workspace, noted + count, bytes_noted + count * size)
    scale = used / sum(one.size for one in shares.values())
    largest = max(shares.values(), key=lambda one: one.size)
    return largest._replace(size=largest.size * max(1.0, scale))


def drop_shared(connection: sqlite3.Connection) -> None:
    """Delete shared details that no receipt has any more: receipts are deleted about as they came."""
    ids = [find_oldest(connection), *(row[0] for row in connection.execute(SELECT_FIRST_START))]
    oldest = min([read_id_time(id.hex()) for id in ids if id is not None], default=math.inf)
    connection.execute(DROP_SHARED, (oldest - ORDER_SECONDS,))


def remove_rows(connection: sqlite3.Connection, rows: Sequence[ReceiptRow]) -> None:
    numbers = [(row.number,) for row in rows]
    used = [(row.workspace, one, row.id) for row in rows for one in row.resources.split(SEPARATOR)]
    connection.executemany("DELETE FROM receipt_resources WHERE workspace = ? AND resource = ? AND id = ?", used)
    connection.executemany("DELETE FROM receipts WHERE number = ?", numbers)


def count_used_bytes(connection: sqlite3.Connection) -> int:
    """What the receipts take of the file, without the pages that deleted ones have left."""
    pages, free, size = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * size)
