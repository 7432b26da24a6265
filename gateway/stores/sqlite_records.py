"""Records in the embedded store's file.

A commit is one transaction that is on the disk before it is acknowledged: the file's usual NORMAL lets a power cut
cost the last moments, which hidden turns can bear and a withdrawn key or policy cannot. Policies change rarely, so
that the one fsync more per commit is not felt.
"""

import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple
from uuid import uuid4

from gateway.domain.record import AuditEntry, Author, FeedPosition, Record, RecordBatch, RecordKey, RecordWrite
from gateway.errors import VersionConflict
from gateway.stores.codec import decoded, encoded
from gateway.stores.protocols import AuditFilter
from gateway.stores.sqlite_ephemeral import OPERATION_SECONDS, Lanes, transaction

ROWS_AT_ONCE = 50  # of any size, so that a chat's reads come in between those of a large load
BYTES_PER_SECOND = 10_000_000  # what a slow disk takes; a large import gets the time for it
PRUNED_AT_ONCE = 1000
LARGEST = 2**63 - 1  # what SQLite can bind

HEAD = "SELECT epoch, number FROM history"
CHANGED = """SELECT o.number, o.workspace, o.kind, o.alias, v.id, v.version, v.body, v.at, v.author, v.action
    FROM objects AS o JOIN versions AS v ON v.object = o.object AND v.version = o.version
    WHERE o.number > ? ORDER BY o.number LIMIT ?"""
KEPT = "SELECT object, version - oldest + 1 FROM objects WHERE workspace = ? AND kind = ? AND alias = ?"
VERSIONS = "SELECT id, version, body, at, author, action FROM versions WHERE object = ?"
PAGE = " ORDER BY {order} DESC LIMIT ? OFFSET ?"
SURPLUS = "SELECT object, oldest, version FROM objects WHERE version - oldest >= ? LIMIT ?"
OLD_LINES = "DELETE FROM audit WHERE number IN (SELECT number FROM audit WHERE at < ? ORDER BY at LIMIT ?)"


class SqliteRecords:
    """A RecordStore on the lanes of a SqliteStore, which also closes them."""

    def __init__(self, lanes: Lanes, *, clock: Callable[[], float] = time.time) -> None:
        self._writes, self._reads = lanes
        self._clock = clock

    async def load(self) -> RecordBatch:
        epoch, _ = await self._reads.run(_head)
        everything = await self._after(FeedPosition(epoch, 0))
        return RecordBatch(everything.position, tuple(r for r in everything.records if r.body is not None))

    async def changes(self, since: FeedPosition) -> RecordBatch | None:
        epoch, number = await self._reads.run(_head)
        if epoch != since.epoch or number < since.number:
            return None
        return RecordBatch(since, ()) if number == since.number else await self._after(since)

    async def commit(self, writes: Sequence[RecordWrite], author: Author) -> list[Record]:
        now = self._clock()

        def work(connection: sqlite3.Connection) -> list[Record]:
            with _flushed(connection), transaction(connection):
                return committed(connection, writes, author, now)

        size = sum(len(write.body or b"") + len(write.changes) for write in writes)
        return await self._writes.run(work, OPERATION_SECONDS + size / BYTES_PER_SECOND)

    async def versions(self, key: RecordKey, skip: int, take: int) -> tuple[list[Record], int]:
        def work(connection: sqlite3.Connection) -> tuple[list[Record], int]:
            place, kept = connection.execute(KEPT, names(key)).fetchone() or (None, 0)
            page = VERSIONS + PAGE.format(order="version")
            rows = connection.execute(page, (place, min(take, LARGEST), min(skip, LARGEST)))
            return [_record(key, row) for row in rows], kept

        return await self._reads.run(work)

    async def version(self, key: RecordKey, number: int) -> Record | None:
        def work(connection: sqlite3.Connection) -> Record | None:
            place, _ = connection.execute(KEPT, names(key)).fetchone() or (None, 0)
            row = connection.execute(VERSIONS + " AND version = ?", (place, number)).fetchone()
            return _record(key, row) if row else None

        return await self._reads.run(work) if abs(number) <= LARGEST else None

    async def audit(self, workspace: str, wanted: AuditFilter, skip: int, take: int) -> tuple[list[AuditEntry], int]:
        asked = {"workspace": workspace, "kind": wanted.kind, "alias": wanted.alias, "author": wanted.by}
        given = {column: encoded(value) for column, value in asked.items() if value is not None}
        source = "FROM audit WHERE " + " AND ".join(f"{column} = ?" for column in given)
        page = f"SELECT number, workspace, kind, alias, version, at, author, action, changes {source}"

        def work(connection: sqlite3.Connection) -> tuple[list[AuditEntry], int]:
            (total,) = connection.execute(f"SELECT count(*) {source}", (*given.values(),)).fetchone()
            limits = (min(take, LARGEST), min(skip, LARGEST))
            rows = connection.execute(page + PAGE.format(order="number"), (*given.values(), *limits))
            return [_entry(row) for row in rows], total

        return await self._reads.run(work)

    async def prune(self, keep: int, before: float) -> int:
        def work(connection: sqlite3.Connection) -> int:
            with transaction(connection):
                versions = _prune_versions(connection, min(max(1, keep), LARGEST))
                lines = connection.execute(OLD_LINES, (before, PRUNED_AT_ONCE - versions)).rowcount
            return versions + lines

        return await self._writes.run(work)

    async def _after(self, since: FeedPosition) -> RecordBatch:
        """The current version of all that was changed after `since`, as it stood when the last of it was read."""
        found: dict[RecordKey, Record] = {}
        number, more = since.number, True
        # What changes meanwhile moves to the end of the feed and is read once more: no half of a commit is left.
        while more:
            rows = await self._reads.run(partial(_changed, since=number))
            for _, *words in rows:
                key = RecordKey(*map(decoded, words[:3]))
                found[key] = _record(key, words[3:])
            number = rows[-1][0] if rows else number
            more = len(rows) == ROWS_AT_ONCE
        return RecordBatch(FeedPosition(since.epoch, number), tuple(found.values()))


@contextmanager
def _flushed(connection: sqlite3.Connection) -> Iterator[None]:
    """Have the transaction inside reach the disk before its COMMIT returns."""
    connection.execute("PRAGMA synchronous = FULL")
    try:
        yield
    finally:
        connection.execute("PRAGMA synchronous = NORMAL")


def _head(connection: sqlite3.Connection) -> tuple[str, int]:
    epoch, number = connection.execute(HEAD).fetchone()
    return epoch, number


def _changed(connection: sqlite3.Connection, since: int) -> list[Any]:
    return connection.execute(CHANGED, (since, ROWS_AT_ONCE)).fetchall()


def _prune_versions(connection: sqlite3.Connection, keep: int) -> int:
    left = PRUNED_AT_ONCE
    for place, oldest, version in connection.execute(SURPLUS, (keep, PRUNED_AT_ONCE)).fetchall():
        end = min(version - keep + 1, oldest + left)
        connection.execute("DELETE FROM versions WHERE object = ? AND version < ?", (place, end))
        connection.execute("UPDATE objects SET oldest = ? WHERE object = ?", (end, place))
        left -= end - oldest
        if not left:
            break
    return PRUNED_AT_ONCE - left


def _record(key: RecordKey, row: Sequence[Any]) -> Record:
    identity, version, body, at, author, action = row
    return Record(key, decoded(identity), version, body, at, decoded(author), decoded(action))


def _entry(row: Sequence[Any]) -> AuditEntry:
    number, workspace, kind, alias, version, at, author, action, changes = row
    key = RecordKey(decoded(workspace), decoded(kind), decoded(alias))
    return AuditEntry(number, key, version, at, decoded(author), decoded(action), changes)


STANDING = "SELECT object, id, live, version FROM objects WHERE workspace = ? AND kind = ? AND alias = ?"
NEW_OBJECT = """INSERT INTO objects (workspace, kind, alias, id, live, version, oldest, number)
    VALUES (?, ?, ?, ?, 1, 1, 1, ?) RETURNING object"""
NEXT_VERSION = "UPDATE objects SET id = ?, live = ?, version = ?, number = ? WHERE object = ?"
VERSION = "INSERT INTO versions (object, version, id, body, at, author, action) VALUES (?, ?, ?, ?, ?, ?, ?)"
AUDIT = """INSERT INTO audit (number, workspace, kind, alias, version, at, author, action, changes)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"""


class Standing(NamedTuple):
    """How an object stands before the commit."""

    object: int | None
    id: bytes
    live: bool
    version: int


NOTHING = Standing(None, b"", False, 0)


def committed(
    connection: sqlite3.Connection, writes: Sequence[RecordWrite], author: Author, now: float
) -> list[Record]:
    """What the writes make; raises VersionConflict, and the caller rolls back."""
    number: int = connection.execute("SELECT number FROM history").fetchone()[0]
    made: list[Record] = []
    for write, standing in [(write, _standing(connection, write)) for write in writes]:
        if write.body is not None or standing.live:
            number += 1
            made.append(_made(connection, write, standing, Moment(number, now, author)))
    connection.execute("UPDATE history SET number = ?", (number,))
    return made


class Moment(NamedTuple):
    """When and by whom one change is made."""

    number: int
    at: float
    author: Author


def _standing(connection: sqlite3.Connection, write: RecordWrite) -> Standing:
    row = connection.execute(STANDING, names(write.key)).fetchone()
    standing = Standing(*row) if row else NOTHING
    actual = standing.version if standing.live else 0
    if write.expected not in (None, actual):
        raise VersionConflict(write.key, actual)
    return standing


def _made(connection: sqlite3.Connection, write: RecordWrite, standing: Standing, moment: Moment) -> Record:
    author = moment.author
    chosen = standing.id if standing.live else encoded(write.id or str(uuid4()))
    version = standing.version + 1
    place = _placed(connection, write, standing, chosen, moment.number)
    signed = (moment.at, encoded(author.by), encoded(author.action))
    connection.execute(VERSION, (place, version, chosen, write.body, *signed))
    connection.execute(AUDIT, (moment.number, *names(write.key), version, *signed, write.changes))
    return Record(write.key, decoded(chosen), version, write.body, moment.at, author.by, author.action)


def _placed(connection: sqlite3.Connection, write: RecordWrite, standing: Standing, chosen: bytes, number: int) -> int:
    """The row of the object, moved on to its next version."""
    if standing.object is None:
        made: int = connection.execute(NEW_OBJECT, (*names(write.key), chosen, number)).fetchone()[0]
        return made
    changed = (chosen, write.body is not None, standing.version + 1, number, standing.object)
    connection.execute(NEXT_VERSION, changed)
    return standing.object


def names(key: RecordKey) -> tuple[bytes, bytes, bytes]:
    """The three words of a key as SQLite can bind them."""
    return encoded(key.workspace), encoded(key.kind), encoded(key.alias)
