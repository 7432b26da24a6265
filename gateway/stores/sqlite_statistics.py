"""Figures in the file of the receipts: a receipt is finished, and waits to be counted, in one transaction."""

import asyncio
import sqlite3
from collections.abc import Mapping, Sequence
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, Self

import msgspec

from gateway.domain.receipt import STARTED, Receipt, SharedDetails
from gateway.domain.statistics import (
    Bucket,
    KeyChoice,
    KeyPrefix,
    Span,
    StatisticsLimits,
    StatisticsRow,
    Tallies,
    Tally,
    UncountedBatch,
)
from gateway.stores.codec import decode_text, encode_text
from gateway.stores.sqlite_connection import (
    CHECKPOINT_PAGES,
    SqliteThread,
    create_file,
    enable_wal,
    split_keys,
    transaction,
)
from gateway.stores.sqlite_migrations import RECEIPT_MIGRATIONS, migrate
from gateway.stores.sqlite_receipt_batches import read_shared, write_out_lists
from gateway.stores.statistics import BucketState, StoredRow, add_up, choose_surplus, list_keys, split_sketches

CACHE_KB = 2000
ATTEMPTS = 5  # while others add to rows at the same time
SHEET_BYTES = 1_000_000  # of sheets that are counted at once
OPEN_SECONDS = 10.0  # the first time, all receipts that there are wait to be counted

# Triggers, since a receipt ends in several ways: written as finished, finished later, or swept. Those of a batch with a
# sheet are counted by it, and not by the sheet if they were swept before.
# A mark goes with its receipt, whose number another one may get. Of two marks there would be an error in spite of OR
# IGNORE: within an upsert that does not count.
MARK = "INSERT INTO uncounted SELECT new.number WHERE NOT EXISTS (SELECT 1 FROM uncounted WHERE receipt = new.number)"
TRIGGERS = {
    "uncounted_insert": f"""AFTER INSERT ON receipts WHEN new.status <> '{STARTED}' AND new.counted IS NULL
        BEGIN {MARK}; END""",
    "uncounted_update": f"""AFTER UPDATE OF status ON receipts WHEN old.status = '{STARTED}'
        AND new.status <> '{STARTED}' AND new.counted IS NULL
        BEGIN {MARK}; END""",
    "uncounted_late": f"""BEFORE UPDATE OF status ON receipts WHEN old.status <> '{STARTED}'
        AND new.counted IS NOT NULL BEGIN SELECT RAISE(ABORT, 'it was swept'); END""",
    "uncounted_delete": "AFTER DELETE ON receipts BEGIN DELETE FROM uncounted WHERE receipt = old.number; END",
}
SELECT_TRIGGERS = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND name LIKE 'uncounted_%'"
QUEUE_ALL = f"INSERT OR IGNORE INTO uncounted SELECT number FROM receipts WHERE status <> '{STARTED}'"
SELECT_UNCOUNTED = """SELECT u.receipt, r.id, r.workspace, r.status, r.session, r.agent, r.summary, r.details, r.shared
    FROM uncounted u LEFT JOIN receipts r ON r.number = u.receipt ORDER BY u.receipt LIMIT ?"""
SELECT_SHEETS = "SELECT number, body FROM uncounted_sheets ORDER BY number"
DELETE_SHEETS = "DELETE FROM uncounted_sheets WHERE number BETWEEN ? AND ?"
COUNT_MARKS = "SELECT count(*) FROM uncounted WHERE receipt BETWEEN ? AND ?"
WHERE = "workspace = ? AND series = ? AND span = ? AND start"
SELECT_ROWS = f"SELECT key, counters FROM statistics WHERE {WHERE} = ? AND key IN "
SELECT_SKETCHES = """SELECT start, key, sketches FROM statistic_sketches
    WHERE workspace = ? AND series = ? AND start >= ? AND start < ?"""
PUT_SKETCHES = """INSERT INTO statistic_sketches VALUES (?, ?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET sketches = excluded.sketches"""
DELETE_SKETCHES = "DELETE FROM statistic_sketches WHERE workspace = ? AND series = ? AND key = ? AND start = ?"
COUNT_ROWS = f"SELECT rows FROM statistic_buckets WHERE {WHERE} = ?"
PUT_ROW = """INSERT INTO statistics VALUES (?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET counters = excluded.counters, touched = excluded.touched"""
GROW_BUCKET = """INSERT INTO statistic_buckets VALUES (?, ?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET rows = rows + excluded.rows"""
NEXT_VERSION = "UPDATE statistic_version SET number = number + 1"
FORGET = f"DELETE FROM statistics WHERE {WHERE} = 0 AND touched < ?"


class SqliteStatisticsStore:
    """A StatisticsStore in a file that all workers on a machine share."""

    def __init__(self, writer: SqliteThread, reader: SqliteThread) -> None:
        self._writer, self._reader = writer, reader

    @classmethod
    async def open(cls, path: Path, *, enabled: bool = True) -> Self:
        """Open the file of the receipts; from then on finished ones wait to be counted, or no longer do."""
        await asyncio.to_thread(create_file, path)
        writer, reader = SqliteThread(path, "statistics"), SqliteThread(path, "statistic-queries")
        await writer.open(_prepare_writer)
        try:
            await writer.run(_enable if enabled else _disable, OPEN_SECONDS)
            await reader.open(_prepare_reader)
        except BaseException:
            await writer.close()
            raise
        return cls(writer, reader)

    async def read_uncounted(self, take: int) -> UncountedBatch:
        def work(connection: sqlite3.Connection) -> UncountedBatch:
            rows = connection.execute(SELECT_UNCOUNTED, (take,)).fetchall()
            shared = {key: read_shared(connection, key) for key in {row[8] for row in rows}}
            receipts = [_decode_receipt(row, shared[row[8]]) for row in rows if row[1] is not None]
            sheets = _read_sheets(connection)
            bodies, numbers = [body for _, body in sheets], [number for number, _ in sheets]
            return UncountedBatch(receipts, [row[0] for row in rows], bodies, numbers)

        return await self._reader.run(work)

    async def add(self, tallies: Tallies, counted: UncountedBatch, now: float) -> bool:
        """Rows are read and added up without a lock: what writes receipts waits for the new values only."""
        for _ in range(ATTEMPTS):
            known = await self._reader.run(partial(_read_states, tallies))
            update = await asyncio.to_thread(_add_up_rows, tallies, known, now)
            outcome = await self._writer.run(partial(_write_update, update, counted))
            if outcome is not UpdateOutcome.OVERTAKEN:
                return outcome is UpdateOutcome.ADDED
        return False

    async def read(
        self, bucket: Bucket, end: int, keys: KeyChoice = None, sketches: bool = False
    ) -> list[StatisticsRow]:
        values = [*_encode_bucket(bucket), max(end, bucket.start + 1)]
        condition, wanted = _choose_keys(keys)
        query = f"SELECT start, key, counters FROM statistics WHERE {WHERE} >= ? AND start < ?{condition}"

        def work(connection: sqlite3.Connection) -> list[StatisticsRow]:
            rows = connection.execute(f"{query} ORDER BY start, key", [*values, *wanted])
            if not sketches:
                return [StatisticsRow(start, decode_text(key), counters) for start, key, counters in rows]
            found = connection.execute(SELECT_SKETCHES + condition, [*values[:2], *values[3:], *wanted])
            known = {(start, key): split_sketches(joined) for start, key, joined in found}
            return [
                StatisticsRow(start, decode_text(key), counters, known.get((start, key), ()))
                for start, key, counters in rows
            ]

        return await self._reader.run(work)

    async def prune(self, limits: StatisticsLimits) -> int:
        workspaces = await self._reader.run(
            lambda connection: connection.execute("SELECT DISTINCT workspace FROM statistic_buckets").fetchall()
        )
        return sum([await self._prune_workspace(one[0], limits) for one in workspaces])

    async def close(self) -> None:
        await self._reader.close()
        await self._writer.close()

    async def _prune_workspace(self, workspace: bytes, limits: StatisticsLimits) -> int:
        """One transaction per bucket, so that writers of receipts get their turn."""
        found = await self._reader.run(
            lambda connection: connection.execute(
                "SELECT series, span, start, rows FROM statistic_buckets WHERE workspace = ?", (workspace,)
            ).fetchall()
        )
        name = decode_text(workspace)
        gone = choose_surplus([(Bucket(name, *row[:3]), row[3]) for row in found], limits)
        deleted = 0
        for bucket in gone:
            deleted += await self._writer.run(partial(_delete_bucket, bucket))
        before = limits.oldest.get(Span.DAY, 0.0)
        for series in {row[0] for row in found if row[1] == Span.EVER}:
            ever = Bucket(name, series, Span.EVER, 0)
            deleted += await self._writer.run(partial(_forget, ever, before))
        return deleted


class UpdateOutcome(Enum):
    """What became of an update."""

    ADDED = 1
    OVERTAKEN = 2  # somebody else has added to rows since they were read
    COUNTED = 3  # somebody else has counted the same receipts


class KnownStates(msgspec.Struct, frozen=True):
    """The rows in question as they were read, and the number that changes with every update."""

    version: int
    states: Mapping[Bucket, BucketState]


class RowUpdate(msgspec.Struct, frozen=True):
    """New values of rows, and by how much buckets grow."""

    version: int
    rows: Sequence[tuple[object, ...]]
    sketches: Sequence[tuple[object, ...]]
    growth: Sequence[tuple[object, ...]]


def _prepare_writer(connection: sqlite3.Connection) -> None:
    enable_wal(connection)
    connection.execute(f"PRAGMA cache_size = -{CACHE_KB}")
    connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")  # by default, each count would do it
    migrate(connection, RECEIPT_MIGRATIONS)


def _prepare_reader(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA query_only = ON")
    connection.execute(f"PRAGMA cache_size = -{CACHE_KB}")


def _enable(connection: sqlite3.Connection) -> None:
    wanted = {name: f"CREATE TRIGGER {name} {body}" for name, body in TRIGGERS.items()}
    if dict(connection.execute(SELECT_TRIGGERS).fetchall()) == wanted:
        return
    with transaction(connection):  # which replaces those of an earlier release without a gap
        for name, statement in wanted.items():
            connection.execute(f"DROP TRIGGER IF EXISTS {name}")
            connection.execute(statement)
        if connection.execute("SELECT 1 FROM statistic_buckets LIMIT 1").fetchone() is None:
            write_out_lists(connection)
            connection.execute(QUEUE_ALL)
            connection.execute("DELETE FROM uncounted_sheets")  # of receipts that wait now themselves


def _disable(connection: sqlite3.Connection) -> None:
    if connection.execute(SELECT_TRIGGERS).fetchone() is not None:
        with transaction(connection):
            for name in TRIGGERS:
                connection.execute(f"DROP TRIGGER IF EXISTS {name}")
            connection.execute("DELETE FROM uncounted")
            connection.execute("DELETE FROM uncounted_sheets")


def _read_sheets(connection: sqlite3.Connection) -> list[tuple[int, bytes]]:
    """The oldest sheets, as many as are counted at once; at least one."""
    sheets: list[tuple[int, bytes]] = []
    size = 0
    for number, body in connection.execute(SELECT_SHEETS):
        sheets.append((number, body))
        size += len(body)
        if size > SHEET_BYTES:
            break
    return sheets


def _read_states(tallies: Tallies, connection: sqlite3.Connection) -> KnownStates:
    connection.execute("BEGIN")  # one state of the file for all queries
    try:
        (version,) = connection.execute("SELECT number FROM statistic_version").fetchone()
        return KnownStates(version, {one: _read_state(connection, one, added) for one, added in tallies.items()})
    finally:
        connection.execute("COMMIT")


def _read_state(connection: sqlite3.Connection, bucket: Bucket, added: Mapping[str, Tally]) -> BucketState:
    where = _encode_bucket(bucket)
    workspace, series, span, start = where
    rows: dict[str, StoredRow] = {}
    for part in split_keys([encode_text(key) for key in list_keys(added)]):
        places = f"({', '.join('?' * len(part))})"
        sketches: dict[bytes, bytes] = {}
        if span == Span.DAY:
            query = f"{SELECT_SKETCHES} AND key IN {places}"
            found = connection.execute(query, (workspace, series, start, start + 1, *part))
            sketches = {key: joined for _, key, joined in found}
        for key, counters in connection.execute(SELECT_ROWS + places, (*where, *part)):
            rows[decode_text(key)] = StoredRow(counters, sketches.get(key, b""))
    size = connection.execute(COUNT_ROWS, where).fetchone()
    return BucketState(rows, size[0] if size is not None else 0)


def _add_up_rows(tallies: Tallies, known: KnownStates, now: float) -> RowUpdate:
    rows: list[tuple[object, ...]] = []
    sketches: list[tuple[object, ...]] = []
    growth: list[tuple[object, ...]] = []
    for bucket, added in tallies.items():
        state, where = known.states[bucket], _encode_bucket(bucket)
        changed = add_up(bucket, added, state)
        rows += [(*where, encode_text(key), row.counters, now) for key, row in changed.items()]
        sketches += [
            (*where[:2], encode_text(key), bucket.start, row.sketches) for key, row in changed.items() if row.sketches
        ]
        new = len(changed.keys() - state.rows.keys())
        if new:
            growth.append((*where, new))
    return RowUpdate(known.version, rows, sketches, growth)


def _write_update(update: RowUpdate, counted: UncountedBatch, connection: sqlite3.Connection) -> UpdateOutcome:
    connection.execute("BEGIN IMMEDIATE")
    outcome = UpdateOutcome.OVERTAKEN
    try:
        query = "UPDATE statistic_version SET number = number + 1 WHERE number = ?"
        if connection.execute(query, (update.version,)).rowcount == 1:
            whole = _take_marks(connection, counted.marks) == len(counted.marks)
            whole = whole and _take_sheets(connection, counted.sheet_marks) == len(counted.sheet_marks)
            outcome = UpdateOutcome.ADDED if whole else UpdateOutcome.COUNTED
        if outcome is UpdateOutcome.ADDED:
            connection.executemany(PUT_ROW, update.rows)
            connection.executemany(PUT_SKETCHES, update.sketches)
            connection.executemany(GROW_BUCKET, update.growth)
        connection.execute("COMMIT" if outcome is UpdateOutcome.ADDED else "ROLLBACK")
    except BaseException:
        connection.rollback()
        raise
    return outcome


def _take_marks(connection: sqlite3.Connection, marks: Sequence[int | str]) -> int:
    """Delete marks, which are in order; returns how many of them there were."""
    if not marks:
        return 0
    span = (marks[0], marks[-1])
    if connection.execute(COUNT_MARKS, span).fetchone()[0] == len(marks):
        # Nearly always: no exchange that began before others has ended since.
        return connection.execute("DELETE FROM uncounted WHERE receipt BETWEEN ? AND ?", span).rowcount
    taken = 0
    for part in split_keys(marks):
        places = ", ".join("?" * len(part))
        taken += connection.execute(f"DELETE FROM uncounted WHERE receipt IN ({places})", part).rowcount
    return taken


def _take_sheets(connection: sqlite3.Connection, marks: Sequence[int]) -> int:
    return connection.execute(DELETE_SHEETS, (marks[0], marks[-1])).rowcount if marks else 0


def _delete_bucket(bucket: Bucket, connection: sqlite3.Connection) -> int:
    where = _encode_bucket(bucket)
    with transaction(connection):
        connection.execute(NEXT_VERSION)
        connection.execute(f"DELETE FROM statistic_buckets WHERE {WHERE} = ?", where)
        if bucket.span == Span.DAY:
            keys = connection.execute(f"SELECT key FROM statistics WHERE {WHERE} = ?", where).fetchall()
            connection.executemany(DELETE_SKETCHES, [(*where[:2], key, bucket.start) for (key,) in keys])
        return connection.execute(f"DELETE FROM statistics WHERE {WHERE} = ?", where).rowcount


def _forget(ever: Bucket, before: float, connection: sqlite3.Connection) -> int:
    """Delete the rows of a bucket that never ends which nothing was added to since a time."""
    where = _encode_bucket(ever)
    with transaction(connection):
        connection.execute(NEXT_VERSION)
        gone = connection.execute(FORGET, (*where[:3], before)).rowcount
        if gone:
            connection.execute(GROW_BUCKET, (*where, -gone))
    return gone


def _choose_keys(keys: KeyChoice) -> tuple[str, list[bytes]]:
    """A condition and its values."""
    if keys is None:
        return "", []
    if isinstance(keys, KeyPrefix):
        prefix = encode_text(keys.text)
        return " AND key >= ? AND key < ?", [prefix, prefix + b"\xff"]  # no text contains this byte
    return f" AND key IN ({', '.join('?' * len(keys))})", [encode_text(key) for key in keys]


def _encode_bucket(bucket: Bucket) -> tuple[bytes, str, int, int]:
    return encode_text(bucket.workspace), bucket.series, int(bucket.span), bucket.start


def _decode_receipt(row: Sequence[Any], shared: SharedDetails | None) -> Receipt:
    _, id, workspace, status, session, agent, summary, details, _ = row
    return Receipt(
        id.hex(),
        decode_text(workspace),
        status,
        None if session is None else decode_text(session),
        None if agent is None else decode_text(agent),
        summary=summary,
        details=details,
        shared=shared,
    )
