"""The changes of one commit, inside a transaction that the caller has begun."""

import sqlite3
from collections.abc import Sequence
from typing import NamedTuple
from uuid import uuid4

from gateway.domain.record import Author, Key, Record, Write
from gateway.errors import VersionConflict
from gateway.stores.encoding import decoded, encoded

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


def committed(connection: sqlite3.Connection, writes: Sequence[Write], author: Author, now: float) -> list[Record]:
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


def _standing(connection: sqlite3.Connection, write: Write) -> Standing:
    row = connection.execute(STANDING, names(write.key)).fetchone()
    standing = Standing(*row) if row else NOTHING
    actual = standing.version if standing.live else 0
    if write.expected not in (None, actual):
        raise VersionConflict(write.key, actual)
    return standing


def _made(connection: sqlite3.Connection, write: Write, standing: Standing, moment: Moment) -> Record:
    author = moment.author
    chosen = standing.id if standing.live else encoded(write.id or str(uuid4()))
    version = standing.version + 1
    place = _placed(connection, write, standing, chosen, moment.number)
    signed = (moment.at, encoded(author.by), encoded(author.action))
    connection.execute(VERSION, (place, version, chosen, write.body, *signed))
    connection.execute(AUDIT, (moment.number, *names(write.key), version, *signed, write.changes))
    return Record(write.key, decoded(chosen), version, write.body, moment.at, author.by, author.action)


def _placed(connection: sqlite3.Connection, write: Write, standing: Standing, chosen: bytes, number: int) -> int:
    """The row of the object, moved on to its next version."""
    if standing.object is None:
        made: int = connection.execute(NEW_OBJECT, (*names(write.key), chosen, number)).fetchone()[0]
        return made
    changed = (chosen, write.body is not None, standing.version + 1, number, standing.object)
    connection.execute(NEXT_VERSION, changed)
    return standing.object


def names(key: Key) -> tuple[bytes, bytes, bytes]:
    """The three words of a key as SQLite can bind them."""
    return encoded(key.workspace), encoded(key.kind), encoded(key.alias)
