"""Receipts in a SQLite file of their own: their many small writes never hold up the policies'."""

import asyncio
import math
import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple, Self

from gateway.domain.exchange import ExchangeStatus
from gateway.domain.receipt import (
    STARTED,
    SWEPT,
    Receipt,
    ReceiptFilter,
    ReceiptPage,
    SharedDetails,
    is_receipt_id,
)
from gateway.ids import encode_id_time, read_id_time
from gateway.stores.codec import decode_text, encode_text
from gateway.stores.protocols import PRUNE_LIMIT, ReceiptScan
from gateway.stores.sqlite_connection import (
    CHECKPOINT_PAGES,
    SqliteThread,
    check_pages,
    create_file,
    enable_wal,
    transaction,
)
from gateway.stores.sqlite_migrations import RECEIPT_MIGRATIONS, migrate
from gateway.stores.sqlite_receipt_batches import TallyReceipts, encode_batch, read_shared, write_batch

CHECKED_PAGES = 16_384  # of 4 KB: to check a larger file would take longer than to start
CACHE_KB = 4000  # batches write at the ends of the indexes: few pages are needed again
OK = ExchangeStatus.OK.value
SEPARATOR = b"\n"  # between the ids of resources, which contain no control characters
ORDER_SECONDS = 60  # by which receipts may have come in another order than they began
MEASURED_WORKSPACES, MEASURED_RECEIPTS = 64, 50  # to find whose receipts take the most

COLUMNS = "workspace, id, status, session, agent, content, resources, boot, summary, shared"
DROP_SHARED = "DELETE FROM receipt_details WHERE used < ?"
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
SELECT_OLDEST = SELECT + "ORDER BY number LIMIT ?"  # as they came, which is about as old as they are
SELECT_OLDEST_OF = SELECT + "INDEXED BY receipts_workspace WHERE workspace = ? ORDER BY id LIMIT ?"
COUNT_BY_WORKSPACE = """SELECT workspace, count(*) AS receipts FROM receipts INDEXED BY receipts_workspace
    GROUP BY workspace ORDER BY receipts DESC LIMIT ?"""
MEASURE_SOME = """SELECT avg(length(summary) + length(details)) FROM (SELECT summary, details FROM receipts
    INDEXED BY receipts_workspace WHERE workspace = ? ORDER BY id LIMIT ?)"""
SELECT_DETAILS = "SELECT details FROM receipts WHERE number = ?"
RENEW = "INSERT INTO boots VALUES (?, ?) ON CONFLICT (boot) DO UPDATE SET expires = excluded.expires"
SWEEP = f"""UPDATE receipts SET status = '{SWEPT}' WHERE boot IS NOT NULL AND status = '{STARTED}'
    AND boot NOT IN (SELECT boot FROM boots WHERE expires > ?)"""


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


class WorkspaceShare(NamedTuple):
    """The receipts of a workspace: how many, and the bytes of one."""

    workspace: bytes
    receipts: int
    size: float

    def count_for(self, excess: int) -> int:
        """How many are deleted at once to make room for so many bytes."""
        return max(1, min(PRUNE_LIMIT, int(excess / self.size)))


class RowReader:
    """Makes receipts of rows; what they have in common is read once."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._shared: dict[bytes, SharedDetails | None] = {}

    def read(self, row: ReceiptRow, whole: bool) -> Receipt:
        receipt = _decode(row)
        if row.shared is not None:
            if row.shared not in self._shared:
                self._shared[row.shared] = read_shared(self._connection, row.shared)
            receipt.shared = self._shared[row.shared]
        if whole:
            own = self._connection.execute(SELECT_DETAILS, (row.number,)).fetchone()
            receipt.details = own[0] if own is not None else b"{}"
        merged = receipt.merge_shared()
        return merged if whole else replace(merged, details=b"")


class SqliteReceiptStore:
    """A ReceiptStore in a file that all workers on a machine share."""

    def __init__(self, writer: SqliteThread, reader: SqliteThread, *, clock: Callable[[], float] = time.time) -> None:
        self._writer, self._reader, self._clock = writer, reader, clock
        self.tally: TallyReceipts | None = None  # set by whoever counts: else each receipt waits to be counted

    @classmethod
    async def open(cls, path: Path, *, clock: Callable[[], float] = time.time) -> Self:
        """Open the file, created if absent; raises CorruptStore for a damaged or foreign one."""
        await asyncio.to_thread(create_file, path)
        writer, reader = SqliteThread(path, "receipts"), SqliteThread(path, "receipt-queries")
        await writer.open(_prepare_writer)
        try:
            await reader.open(_prepare_reader)
        except BaseException:
            await writer.close()
            raise
        return cls(writer, reader, clock=clock)

    async def write(self, receipts: Sequence[Receipt], boot: str) -> None:
        finished = [one for one in receipts if one.status != STARTED]
        sheet = await self.tally(finished) if self.tally is not None and finished else None
        batch = encode_batch(receipts, boot, sheet)
        if sheet is None or not await self._writer.run(partial(write_batch, batch)):
            await self._writer.run(partial(write_batch, batch.drop_sheet()))

    async def list_page(
        self, workspace: str, criteria: ReceiptFilter, after: str | None, take: int, whole: bool = False
    ) -> ReceiptPage:
        def work(connection: sqlite3.Connection) -> ReceiptPage:
            rows = _walk(connection, encode_text(workspace), criteria, after)
            return _build_page(connection, rows, criteria, take, whole)

        return await self._reader.run(work)

    async def find(self, workspace: str, id: str) -> Receipt | None:
        def work(connection: sqlite3.Connection) -> Receipt | None:
            row = _select_one(connection, workspace, id)
            return None if row is None else RowReader(connection).read(row, whole=True)

        return await self._reader.run(work)

    async def delete(self, workspace: str, id: str) -> bool:
        def work(connection: sqlite3.Connection) -> bool:
            with transaction(connection):
                row = _select_one(connection, workspace, id)
                _remove(connection, [row] if row is not None else [])
            return row is not None

        return await self._writer.run(work)

    async def renew(self, boot: str, seconds: float) -> None:
        expires = self._clock() + seconds
        await self._writer.run(lambda connection: connection.execute(RENEW, (boot, expires)).close())

    async def sweep(self) -> int:
        def work(connection: sqlite3.Connection) -> int:
            now = self._clock()
            with transaction(connection):
                left = connection.execute(SWEEP, (now,)).rowcount
                connection.execute("DELETE FROM boots WHERE expires <= ?", (now,))
            return left

        return await self._writer.run(work)

    async def prune(self, before: float, max_bytes: int) -> int:
        oldest_kept = bytes.fromhex(encode_id_time(before))

        def work(connection: sqlite3.Connection) -> int:
            used = _count_used_bytes(connection)
            too_large = used > max_bytes
            first = connection.execute("SELECT id FROM receipts ORDER BY number LIMIT 1").fetchone()
            if first is None or not (too_large or first[0] < oldest_kept):
                return 0  # as nearly always: no lock, and one row read
            largest = _find_largest(connection, used) if too_large else None
            with transaction(connection):
                if largest is not None:
                    found = connection.execute(
                        SELECT_OLDEST_OF, (largest.workspace, largest.count_for(used - max_bytes))
                    )
                else:
                    found = connection.execute(SELECT_OLDEST, (PRUNE_LIMIT,))
                gone = [row for row in map(ReceiptRow._make, found) if too_large or row.id < oldest_kept]
                _remove(connection, gone)
                _drop_shared(connection)
            return len(gone)

        return await self._writer.run(work)

    async def close(self) -> None:
        await self._reader.close()
        await self._writer.close()


def _prepare_writer(connection: sqlite3.Connection) -> None:
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    if pages <= CHECKED_PAGES:
        check_pages(connection)
    enable_wal(connection)
    connection.execute(f"PRAGMA cache_size = -{CACHE_KB}")
    connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
    migrate(connection, RECEIPT_MIGRATIONS)


def _prepare_reader(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA query_only = ON")
    connection.execute(f"PRAGMA cache_size = -{CACHE_KB}")


def _walk(
    connection: sqlite3.Connection, workspace: bytes, criteria: ReceiptFilter, after: str | None
) -> Iterable[ReceiptRow]:
    """The rows in question, newest first, by the index of the narrowest filter."""
    name, values = criteria.leading, [workspace]
    if name == "status" and criteria.status == OK:
        name = None  # nearly all are: their index is that of the workspace
    if name is not None:
        wanted = getattr(criteria, name)
        values.append(wanted if name == "status" else encode_text(wanted))
    query = SELECT_BY_COLUMN.format(index=name or "workspace", condition=CONDITIONS[name] if name is not None else "")
    rows = connection.execute(SELECT_BY_RESOURCE if name == "resource" else query, (*values, *_limit(criteria, after)))
    return (ReceiptRow(*row) for row in rows)


def _limit(criteria: ReceiptFilter, after: str | None) -> tuple[bytes, bytes]:
    """The first id that is wanted, and the one that no longer is."""
    begin = bytes.fromhex(encode_id_time(criteria.begin)) if criteria.begin is not None else b""
    end = bytes.fromhex(encode_id_time(criteria.end)) if criteria.end is not None else b"\xff"
    cursor = _encode_id(after) if after is not None else None
    return begin, end if cursor is None else min(end, cursor)


def _build_page(
    connection: sqlite3.Connection, rows: Iterable[ReceiptRow], criteria: ReceiptFilter, take: int, whole: bool
) -> ReceiptPage:
    found: list[Receipt] = []
    scan, reader = ReceiptScan(), RowReader(connection)
    for row in rows:
        if len(found) == take:
            return ReceiptPage(found, found[-1].id)
        receipt = _decode(row)
        if criteria.matches(receipt):
            found.append(reader.read(row, whole))
        if scan.is_over():
            return ReceiptPage(found, receipt.id)
    return ReceiptPage(found, None)


def _select_one(connection: sqlite3.Connection, workspace: str, id: str) -> ReceiptRow | None:
    key = _encode_id(id)
    row = connection.execute(SELECT_ONE, (key, encode_text(workspace))).fetchone() if key is not None else None
    return None if row is None else ReceiptRow(*row)


def _find_largest(connection: sqlite3.Connection, used: int) -> WorkspaceShare:
    """The workspace whose receipts take the most; an estimate by their number and the size of some of them.

    `used` are the bytes of all: receipts take more than their texts, in indexes and in what is left of pages.
    """
    shares = []
    for workspace, count in connection.execute(COUNT_BY_WORKSPACE, (MEASURED_WORKSPACES,)).fetchall():
        (size,) = connection.execute(MEASURE_SOME, (workspace, MEASURED_RECEIPTS)).fetchone()
        shares.append(WorkspaceShare(workspace, count, size))
    scale = used / sum(one.receipts * one.size for one in shares)
    largest = max(shares, key=lambda one: one.receipts * one.size)
    return largest._replace(size=largest.size * max(1.0, scale))


def _drop_shared(connection: sqlite3.Connection) -> None:
    """Delete shared details that no receipt has any more: receipts are deleted about as they came."""
    first = connection.execute("SELECT id FROM receipts ORDER BY number LIMIT 1").fetchone()
    oldest = read_id_time(first[0].hex()) if first is not None else math.inf
    connection.execute(DROP_SHARED, (oldest - ORDER_SECONDS,))


def _remove(connection: sqlite3.Connection, rows: Sequence[ReceiptRow]) -> None:
    numbers = [(row.number,) for row in rows]
    used = [(row.workspace, one, row.id) for row in rows for one in row.resources.split(SEPARATOR)]
    connection.executemany("DELETE FROM receipt_resources WHERE workspace = ? AND resource = ? AND id = ?", used)
    connection.executemany("DELETE FROM receipts WHERE number = ?", numbers)


def _count_used_bytes(connection: sqlite3.Connection) -> int:
    """What the receipts take of the file, without the pages that deleted ones have left."""
    pages, free, size = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * size)


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
