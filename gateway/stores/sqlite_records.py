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
from typing import Any

from gateway.domain.record import AuditEntry, Author, Key, Position, Record, Records, Write
from gateway.stores.base import AuditFilter
from gateway.stores.encoding import decoded, encoded
from gateway.stores.sqlite import OPERATION_SECONDS, Lanes, transaction
from gateway.stores.sqlite_commit import committed, names

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

    async def load(self) -> Records:
        epoch, _ = await self._reads.run(_head)
        everything = await self._after(Position(epoch, 0))
        return Records(everything.position, tuple(r for r in everything.records if r.body is not None))

    async def changes(self, since: Position) -> Records | None:
        epoch, number = await self._reads.run(_head)
        if epoch != since.epoch or number < since.number:
            return None
        return Records(since, ()) if number == since.number else await self._after(since)

    async def commit(self, writes: Sequence[Write], author: Author) -> list[Record]:
        now = self._clock()

        def work(connection: sqlite3.Connection) -> list[Record]:
            with _flushed(connection), transaction(connection):
                return committed(connection, writes, author, now)

        size = sum(len(write.body or b"") + len(write.changes) for write in writes)
        return await self._writes.run(work, OPERATION_SECONDS + size / BYTES_PER_SECOND)

    async def versions(self, key: Key, skip: int, take: int) -> tuple[list[Record], int]:
        def work(connection: sqlite3.Connection) -> tuple[list[Record], int]:
            place, kept = connection.execute(KEPT, names(key)).fetchone() or (None, 0)
            page = VERSIONS + PAGE.format(order="version")
            rows = connection.execute(page, (place, min(take, LARGEST), min(skip, LARGEST)))
            return [_record(key, row) for row in rows], kept

        return await self._reads.run(work)

    async def version(self, key: Key, number: int) -> Record | None:
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

    async def _after(self, since: Position) -> Records:
        """The current version of all that was changed after `since`, as it stood when the last of it was read."""
        found: dict[Key, Record] = {}
        number, more = since.number, True
        # What changes meanwhile moves to the end of the feed and is read once more: no half of a commit is left.
        while more:
            rows = await self._reads.run(partial(_changed, since=number))
            for _, *words in rows:
                key = Key(*map(decoded, words[:3]))
                found[key] = _record(key, words[3:])
            number = rows[-1][0] if rows else number
            more = len(rows) == ROWS_AT_ONCE
        return Records(Position(since.epoch, number), tuple(found.values()))


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


def _record(key: Key, row: Sequence[Any]) -> Record:
    identity, version, body, at, author, action = row
    return Record(key, decoded(identity), version, body, at, decoded(author), decoded(action))


def _entry(row: Sequence[Any]) -> AuditEntry:
    number, workspace, kind, alias, version, at, author, action, changes = row
    key = Key(decoded(workspace), decoded(kind), decoded(alias))
    return AuditEntry(number, key, version, at, decoded(author), decoded(action), changes)
