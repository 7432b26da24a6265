"""Values that are written all the time and seldom read: appended in batches, and indexed many at a time.

An index with random keys changes a page for each of them, and each page is written twice. Here the values of a batch
are appended in a few rows, and the hashes of their keys to a list. When the list is long, it is sorted into a segment
of the index, so that a page changes once for many keys. Segments are bounded: a write costs the same however much is
kept. A search looks into the list and into every segment; the key beside the value tells whether it is the right one.
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from struct import Struct, pack, unpack
from typing import NamedTuple
from zlib import crc32

import msgspec

from gateway.stores.sqlite_connection import SWEEP_SECONDS, insert_rows, split_keys

ROW_BYTES = 3600  # of the values that share a row: it fits into a page, and whoever wants one of them reads no more
LISTED_BYTES = 3000  # of hashes in a row of the list: with the next batch they still fit into a page
LISTED_ROWS = 20  # about 8,000 hashes, for which a search takes some 20 µs
SEGMENT_SIZE = 65_536  # hashes; about 300 pages, of which most change when the list is sorted in
SWEPT_ROWS, SWEPT_HASHES = 50, 2000  # per sweep, so that no single write pays for a large backlog

FIND_LAST_ROW = "SELECT max(number) FROM batch_rows"
PUT_ROWS = "INSERT INTO batch_rows (number, expires, body) VALUES {}"
READ_ROW = "SELECT expires, body FROM batch_rows WHERE number = ?"
FIND_LAST_LISTED = "SELECT position, hashes FROM batch_hashes ORDER BY position DESC LIMIT 1"
PUT_LISTED = "INSERT OR REPLACE INTO batch_hashes (position, hashes) VALUES (?, ?)"
READ_LIST = "SELECT hashes FROM batch_hashes"
CLEAR_LIST = "DELETE FROM batch_hashes"
FIND_LAST_SEGMENT = "SELECT segment, size FROM batch_segments ORDER BY segment DESC LIMIT 1"
PUT_SEGMENT = """INSERT INTO batch_segments (segment, size, newest) VALUES (?, ?, ?)
    ON CONFLICT (segment) DO UPDATE SET size = size + excluded.size, newest = excluded.newest"""
# One statement for all: binding each of them would cost more than it takes SQLite to parse them.
PUT_INDEXED = """INSERT OR IGNORE INTO batch_index (segment, hash, number)
    SELECT ?, value >> 32, value & 0xFFFFFFFF FROM json_each(?)"""
# The order of the tables is given: one search per segment and hash, whatever the planner knows about their sizes.
FIND_INDEXED = """SELECT hash, number FROM batch_segments CROSS JOIN batch_index USING (segment)
    WHERE hash IN ({marks})"""
LIST_OLDEST = "SELECT expires, number FROM batch_rows WHERE number < ? ORDER BY number LIMIT ?"
DROP_ROWS = "DELETE FROM batch_rows WHERE number <= ?"
FIND_OLD_SEGMENT = "SELECT segment FROM batch_segments WHERE newest < (SELECT min(number) FROM batch_rows) LIMIT 1"
DROP_INDEXED = """DELETE FROM batch_index WHERE (segment, hash, number) IN (
    SELECT segment, hash, number FROM batch_index WHERE segment = ? ORDER BY hash LIMIT ?)"""
DROP_SEGMENT = "DELETE FROM batch_segments WHERE segment = ?"

LISTED_BITS = 32  # of the number of a row, above which the hash of a key is in the list
LISTED = Struct("<Q")
HASH = Struct("<I")

_encode = msgspec.msgpack.Encoder().encode
_encode_json = msgspec.json.Encoder().encode
_decode = msgspec.msgpack.Decoder(dict[bytes, bytes]).decode


class BatchRow(NamedTuple):
    """Values that are stored together, by their keys."""

    expires: float
    values: dict[bytes, bytes]


class BatchSweeper:
    """Deletes what has expired now and then, with other writes.

    Only the oldest rows are looked at: a value that replaced another never goes before it, or that would come back.
    """

    def __init__(self) -> None:
        self._next = 0.0

    def sweep(self, connection: sqlite3.Connection, now: float) -> None:
        """Call it in the writer's thread, within its transaction."""
        if now >= self._next:
            is_done = _drop_rows(connection, now) and _drop_segment(connection)
            self._next = now + SWEEP_SECONDS if is_done else now


def append_batch(connection: sqlite3.Connection, values: Mapping[bytes, bytes], expires: float) -> None:
    """Store these values, within a transaction."""
    first = _find_last_row(connection) + 1
    rows: list[object] = []
    hashes: list[int] = []
    for number, part in enumerate(split_rows(values), first):
        rows += (number, expires, _encode(part))
        hashes += [hash_key(key) << LISTED_BITS | number for key in part]
    insert_rows(connection, PUT_ROWS, rows, 3)
    position, listed = connection.execute(FIND_LAST_LISTED).fetchone() or (0, b"")
    if len(listed) >= LISTED_BYTES:
        position, listed = position + 1, b""
    connection.execute(PUT_LISTED, (position, listed + pack(f"<{len(hashes)}Q", *hashes)))
    if position >= LISTED_ROWS:
        index_listed(connection)


def index_listed(connection: sqlite3.Connection) -> None:
    """Move the list into the index."""
    data = _read_list(connection)
    listed = sorted(unpack(f"<{len(data) // LISTED.size}Q", data))
    segment, size = connection.execute(FIND_LAST_SEGMENT).fetchone() or (0, 0)
    if size >= SEGMENT_SIZE:
        segment += 1
    connection.execute(PUT_SEGMENT, (segment, len(listed), _find_last_row(connection)))
    connection.execute(PUT_INDEXED, (segment, _encode_json(listed).decode()))
    connection.execute(CLEAR_LIST)


def find_values(connection: sqlite3.Connection, keys: Sequence[bytes], now: float) -> dict[bytes, bytes]:
    """The live values among those with these keys; of several with the same key, the last one counts."""
    hashes = {key: hash_key(key) for key in keys}
    # The list comes first: what is moved into the index meanwhile is found twice rather than never.
    numbers = _search_list(connection, set(hashes.values()))
    for hash, number in _search_index(connection, list(numbers)):
        numbers[hash].append(number)
    rows: dict[int, BatchRow | None] = {}
    found: dict[bytes, bytes] = {}
    for key, hash in hashes.items():
        for number in sorted(numbers[hash], reverse=True):
            if number not in rows:
                rows[number] = _read_row(connection, number)
            row = rows[number]
            if row is not None and (value := row.values.get(key)) is not None:
                if row.expires > now:
                    found[key] = value
                break
    return found


def hash_key(key: bytes) -> int:
    """31 bits, so that SQLite can have the number of a row beside them; keys with the same ones cost a search more."""
    return crc32(key) >> 1


def split_rows(values: Mapping[bytes, bytes]) -> Iterator[dict[bytes, bytes]]:
    """As many values at once as make a row."""
    part: dict[bytes, bytes] = {}
    size = 0
    for key, value in values.items():
        size += len(key) + len(value)
        if size > ROW_BYTES and part:
            yield part
            part, size = {}, len(key) + len(value)
        part[key] = value
    yield part


def _search_list(connection: sqlite3.Connection, hashes: set[int]) -> dict[int, list[int]]:
    """The rows that may have values with these hashes, as far as they are listed."""
    numbers: dict[int, list[int]] = {hash: [] for hash in hashes}
    listed = _read_list(connection)
    for hash, found in numbers.items():
        mark, start = HASH.pack(hash), 0
        while (start := listed.find(mark, start + 1)) >= 0:
            if start % LISTED.size == HASH.size:  # its number comes before it
                found += HASH.unpack_from(listed, start - HASH.size)
    return numbers


def _read_list(connection: sqlite3.Connection) -> bytes:
    return b"".join(data for (data,) in connection.execute(READ_LIST))


def _search_index(connection: sqlite3.Connection, hashes: Sequence[int]) -> Iterator[tuple[int, int]]:
    for some in split_keys(hashes):
        yield from connection.execute(FIND_INDEXED.format(marks=",".join("?" * len(some))), some)


def _read_row(connection: sqlite3.Connection, number: int) -> BatchRow | None:
    row = connection.execute(READ_ROW, (number,)).fetchone()
    return None if row is None else BatchRow(row[0], _decode(row[1]))


def _find_last_row(connection: sqlite3.Connection) -> int:
    return int(connection.execute(FIND_LAST_ROW).fetchone()[0] or 0)


def _drop_rows(connection: sqlite3.Connection, now: float) -> bool:
    """Delete the oldest rows that have expired; False if there may be more of them. The last one keeps its number."""
    oldest = connection.execute(LIST_OLDEST, (_find_last_row(connection), SWEPT_ROWS))
    expired = [number for _, number in takewhile(lambda row: row[0] <= now, oldest)]
    if expired:
        connection.execute(DROP_ROWS, (expired[-1],))
    return len(expired) < SWEPT_ROWS


def _drop_segment(connection: sqlite3.Connection) -> bool:
    """Delete hashes of a segment whose rows are all gone; False if there may be more of them."""
    old = connection.execute(FIND_OLD_SEGMENT).fetchone()
    if old is None:
        return True
    if connection.execute(DROP_INDEXED, (*old, SWEPT_HASHES)).rowcount < SWEPT_HASHES:
        connection.execute(DROP_SEGMENT, old)
    return False
