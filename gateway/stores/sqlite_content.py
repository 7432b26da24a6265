"""Nodes beside their records, in the embedded store's file."""

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

from gateway.domain.content import ActivityKind, Backlink, NodeActivity, NodeLink
from gateway.domain.record import Record, RecordIndex, RecordKey
from gateway.stores.codec import decode_text, encode_text
from gateway.stores.content import ACTIVITY_PER_USER
from gateway.stores.sqlite_connection import SqliteThreads, transaction

SELECT_WHOLE = """SELECT o.alias, v.id, v.version, v.body, v.at, v.author, v.action, o.creator
    FROM objects AS o JOIN versions AS v ON v.object = o.object AND v.version = o.version
    WHERE o.workspace = ? AND o.kind = ? AND o.live AND o.alias IN ({})"""
SELECT_BACKLINKS = """SELECT DISTINCT type, source FROM links WHERE workspace = ? AND target IN ({})
    ORDER BY source, type LIMIT ?"""
SELECT_CURRENT = """SELECT object FROM objects
    WHERE workspace = ? AND kind = ? AND alias = ? AND version = ? AND live"""
UPDATE_OUTLINE = "UPDATE objects SET outline = ?, outlined = ? WHERE object = ?"
DELETE_LINKS = "DELETE FROM links WHERE object = ?"
INSERT_LINK = "INSERT OR IGNORE INTO links (workspace, target, source, type, object) VALUES (?, ?, ?, ?, ?)"
NOTE = """INSERT INTO activity (workspace, user, kind, node, at) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (workspace, user, kind, node) DO UPDATE SET at = max(at, excluded.at)"""
FORGET = """DELETE FROM activity WHERE workspace = ?1 AND user = ?2 AND kind = ?3 AND at < (SELECT at FROM activity
    WHERE workspace = ?1 AND user = ?2 AND kind = ?3 ORDER BY at DESC LIMIT 1 OFFSET ?4)"""
SELECT_RECENT = """SELECT node, kind, at FROM activity WHERE workspace = ? AND user = ? AND kind = ? AND at >= ?
    ORDER BY at DESC, node DESC LIMIT ?"""


class SqliteContentStore:
    """A ContentStore on the threads of a SqliteEphemeralStore, which also closes them."""

    def __init__(self, threads: SqliteThreads) -> None:
        self._threads = threads

    async def list_backlinks(self, workspace: str, targets: Sequence[str], limit: int) -> list[Backlink]:
        query = SELECT_BACKLINKS.format(", ".join("?" * len(targets)))
        values = (encode_text(workspace), *map(encode_text, targets), limit)
        rows = await self._threads.reader.run(lambda connection: connection.execute(query, values).fetchall())
        return [Backlink(decode_text(kind), decode_text(source)) for kind, source in rows]

    async def index(self, entries: Sequence[RecordIndex]) -> None:
        def work(connection: sqlite3.Connection) -> None:
            with transaction(connection):
                for entry in entries:
                    key, version = entry.record.key, entry.record.version
                    row = connection.execute(SELECT_CURRENT, (*map(encode_text, key), version)).fetchone()
                    if row is not None:
                        connection.execute(UPDATE_OUTLINE, (entry.outline, version, row[0]))
                        replace_links(connection, key, row[0], entry.links)

        await self._threads.writer.run(work)

    async def note(self, workspace: str, activities: Sequence[NodeActivity]) -> None:
        place = encode_text(workspace)
        rows = [(place, encode_text(one.user), one.kind, encode_text(one.node), one.at) for one in activities]

        def work(connection: sqlite3.Connection) -> None:
            with transaction(connection):
                connection.executemany(NOTE, rows)
                for user, kind in {(row[1], row[2]) for row in rows}:
                    connection.execute(FORGET, (place, user, kind, ACTIVITY_PER_USER - 1))

        await self._threads.writer.run(work)

    async def list_recent(self, workspace: str, user: str, since: float, limit: int) -> list[NodeActivity]:
        def work(connection: sqlite3.Connection) -> list[Any]:
            place = encode_text(workspace), encode_text(user)
            return [
                row
                for kind in ActivityKind
                for row in connection.execute(SELECT_RECENT, (*place, kind, since, limit)).fetchall()
            ]

        rows = await self._threads.reader.run(work)
        found = [NodeActivity(decode_text(node), user, ActivityKind(kind), at) for node, kind, at in rows]
        return sorted(found, key=lambda one: (one.at, one.node, one.kind), reverse=True)[:limit]


def replace_links(connection: sqlite3.Connection, key: RecordKey, object: int, links: Sequence[NodeLink]) -> None:
    """Index the links of an object anew, inside the caller's transaction."""
    connection.execute(DELETE_LINKS, (object,))
    if links:
        place, source = encode_text(key.workspace), encode_text(key.alias)
        rows = [(place, encode_text(link.target), source, encode_text(link.type), object) for link in links]
        connection.executemany(INSERT_LINK, rows)


def read_whole(
    connection: sqlite3.Connection, workspace: str, kind: str, aliases: Sequence[str]
) -> dict[RecordKey, Record]:
    query = SELECT_WHOLE.format(", ".join("?" * len(aliases)))
    rows = connection.execute(query, (encode_text(workspace), encode_text(kind), *map(encode_text, aliases)))
    return {record.key: record for record in _decode(workspace, kind, rows)}


def _decode(workspace: str, kind: str, rows: sqlite3.Cursor) -> Iterator[Record]:
    for alias, id, version, body, at, author, action, creator in rows:
        key = RecordKey(workspace, kind, decode_text(alias))
        by = None if creator is None else decode_text(creator)
        yield Record(key, decode_text(id), version, body, at, decode_text(author), decode_text(action), created_by=by)
