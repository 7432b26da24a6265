"""Receipts in a SQLite file of their own: their many small writes never hold up the policies'."""

import asyncio
import sqlite3
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Self

from gateway.domain.receipt import STARTED, SWEPT, Receipt, ReceiptFilter, ReceiptPage
from gateway.domain.receipt_note import ReceiptBatch
from gateway.ids import encode_id_time
from gateway.stores.codec import encode_text
from gateway.stores.sqlite_connection import (
    CHECKPOINT_PAGES,
    SqliteThread,
    check_pages,
    create_file,
    enable_wal,
    transaction,
)
from gateway.stores.sqlite_migrations import RECEIPT_MIGRATIONS, migrate
from gateway.stores.sqlite_receipt_batches import (
    EncodedBatch,
    TallyReceipts,
    encode_batch,
    encode_written_out,
    find_stored,
    write_batch,
    write_out_left,
)
from gateway.stores.sqlite_receipt_notes import NotePosition, remove_noted
from gateway.stores.sqlite_receipt_pages import ReceiptReader, ReceiptRow, build_page, select_one, walk
from gateway.stores.sqlite_receipt_pruning import prune, remove_rows
from gateway.stores.sqlite_receipt_starts import EndedStarts, OpenStarts, remove_start

CHECKED_PAGES = 16_384  # of 4 KB: to check a larger file would take longer than to start
CACHE_KB = 1000  # batches write at the ends of the indexes: few pages are needed again
RENEW = "INSERT INTO boots VALUES (?, ?) ON CONFLICT (boot) DO UPDATE SET expires = excluded.expires"
SWEEP = f"""UPDATE receipts SET status = '{SWEPT}' WHERE boot IS NOT NULL AND status = '{STARTED}'
    AND boot NOT IN (SELECT boot FROM boots WHERE expires > ?)"""


class SqliteReceiptStore:
    """A ReceiptStore in a file that all workers on a machine share."""

    def __init__(self, writer: SqliteThread, reader: SqliteThread, *, clock: Callable[[], float] = time.time) -> None:
        self._writer, self._reader, self._clock = writer, reader, clock
        self._open = OpenStarts()
        self._unsure = set[str]()  # ids of noted receipts that may have been stored although that was not said
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

    async def write(self, receipts: ReceiptBatch, boot: str) -> None:
        receipts.sort()
        try:
            await self._write(receipts, boot)
        except BaseException:  # it is not known what became of them; they may be tried again among others
            self._unsure.update(one.id for one in receipts.list_noted())
            raise
        if self._unsure:
            self._unsure.difference_update(one.id for one in receipts.list_noted())

    async def _write(self, receipts: ReceiptBatch, boot: str) -> None:
        finished = receipts.list_finished_ids() if self._open else []
        ended = self._open.find_ended(finished)
        if self._unsure:
            receipts = await self._drop_stored(receipts)
        batch = await self._encode_counted(receipts, boot, ended)
        numbers = await self._writer.run(partial(write_batch, batch)) if batch is not None else None
        if batch is None or numbers is None:
            batch = encode_written_out(await self._drop_stored(receipts), boot, ended)
            numbers = await self._writer.run(partial(write_batch, batch))
        self._open.remove(finished, ended)
        for number, started in zip(numbers or (), batch.starts, strict=True):
            self._open.add(number, started.ids)

    async def _encode_counted(self, receipts: ReceiptBatch, boot: str, ended: EndedStarts) -> EncodedBatch | None:
        """A batch with its sheet, or one that needs none; None: what is noted cannot be counted that way."""
        is_counted = self.tally is not None and (receipts.noted or receipts.finished)
        sheet = await self.tally(receipts) if self.tally is not None and is_counted else None
        return encode_batch(receipts, boot, sheet, ended) if sheet is not None or not receipts.noted else None

    async def _drop_stored(self, receipts: ReceiptBatch) -> ReceiptBatch:
        """Receipts without noted ones that are stored: a write that seemed to fail may have taken effect."""
        noted = receipts.list_noted()
        if not noted:
            return receipts
        known = await self._writer.run(partial(find_stored, noted))
        return ReceiptBatch(one for one in receipts if one.id not in known)

    async def list_page(
        self, workspace: str, criteria: ReceiptFilter, after: str | None, take: int, whole: bool = False
    ) -> ReceiptPage:
        def work(connection: sqlite3.Connection) -> ReceiptPage:
            found = walk(connection, encode_text(workspace), criteria, after)
            return build_page(connection, found, criteria, take, whole)

        return await self._reader.run(work)

    async def find(self, workspace: str, id: str) -> Receipt | None:
        def work(connection: sqlite3.Connection) -> Receipt | None:
            found = select_one(connection, workspace, id)
            return None if found is None else ReceiptReader(connection).read(found, whole=True)

        return await self._reader.run(work)

    async def delete(self, workspace: str, id: str) -> bool:
        def work(connection: sqlite3.Connection) -> bool:
            with transaction(connection):
                found = select_one(connection, workspace, id)
                if isinstance(found, NotePosition):
                    remove_noted(connection, found)
                elif isinstance(found, ReceiptRow):
                    remove_rows(connection, [found])
                if found is not None:  # what has ended may still stand among the started
                    remove_start(connection, encode_text(workspace), found.id)
            return found is not None

        return await self._writer.run(work)

    async def renew(self, boot: str, seconds: float) -> None:
        expires = self._clock() + seconds
        await self._writer.run(lambda connection: connection.execute(RENEW, (boot, expires)).close())

    async def sweep(self) -> int:
        def work(connection: sqlite3.Connection) -> int:
            now = self._clock()
            with transaction(connection):
                write_out_left(connection, now)
                left = connection.execute(SWEEP, (now,)).rowcount
                connection.execute("DELETE FROM boots WHERE expires <= ?", (now,))
            return left

        return await self._writer.run(work)

    async def prune(self, before: float, max_bytes: int) -> int:
        oldest_kept = bytes.fromhex(encode_id_time(before))
        return await self._writer.run(partial(prune, oldest_kept, max_bytes))

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
