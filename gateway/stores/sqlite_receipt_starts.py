"""Lists of started receipts in SQLite: those of a batch that have the same template are one row.

A list is not changed when its exchanges end: finished receipts tell which of them have, and the list goes with the last
of them. What a process that is gone has left becomes single receipts, which are swept.
"""

import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from gateway.domain.receipt import STARTED, Receipt, ReceiptFilter, SharedDetails
from gateway.domain.receipt_note import NotedStart, NoteTemplate, StartNote
from gateway.stores.codec import encode_text
from gateway.stores.sqlite_receipt_lists import (
    encode_template,
    read_template,
    split_resources,
    walk_positions,
)
from gateway.stores.sqlite_receipt_notes import NoteRow, open_list, select_around

COLUMNS = "number, workspace, first, last, boot, agent, content, resources, shared, body"
PUT = f"INSERT INTO receipt_starts ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
DELETE = "DELETE FROM receipt_starts WHERE number = ?"
COUNT = "SELECT count(*) FROM receipt_starts WHERE number IN (SELECT value FROM json_each(?))"
SELECT = f"SELECT {COLUMNS} FROM receipt_starts "
SELECT_RANGE = SELECT + "WHERE workspace = ? AND last >= ? AND first < ? ORDER BY last DESC"
SELECT_ONE = SELECT + "WHERE workspace = ? AND last >= ? AND first <= ?"
SELECT_LEFT = SELECT + "WHERE boot NOT IN (SELECT boot FROM boots WHERE expires > ?) LIMIT ?"
SELECT_SINGLE = "SELECT 1 FROM receipts WHERE id = ? AND workspace = ?"


class StartRow(NamedTuple):
    """A row of the table `receipt_starts`."""

    number: int
    workspace: bytes
    first: bytes
    last: bytes
    boot: str
    agent: bytes | None
    content: bytes | None
    resources: bytes
    shared: bytes
    body: bytes


class StartList(msgspec.Struct, array_like=True):
    """The body of a row."""

    scope: bytes
    upstream: bytes
    notes: list[StartNote]  # oldest first


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(StartList).decode
_encode_numbers = msgspec.json.Encoder().encode


class StartPosition(NamedTuple):
    """A started receipt in a list; they sort by id."""

    id: bytes
    at: int  # position in its list
    row: StartRow
    content: StartList

    def open(self, shared: SharedDetails | None) -> NotedStart:
        return NotedStart(read_template(self.row, self.content, shared), self.content.notes[self.at])


class EncodedStarts(NamedTuple):
    """A list as it is written."""

    row: Sequence[object]
    ids: Sequence[str]


class EndedStarts(msgspec.Struct, frozen=True):
    """What ends with a batch: in the lists that it concerns so many, and all of those that go with it."""

    concerned: Mapping[int, int] = {}
    emptied: Sequence[int] = ()


NOTHING_ENDED = EndedStarts()


class OpenStarts:
    """In which lists the exchanges of this process stand that go on."""

    def __init__(self) -> None:
        self._lists: dict[str, int] = {}  # by id of the exchange
        self._left: Counter[int] = Counter()  # exchanges that go on, by list

    def __bool__(self) -> bool:
        return bool(self._lists)

    def add(self, number: int, ids: Sequence[str]) -> None:
        self._lists |= dict.fromkeys(ids, number)
        self._left[number] = len(ids)

    def find_ended(self, ids: Sequence[str]) -> EndedStarts:
        """The lists in which these exchanges stand."""
        lists = self._lists
        if not ids:
            return NOTHING_ENDED
        ended = Counter([lists[id] for id in ids if id in lists])
        return EndedStarts(ended, [number for number, count in ended.items() if count == self._left[number]])

    def remove(self, ids: Iterable[str], ended: EndedStarts) -> None:
        """Forget exchanges, of which `find_ended` told the lists."""
        if ended.concerned:
            for id in ids:
                self._lists.pop(id, None)
            self._left.subtract(ended.concerned)
            for number in ended.emptied:
                del self._left[number]


def encode_starts(starts: Mapping[NoteTemplate, Sequence[StartNote]], boot: str) -> list[EncodedStarts]:
    """The receipts of each template, oldest first, as a list."""
    return [_encode_list(template, notes, boot) for template, notes in starts.items()]


def _encode_list(template: NoteTemplate, notes: Sequence[StartNote], boot: str) -> EncodedStarts:
    ids = [note.id for note in notes]
    names = (encode_text(template.workspace), bytes.fromhex(ids[0]), bytes.fromhex(ids[-1]), boot)
    body = _encode((template.scope, template.upstream, notes))
    return EncodedStarts((None, *names, *encode_template(template), body), ids)


def put_starts(connection: sqlite3.Connection, lists: Iterable[EncodedStarts]) -> list[int]:
    """Store lists; returns their numbers."""
    return [connection.execute(PUT, one.row).lastrowid or 0 for one in lists]


def are_stored(connection: sqlite3.Connection, numbers: Collection[int]) -> bool:
    """Whether all of these lists are there: what was swept is there no more."""
    (count,) = connection.execute(COUNT, (_encode_numbers(list(numbers)).decode(),)).fetchone()
    return bool(count == len(numbers))


def remove_starts(connection: sqlite3.Connection, numbers: Iterable[int]) -> None:
    connection.executemany(DELETE, [(number,) for number in numbers])


def walk_starts(
    connection: sqlite3.Connection, workspace: bytes, criteria: ReceiptFilter, begin: bytes, end: bytes
) -> Iterator[StartPosition]:
    """Started receipts from `begin` until before `end`, newest first; without a status also those that have ended."""
    if criteria.session is not None or criteria.status not in (None, STARTED):
        return
    ended = EndedIds(connection, workspace) if criteria.status == STARTED else ()
    rows = map(StartRow._make, connection.execute(SELECT_RANGE, (workspace, begin, end)))
    yield from walk_positions(
        (row for row in rows if _may_match(row, criteria)),
        lambda row: [one for one in _open(row) if begin <= one.id < end and one.id not in ended],
    )


def _may_match(row: StartRow, criteria: ReceiptFilter) -> bool:
    named = ((criteria.agent, row.agent), (criteria.content, row.content))
    if any(wanted is not None and encode_text(wanted) != found for wanted, found in named):
        return False
    return criteria.resource is None or encode_text(criteria.resource) in split_resources(row.resources)


def find_start(connection: sqlite3.Connection, workspace: bytes, id: bytes) -> StartPosition | None:
    rows = map(StartRow._make, connection.execute(SELECT_ONE, (workspace, id, id)))
    return next((one for row in rows for one in _open(row) if one.id == id), None)


def remove_start(connection: sqlite3.Connection, workspace: bytes, id: bytes) -> None:
    """Delete a started receipt wherever it stands; its list keeps its number, by which its process knows it."""
    while (found := find_start(connection, workspace, id)) is not None:
        row, content = found.row, found.content
        left = [note for at, note in enumerate(content.notes) if at != found.at]
        remove_starts(connection, [row.number])
        if left:
            ends = (bytes.fromhex(left[0].id), bytes.fromhex(left[-1].id))
            body = _encode((content.scope, content.upstream, left))
            connection.execute(PUT, (row.number, row.workspace, *ends, *row[4:9], body))


class LeftStarts(NamedTuple):
    """A list of a process that is gone, and what of it has not ended."""

    row: StartRow
    receipts: Sequence[Receipt]  # without what they share


def select_left(connection: sqlite3.Connection, now: float, limit: int) -> list[LeftStarts]:
    """Some lists of processes that are gone."""
    found = []
    for row in map(StartRow._make, connection.execute(SELECT_LEFT, (now, limit)).fetchall()):
        ended = EndedIds(connection, row.workspace)
        found.append(LeftStarts(row, [one.open(None).render() for one in _open(row) if one.id not in ended]))
    return found


class EndedIds:
    """Whether exchanges of a workspace have a finished receipt; lists that were read are remembered."""

    def __init__(self, connection: sqlite3.Connection, workspace: bytes) -> None:
        self._connection, self._workspace = connection, workspace
        self._read: dict[int, frozenset[bytes]] = {}

    def __contains__(self, id: object) -> bool:
        if not isinstance(id, bytes):
            return False
        single = self._connection.execute(SELECT_SINGLE, (id, self._workspace)).fetchone()
        lists = select_around(self._connection, self._workspace, id)
        return single is not None or any(id in self._list_ids(row) for row in lists)

    def _list_ids(self, row: NoteRow) -> frozenset[bytes]:
        if row.number not in self._read:
            self._read[row.number] = frozenset(one.id for one in open_list(row))
        return self._read[row.number]


def _open(row: StartRow) -> list[StartPosition]:
    content = _decode(row.body)
    return [StartPosition(bytes.fromhex(note.id), at, row, content) for at, note in enumerate(content.notes)]
