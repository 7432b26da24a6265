"""Lists of noted receipts in SQLite: those of a batch that have the same template are one row.

A row is found by the newest id in it, for each filter by an index as single receipts are. It covers at most SPAN, so
whoever looks for an id knows between which rows it can be.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

import msgspec

from gateway.domain.receipt import ReceiptFilter, SharedDetails
from gateway.domain.receipt_note import OK, NotedReceipt, NoteTemplate, ReceiptNote
from gateway.ids import encode_id_time, read_id_microseconds, read_id_time
from gateway.stores.codec import encode_text
from gateway.stores.sqlite_receipt_lists import (
    encode_template,
    read_template,
    split_resources,
    walk_positions,
)

SPAN = 1_000_000  # microseconds between the first id of a list and the last

COLUMNS = "number, workspace, first, last, agent, content, resources, shared, receipts, body"
PUT = f"INSERT INTO receipt_notes ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
PUT_RESOURCE = "INSERT INTO receipt_note_resources VALUES (?, ?, ?)"
DELETE = "DELETE FROM receipt_notes WHERE number = ?"
DELETE_RESOURCE = "DELETE FROM receipt_note_resources WHERE workspace = ? AND resource = ? AND last = ?"
SELECT = f"SELECT {COLUMNS} FROM receipt_notes "
BETWEEN = "last >= ? AND last < ? ORDER BY {}last DESC"
SELECT_BY_COLUMN = SELECT + "INDEXED BY receipt_notes_{index} WHERE workspace = ?{condition} AND " + BETWEEN.format("")
SELECT_BY_RESOURCE = f"""SELECT {", ".join("n." + name for name in COLUMNS.split(", "))}
    FROM receipt_note_resources u CROSS JOIN receipt_notes n ON n.workspace = u.workspace AND n.last = u.last
    WHERE u.workspace = ? AND u.resource = ? AND u.last >= ? AND u.last < ? ORDER BY u.last DESC"""
SELECT_OLDEST = SELECT + "ORDER BY number LIMIT ?"
SELECT_OLDEST_OF = SELECT + "INDEXED BY receipt_notes_workspace WHERE workspace = ? ORDER BY last LIMIT ?"


class NoteRow(NamedTuple):
    """A row of the table `receipt_notes`."""

    number: int
    workspace: bytes
    first: bytes
    last: bytes
    agent: bytes | None
    content: bytes | None
    resources: bytes
    shared: bytes
    receipts: int
    body: bytes


class NoteList(msgspec.Struct, array_like=True):
    """The body of a row."""

    scope: bytes
    upstream: bytes
    notes: list[ReceiptNote]  # oldest first


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(NoteList).decode


class EncodedNotes(NamedTuple):
    """A list as it is written."""

    row: Sequence[object]
    resources: Sequence[Sequence[object]]


class NotePosition(NamedTuple):
    """A receipt in a list; they sort by id."""

    id: bytes
    at: int  # position in its list
    row: NoteRow
    content: NoteList

    def open(self, shared: SharedDetails | None) -> NotedReceipt:
        return NotedReceipt(read_template(self.row, self.content, shared), self.content.notes[self.at])


def encode_lists(noted: Mapping[NoteTemplate, Sequence[ReceiptNote]]) -> list[EncodedNotes]:
    """The receipts of each template, oldest first, in lists that cover no more than SPAN."""
    return [encode_list(template, part) for template, notes in noted.items() for part in split_by_span(notes)]


def encode_list(template: NoteTemplate, notes: Sequence[ReceiptNote]) -> EncodedNotes:
    workspace, last = encode_text(template.workspace), bytes.fromhex(notes[-1].id)
    body = _encode((template.scope, template.upstream, notes))
    row = (None, workspace, bytes.fromhex(notes[0].id), last, *encode_template(template), len(notes), body)
    return EncodedNotes(row, [(workspace, encode_text(name), last) for name in template.resources])


def split_by_span(notes: Sequence[ReceiptNote]) -> list[Sequence[ReceiptNote]]:
    """Notes in their order, in parts that cover no more than SPAN."""
    if read_id_microseconds(notes[-1].id) - read_id_microseconds(notes[0].id) < SPAN:
        return [notes]
    parts: list[list[ReceiptNote]] = []
    end = 0
    for note in notes:
        at = read_id_microseconds(note.id)
        if not parts or at >= end:
            parts.append([])
            end = at + SPAN
        parts[-1].append(note)
    return list(parts)


def put_lists(connection: sqlite3.Connection, lists: Iterable[EncodedNotes]) -> None:
    """Raises IntegrityError if one of them was stored before."""
    for one in lists:
        connection.execute(PUT, one.row)
        connection.executemany(PUT_RESOURCE, one.resources)


def walk_lists(
    connection: sqlite3.Connection, workspace: bytes, criteria: ReceiptFilter, begin: bytes, end: bytes
) -> Iterator[NotePosition]:
    """The noted receipts from `begin` until before `end` that may match, newest first, by the narrowest filter."""
    if criteria.session is not None or criteria.status not in (None, OK):
        return
    rows = _select(connection, workspace, criteria, begin, end)
    yield from walk_positions(
        (row for row in rows if row.first < end),
        lambda row: [one for one in open_list(row) if begin <= one.id < end],
    )


def select_around(connection: sqlite3.Connection, workspace: bytes, id: bytes) -> Iterator[NoteRow]:
    """The lists that a receipt can stand in."""
    return (row for row in _select(connection, workspace, ReceiptFilter(), id, id) if row.first <= id)


def find_noted(connection: sqlite3.Connection, workspace: bytes, id: bytes) -> NotePosition | None:
    rows = select_around(connection, workspace, id)
    return next((one for row in rows for one in open_list(row) if one.id == id), None)


def find_noted_ids(connection: sqlite3.Connection, workspace: bytes, ids: Iterable[bytes]) -> set[bytes]:
    """Those of these ids that stand in lists, which are read once for all ids of a second."""
    found = set[bytes]()
    for _, some in groupby(sorted(ids), lambda id: read_id_microseconds(id.hex()) // SPAN):
        wanted = list(some)
        rows = _select(connection, workspace, ReceiptFilter(), wanted[0], wanted[-1])
        stored = {one.id for row in rows if row.first <= wanted[-1] for one in open_list(row)}
        found |= stored.intersection(wanted)
    return found


def remove_noted(connection: sqlite3.Connection, found: NotePosition) -> None:
    """Delete one receipt: its list is replaced by one without it, which keeps its number, by which lists are pruned."""
    row, content = found.row, found.content
    remove_lists(connection, [row])
    left = [note for at, note in enumerate(content.notes) if at != found.at]
    if left:
        first, last = (bytes.fromhex(one.id) for one in (left[0], left[-1]))
        body = _encode((content.scope, content.upstream, left))
        values = (row.number, row.workspace, first, last, *row[4:8], len(left), body)
        put_lists(
            connection, [EncodedNotes(values, [(row.workspace, one, last) for one in split_resources(row.resources)])]
        )


def remove_lists(connection: sqlite3.Connection, rows: Sequence[NoteRow]) -> None:
    used = [(row.workspace, one, row.last) for row in rows for one in split_resources(row.resources)]
    connection.executemany(DELETE_RESOURCE, used)
    connection.executemany(DELETE, [(row.number,) for row in rows])


def open_list(row: NoteRow) -> list[NotePosition]:
    content = _decode(row.body)
    return [NotePosition(bytes.fromhex(note.id), at, row, content) for at, note in enumerate(content.notes)]


def select_oldest(connection: sqlite3.Connection, limit: int, workspace: bytes | None = None) -> list[NoteRow]:
    """The oldest lists, of all or of one workspace, with no more receipts than that, but at least one list."""
    query, values = (SELECT_OLDEST, (limit,)) if workspace is None else (SELECT_OLDEST_OF, (workspace, limit))
    chosen: list[NoteRow] = []
    count = 0
    for row in map(NoteRow._make, connection.execute(query, values)):
        count += row.receipts
        if chosen and count > limit:
            break
        chosen.append(row)
    return chosen


def _select(
    connection: sqlite3.Connection, workspace: bytes, criteria: ReceiptFilter, begin: bytes, end: bytes
) -> Iterator[NoteRow]:
    """Lists that may have receipts in this range, those with the newest ones first."""
    name = next((one for one in ("content", "resource", "agent") if getattr(criteria, one) is not None), None)
    named = [] if name is None else [encode_text(getattr(criteria, name))]
    query = (
        SELECT_BY_RESOURCE
        if name == "resource"
        else SELECT_BY_COLUMN.format(index=name or "workspace", condition="" if name is None else f" AND {name} = ?")
    )
    rows = connection.execute(query, (workspace, *named, begin, _add_span(end)))
    return map(NoteRow._make, rows)


def _add_span(id: bytes) -> bytes:
    """An id that no list ends at or after which has receipts before this one."""
    digits = id.hex()
    if len(digits) < 14:
        return b"\xff"  # of no time: there is no end
    return bytes.fromhex(encode_id_time(read_id_time(digits) + 2 * SPAN / 1e6))
