"""Records in the embedded store's file.

A commit is one transaction that is on disk before it is acknowledged: the file's usual `synchronous = NORMAL` lets a
power cut undo the last moments, which is fine for hidden turns but not for a revoked key or a policy. Policies change
rarely, so the extra fsync per commit does not matter.
"""

import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple
from uuid import uuid4

from gateway.domain.record import Author, FeedPosition, Record, RecordBatch, RecordKey, RecordWrite
from gateway.errors import VersionConflict
from gateway.stores.codec import decode_text, encode_text
from gateway.stores.protocols import PRUNE_LIMIT, AuditEntryPage, AuditFilter, RecordPage
from gateway.stores.sqlite_audit import MAX_INTEGER, build_audit_statement, read_audit_page
from gateway.stores.sqlite_connection import OPERATION_SECONDS, SqliteThreads, transaction
from gateway.stores.sqlite_content import read_whole, replace_links

BATCH_ROWS = 50  # of any size, so that the reads of a chat can run between those of a large load
BYTES_PER_SECOND = 10_000_000  # the speed of a slow disk; a large import gets the time that it needs

SELECT_HEAD = "SELECT epoch, number FROM history"
# The body of an object with an outline is not read: it may be large, and there may be many.
SELECT_CHANGES = """SELECT o.number, o.workspace, o.kind, o.alias, v.id, v.version,
    CASE WHEN o.outlined = o.version THEN o.outline ELSE v.body END, v.at, v.author, v.action,
    CASE WHEN o.outlined = o.version THEN length(v.body) END
    FROM objects AS o JOIN versions AS v ON v.object = o.object AND v.version = o.version
    WHERE o.number > ? ORDER BY o.number LIMIT ?"""
SELECT_OBJECT = "SELECT object, version - oldest + 1 FROM objects WHERE workspace = ? AND kind = ? AND alias = ?"
SELECT_VERSIONS = "SELECT id, version, body, at, author, action FROM versions WHERE object = ?"
SELECT_VERSION_PAGE = SELECT_VERSIONS + " ORDER BY version DESC LIMIT ? OFFSET ?"
SELECT_STATE = "SELECT object, id, live, version FROM objects WHERE workspace = ? AND kind = ? AND alias = ?"
SELECT_SURPLUS = "SELECT object, oldest, version FROM objects WHERE version - oldest >= ? LIMIT ?"

INSERT_OBJECT = """INSERT INTO objects (workspace, kind, alias, id, live, version, oldest, number, outline,
    outlined, creator) VALUES (?, ?, ?, ?, 1, 1, 1, ?, ?, ?, ?) RETURNING object"""
UPDATE_OBJECT = """UPDATE objects SET id = ?, live = ?, version = ?, number = ?, outline = ?, outlined = ?,
    creator = CASE WHEN live THEN creator ELSE ? END WHERE object = ?"""
INSERT_VERSION = "INSERT INTO versions (object, version, id, body, at, author, action) VALUES (?, ?, ?, ?, ?, ?, ?)"
INSERT_AUDIT = """INSERT INTO audit (number, workspace, kind, alias, version, at, author, action, changes, author_key)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
DELETE_VERSIONS = "DELETE FROM versions WHERE object = ? AND version < ?"
DELETE_AUDIT = "DELETE FROM audit WHERE number IN (SELECT number FROM audit WHERE at < ? ORDER BY at LIMIT ?)"


class SqliteRecordStore:
    """A RecordStore on the threads of a SqliteEphemeralStore, which also closes them."""

    def __init__(self, threads: SqliteThreads, *, clock: Callable[[], float] = time.time) -> None:
        self.threads = threads
        self._clock = clock

    async def load(self) -> RecordBatch:
        head = await self.threads.reader.run(_read_head)
        everything = await self._read_since(FeedPosition(head.epoch, 0))
        return RecordBatch(everything.position, tuple(r for r in everything.records if r.body is not None))

    async def read_changes(self, since: FeedPosition) -> RecordBatch | None:
        head = await self.threads.reader.run(_read_head)
        if head.epoch != since.epoch or head.number < since.number:
            return None
        return RecordBatch(since, ()) if head == since else await self._read_since(since)

    async def commit(self, writes: Sequence[RecordWrite], author: Author) -> list[Record]:
        now = self._clock()

        def work(connection: sqlite3.Connection) -> list[Record]:
            with _force_full_sync(connection), transaction(connection):
                return _apply_writes(connection, writes, author, now)

        size = sum(len(write.body or b"") + len(write.changes) for write in writes)
        return await self.threads.writer.run(work, OPERATION_SECONDS + size / BYTES_PER_SECOND)

    async def read(self, keys: Sequence[RecordKey]) -> dict[RecordKey, Record]:
        aliases: dict[tuple[str, str], list[str]] = {}
        for key in keys:
            aliases.setdefault((key.workspace, key.kind), []).append(key.alias)
        found: dict[RecordKey, Record] = {}
        for (workspace, kind), names in aliases.items():
            for start in range(0, len(names), BATCH_ROWS):
                part = names[start : start + BATCH_ROWS]
                found |= await self.threads.reader.run(
                    partial(read_whole, workspace=workspace, kind=kind, aliases=part)
                )
        return found

    async def list_versions(self, key: RecordKey, skip: int, take: int) -> RecordPage:
        def work(connection: sqlite3.Connection) -> RecordPage:
            row_id, total = connection.execute(SELECT_OBJECT, _encode_key(key)).fetchone() or (None, 0)
            rows = connection.execute(SELECT_VERSION_PAGE, (row_id, min(take, MAX_INTEGER), min(skip, MAX_INTEGER)))
            return RecordPage([_decode_record(key, row) for row in rows], total)

        return await self.threads.reader.run(work)

    async def find_version(self, key: RecordKey, number: int) -> Record | None:
        def work(connection: sqlite3.Connection) -> Record | None:
            row_id, _ = connection.execute(SELECT_OBJECT, _encode_key(key)).fetchone() or (None, 0)
            row = connection.execute(SELECT_VERSIONS + " AND version = ?", (row_id, number)).fetchone()
            return _decode_record(key, row) if row else None

        return await self.threads.reader.run(work) if abs(number) <= MAX_INTEGER else None

    async def list_audit(self, workspace: str, criteria: AuditFilter, skip: int, take: int) -> AuditEntryPage:
        found = build_audit_statement(workspace, criteria)
        return await self.threads.reader.run(partial(read_audit_page, found=found, skip=skip, take=take))

    async def prune(self, keep: int, before: float) -> int:
        def work(connection: sqlite3.Connection) -> int:
            with transaction(connection):
                versions = _prune_versions(connection, min(max(1, keep), MAX_INTEGER))
                entries = connection.execute(DELETE_AUDIT, (before, PRUNE_LIMIT - versions)).rowcount
            return versions + entries

        return await self.threads.writer.run(work)

    async def _read_since(self, since: FeedPosition) -> RecordBatch:
        """The current version of everything that changed after `since`, as of the moment when the last was read."""
        found: dict[RecordKey, Record] = {}
        number, more = since.number, True
        # What changes meanwhile moves to the end of the feed and is read again, so no commit is seen in half.
        while more:
            rows = await self.threads.reader.run(partial(_select_changes, since=number))
            for _, workspace, kind, alias, *version in rows:
                key = RecordKey(decode_text(workspace), decode_text(kind), decode_text(alias))
                found[key] = _decode_record(key, version)
            number = rows[-1][0] if rows else number
            more = len(rows) == BATCH_ROWS
        return RecordBatch(FeedPosition(since.epoch, number), tuple(found.values()))


def _read_head(connection: sqlite3.Connection) -> FeedPosition:
    return FeedPosition(*connection.execute(SELECT_HEAD).fetchone())


def _select_changes(connection: sqlite3.Connection, since: int) -> list[Any]:
    return connection.execute(SELECT_CHANGES, (since, BATCH_ROWS)).fetchall()


def _prune_versions(connection: sqlite3.Connection, keep: int) -> int:
    left = PRUNE_LIMIT
    for row_id, oldest, version in connection.execute(SELECT_SURPLUS, (keep, PRUNE_LIMIT)).fetchall():
        end = min(version - keep + 1, oldest + left)
        connection.execute(DELETE_VERSIONS, (row_id, end))
        connection.execute("UPDATE objects SET oldest = ? WHERE object = ?", (end, row_id))
        left -= end - oldest
        if not left:
            break
    return PRUNE_LIMIT - left


@contextmanager
def _force_full_sync(connection: sqlite3.Connection) -> Iterator[None]:
    """Make the transaction inside reach the disk before its COMMIT returns."""
    connection.execute("PRAGMA synchronous = FULL")
    try:
        yield
    finally:
        connection.execute("PRAGMA synchronous = NORMAL")


class ObjectState(NamedTuple):
    """The row of an object before a commit."""

    row_id: int | None
    id: bytes
    live: bool
    version: int


NO_OBJECT = ObjectState(None, b"", False, 0)


class ChangeStamp(NamedTuple):
    """The number of a change in the feed, its time and its author."""

    number: int
    at: float
    author: Author


def _apply_writes(
    connection: sqlite3.Connection, writes: Sequence[RecordWrite], author: Author, now: float
) -> list[Record]:
    """The records that the writes create; raises VersionConflict, and the caller rolls back."""
    number: int = connection.execute("SELECT number FROM history").fetchone()[0]
    records: list[Record] = []
    for write, state in [(write, _check_state(connection, write)) for write in writes]:
        if write.body is not None or state.live:
            number += 1
            records.append(_insert_version(connection, write, state, ChangeStamp(number, now, author)))
    connection.execute("UPDATE history SET number = ?", (number,))
    return records


def _check_state(connection: sqlite3.Connection, write: RecordWrite) -> ObjectState:
    """The state of the object to be written; raises VersionConflict if it has not the expected version."""
    row = connection.execute(SELECT_STATE, _encode_key(write.key)).fetchone()
    state = ObjectState(*row) if row else NO_OBJECT
    actual = state.version if state.live else 0
    if write.expected not in (None, actual):
        raise VersionConflict(write.key, actual)
    return state


def _insert_version(
    connection: sqlite3.Connection, write: RecordWrite, state: ObjectState, stamp: ChangeStamp
) -> Record:
    author, version = stamp.author, state.version + 1
    object_id = state.id if state.live else encode_text(write.id or str(uuid4()))
    row_id = _save_object(connection, write, state._replace(id=object_id), stamp)
    if write.outline is not None or write.body is None:
        replace_links(connection, write.key, row_id, write.links)
    signature = (stamp.at, encode_text(author.by), encode_text(author.action))
    connection.execute(INSERT_VERSION, (row_id, version, object_id, write.body, *signature))
    author_key = None if author.key is None else encode_text(author.key)
    audited = (*_encode_key(write.key), version, *signature, write.changes, author_key)
    connection.execute(INSERT_AUDIT, (stamp.number, *audited))
    return Record(write.key, decode_text(object_id), version, write.body, stamp.at, author.by, author.action)


def _save_object(connection: sqlite3.Connection, write: RecordWrite, state: ObjectState, stamp: ChangeStamp) -> int:
    """Insert the object's row or move it on to the next version; returns the row's id."""
    number, author = stamp.number, encode_text(stamp.author.by)
    if state.row_id is None:
        outlined = None if write.outline is None else 1
        values = (*_encode_key(write.key), state.id, number, write.outline, outlined, author)
        row_id: int = connection.execute(INSERT_OBJECT, values).fetchone()[0]
        return row_id
    live, version = write.body is not None, state.version + 1
    outlined = None if write.outline is None else version
    changed = (state.id, live, version, number, write.outline, outlined, author, state.row_id)
    connection.execute(UPDATE_OBJECT, changed)
    return state.row_id


def _encode_key(key: RecordKey) -> tuple[bytes, bytes, bytes]:
    """The words of a key in a form that SQLite can bind."""
    return encode_text(key.workspace), encode_text(key.kind), encode_text(key.alias)


def _decode_record(key: RecordKey, row: Sequence[Any]) -> Record:
    object_id, version, body, at, author, action, *whole = row
    names = decode_text(author), decode_text(action)
    return Record(key, decode_text(object_id), version, body, at, *names, *whole)
