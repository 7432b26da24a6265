"""Values that are written all the time and seldom read: appended in batches, and indexed many at a time.

An index with random keys changes a page for each of them, and each page is written twice. Here the values of a batch
are appended in a few rows, and the hashes of their keys to a list. When the list is long, it is sorted into the buckets
of a segment of the index, so that a page changes once for many keys. Segments are bounded: a write costs the same
however much is kept. A search looks into the list and into one bucket of every segment; the key beside the value tells
whether it is the right one.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, takewhile
from struct import Struct, pack, unpack
from typing import NamedTuple
from zlib import crc32

import msgspec

from gateway.stores.protocols import CommonValue
from gateway.stores.sqlite_connection import SWEEP_SECONDS, insert_rows, split_keys

ROW_BYTES = 3600  # of the values that share a row: it fits into a page, and whoever wants one of them reads no more
LISTED_BYTES = 3000  # of hashes in a row of the list: with the next batch they still fit into a page
LISTED_ROWS = 20  # of that size: about 8,000 hashes, for which a search takes some 20 µs
SEGMENT_SIZE = (
    49_152  # hashes after which the list makes another segment: up to 57,000, so that most buckets fit a page
)
BUCKETS = 128  # of a segment; each of them changes when the list is sorted in
SWEPT_ROWS, SWEPT_HASHES = 50, 2000  # per sweep, so that no single write pays for a large backlog

FIND_LAST_ROW = "SELECT max(number) FROM batch_rows"
PUT_ROWS = "INSERT INTO batch_rows (number, expires, body) VALUES {}"
READ_ROW = "SELECT expires, body FROM batch_rows WHERE number = ?"
# All that a batch has to know, at once: with each statement Python fights for the interpreter.
FIND_ENDS = """SELECT (SELECT max(number) FROM batch_rows), position, hashes FROM (SELECT 1)
    LEFT JOIN (SELECT position, hashes FROM batch_hashes ORDER BY position DESC LIMIT 1)"""
PUT_LISTED = "INSERT OR REPLACE INTO batch_hashes (position, hashes) VALUES (?, ?)"
READ_LIST = "SELECT hashes FROM batch_hashes"
CLEAR_LIST = "DELETE FROM batch_hashes"
FIND_LAST_SEGMENT = "SELECT segment, size FROM batch_segments ORDER BY segment DESC LIMIT 1"
PUT_SEGMENT = """INSERT INTO batch_segments (segment, size, newest) VALUES (?, ?, ?)
    ON CONFLICT (segment) DO UPDATE SET size = size + excluded.size, newest = excluded.newest"""
PUT_BUCKETS = "INSERT OR REPLACE INTO batch_buckets (id, hashes) VALUES {}"
READ_SEGMENT = "SELECT id, hashes FROM batch_buckets WHERE id BETWEEN ? AND ?"
LIST_SEGMENTS = "SELECT segment FROM batch_segments"
READ_BUCKETS = "SELECT hashes FROM batch_buckets WHERE id IN ({marks})"
DROP_BUCKETS = "DELETE FROM batch_buckets WHERE id BETWEEN ? AND ?"
# An earlier release that shares the file drops segments without them.
DROP_LEFT_BUCKETS = "DELETE FROM batch_buckets WHERE id < ? * (SELECT min(segment) FROM batch_segments)"
# Earlier releases had a row for each hash in segments that may have both.
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
SHARED = b"\xff"  # which is no key: shared values stand there in a row

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(dict[bytes, bytes]).decode
_decode_shared = msgspec.msgpack.Decoder(list[CommonValue]).decode


class EncodedRow(NamedTuple):
    """The hashes of a row's keys, and its values with their keys."""

    hashes: list[int]
    body: bytes


class BatchRow(NamedTuple):
    """Values that are stored together, by their keys."""

    expires: float
    values: dict[bytes, bytes]

    def find(self, key: bytes) -> bytes | None:
        value = self.values.get(key)
        if value is None and SHARED in self.values:
            name = key.decode(errors="replace")
            return next((one.value for one in reversed(_decode_shared(self.values[SHARED])) if one.has(name)), None)
        return value


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


def append_batch(
    connection: sqlite3.Connection,
    values: Mapping[bytes, bytes],
    expires: float,
    shared: Sequence[CommonValue] = (),
) -> None:
    """Store these values, within a transaction."""
    last, position, listed = connection.execute(FIND_ENDS).fetchone()
    first, position, listed = (last or 0) + 1, position or 0, listed or b""
    rows: list[object] = []
    hashes: list[int] = []
    for number, row in enumerate(chain(share_rows(shared), split_rows(values)), first):
        rows += (number, expires, row.body)
        hashes += [hash << LISTED_BITS | number for hash in row.hashes]
    insert_rows(connection, PUT_ROWS, rows, 3)
    if len(listed) >= LISTED_BYTES:
        position, listed = position + len(listed) // LISTED_BYTES, b""
    connection.execute(PUT_LISTED, (position, listed + pack(f"<{len(hashes)}Q", *hashes)))
    if position >= LISTED_ROWS:
        index_listed(connection)


def index_listed(connection: sqlite3.Connection) -> None:
    """Move the list into the index."""
    data = _read_list(connection)
    segment, size = connection.execute(FIND_LAST_SEGMENT).fetchone() or (0, 0)
    if size >= SEGMENT_SIZE:
        segment += 1
    buckets: list[list[int]] = [[] for _ in range(BUCKETS)]
    for one in unpack(f"<{len(data) // LISTED.size}Q", data):  # thousands, while the event loop cannot go on
        buckets[(one >> LISTED_BITS) % BUCKETS].append(one)
    former = dict(connection.execute(READ_SEGMENT, find_buckets(segment)))
    rows: list[object] = []
    for bucket, listed in enumerate(buckets, find_bucket(segment, 0)):
        if listed:
            rows += (bucket, former.get(bucket, b"") + pack(f"<{len(listed)}Q", *listed))
    insert_rows(connection, PUT_BUCKETS, rows, 2)
    connection.execute(PUT_SEGMENT, (segment, len(data) // LISTED.size, _find_last_row(connection)))
    connection.execute(CLEAR_LIST)


def find_bucket(segment: int, hash: int) -> int:
    """The bucket of a segment in which a hash stands."""
    return segment * BUCKETS + hash % BUCKETS


def find_buckets(segment: int) -> tuple[int, int]:
    """The first and the last bucket of a segment."""
    return find_bucket(segment, 0), find_bucket(segment, BUCKETS - 1)


def find_values(connection: sqlite3.Connection, keys: Sequence[bytes], now: float) -> dict[bytes, bytes]:
    """The live values among those with these keys; of several with the same key, the last one counts."""
    hashes = dict(zip(keys, hash_keys(b"", keys), strict=True))
    # The list comes first: what is moved into the index meanwhile is found twice rather than never.
    numbers: dict[int, list[int]] = {hash: [] for hash in hashes.values()}
    listed = _read_list(connection)
    segments = [segment for (segment,) in connection.execute(LIST_SEGMENTS)]
    for hash, rows_with_it in numbers.items():
        for some in (listed, *_read_buckets(connection, segments, hash)):
            rows_with_it += find_numbers(some, hash)
    for hash, number in _search_former(connection, list(numbers)):
        numbers[hash].append(number)
    rows: dict[int, BatchRow | None] = {}
    found: dict[bytes, bytes] = {}
    for key, hash in hashes.items():
        for number in sorted(numbers[hash], reverse=True):
            if number not in rows:
                rows[number] = _read_row(connection, number)
            row = rows[number]
            if row is not None and (value := row.find(key)) is not None:
                if row.expires > now:
                    found[key] = value
                break
    return found


def hash_keys(start: bytes, ends: Iterable[bytes]) -> list[int]:
    """Of keys that begin alike; those with the same hash cost a search more.

    31 bits: earlier releases had the number of a row beside them in an integer of SQLite's.
    """
    begun = crc32(start)
    return [crc32(end, begun) >> 1 for end in ends]


def split_rows(values: Mapping[bytes, bytes]) -> Iterator[EncodedRow]:
    """As many values at once as make a row."""
    part: dict[bytes, bytes] = {}
    size = 0
    for key, value in values.items():
        size += len(key) + len(value)
        if size > ROW_BYTES and part:
            yield EncodedRow(hash_keys(b"", part), _encode(part))
            part, size = {}, len(key) + len(value)
        part[key] = value
    if part:
        yield EncodedRow(hash_keys(b"", part), _encode(part))


def share_rows(shared: Sequence[CommonValue]) -> Iterator[EncodedRow]:
    """As many shared values at once as make a row; one with many keys takes several."""
    part: list[CommonValue] = []
    size = 0
    for one in chain.from_iterable(map(split_shared, shared)):
        size += len(one.start) + len(one.ends) + len(one.value)
        if size > ROW_BYTES and part:
            yield encode_shared(part)
            part, size = [], len(one.start) + len(one.ends) + len(one.value)
        part.append(one)
    if part:
        yield encode_shared(part)


def split_shared(one: CommonValue) -> Iterator[CommonValue]:
    """The same value with so many keys at once that they fit into a row."""
    if len(one.ends) <= ROW_BYTES:
        yield one
        return
    ends = one.ends.split(" ")
    per_row = max(1, ROW_BYTES // (max(map(len, ends)) + 1))
    for at in range(0, len(ends), per_row):
        yield CommonValue(one.start, " ".join(ends[at : at + per_row]), one.value)


def encode_shared(part: Sequence[CommonValue]) -> EncodedRow:
    hashes = (hash_keys(one.start.encode(), one.ends.encode().split(b" ")) for one in part)
    return EncodedRow(list(chain.from_iterable(hashes)), _encode({SHARED: _encode(part)}))


def find_numbers(listed: bytes, hash: int) -> Iterator[int]:
    """The rows that may have values with this hash, as far as they are listed here."""
    mark, start = HASH.pack(hash), 0
    while (start := listed.find(mark, start + 1)) >= 0:
        if start % LISTED.size == HASH.size:  # its number comes before it
            yield from HASH.unpack_from(listed, start - HASH.size)


def _read_list(connection: sqlite3.Connection) -> bytes:
    return b"".join(data for (data,) in connection.execute(READ_LIST))


def _read_buckets(connection: sqlite3.Connection, segments: Sequence[int], hash: int) -> Iterator[bytes]:
    """The bucket of each segment in which a hash would stand."""
    for some in split_keys([find_bucket(segment, hash) for segment in segments]):
        for (hashes,) in connection.execute(READ_BUCKETS.format(marks=",".join("?" * len(some))), some):
            yield hashes


def _search_former(connection: sqlite3.Connection, hashes: Sequence[int]) -> Iterator[tuple[int, int]]:
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
    connection.execute(DROP_LEFT_BUCKETS, (BUCKETS,))
    old = connection.execute(FIND_OLD_SEGMENT).fetchone()
    if old is None:
        return True
    connection.execute(DROP_BUCKETS, find_buckets(*old))
    if connection.execute(DROP_INDEXED, (*old, SWEPT_HASHES)).rowcount < SWEPT_HASHES:
        connection.execute(DROP_SEGMENT, old)
    return False
