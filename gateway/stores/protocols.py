"""What the rest of the gateway needs from a store. One file per engine and kind of data; the URL chooses the engine."""

import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from gateway.domain.receipt import Receipt, ReceiptFilter, ReceiptPage
from gateway.domain.receipt_note import ReceiptBatch
from gateway.domain.record import AuditEntry, Author, FeedPosition, Record, RecordBatch, RecordKey, RecordWrite
from gateway.domain.session import SessionKey

PRUNE_LIMIT = 1000  # versions and audit entries per `prune`, so that no caller waits for a large backlog
# What one page may look at: with rare combinations of filters, on a busy machine and a cold disk too, it ends soon.
RECEIPT_SCAN = 2000
RECEIPT_SCAN_SECONDS = 0.025  # after the first RECEIPT_SCAN_LEAST
RECEIPT_SCAN_LEAST = 200
UNUSED_SECONDS = 30 * 86_400.0  # how long a vector is kept after its last use
TOUCH_SECONDS = 86_400.0  # the last use of a vector is recorded once a day at most


class CommonValue(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A value that stands under several keys, which begin alike."""

    start: str
    ends: str  # of the keys: ASCII, with a space between them
    value: bytes

    def has(self, key: str) -> bool:
        end = key[len(self.start) :]
        return key.startswith(self.start) and " " not in end and f" {end} " in f" {self.ends} "


def join_values(values: Mapping[str, bytes], shared: Sequence[CommonValue]) -> dict[str, bytes]:
    """All of them, each under its own key."""
    return {**{one.start + end: one.value for one in shared for end in one.ends.split(" ")}, **values}


class EphemeralStore(Protocol):
    """Key-values that may expire: hidden turns, copies of web pages, the workspace secret, counters, leases."""

    async def put(self, key: str, value: bytes, ttl: float | None = None) -> None:
        """Store `value` under `key` for `ttl` seconds (None: forever), replacing any previous value.

        Raises StoreError if it could not be stored.
        """
        ...

    async def append_many(self, values: Mapping[str, bytes], ttl: float, shared: Sequence[CommonValue] = ()) -> None:
        """Store several values for `ttl` seconds in one step, all or none, replacing any that were appended before.

        Where a key stands in several of them, `values` counts, then the last of `shared`.

        For values that are written much more often than read. Only `find_appended` finds them: their keys are not
        used with the other methods.
        """
        ...

    async def find_appended(self, keys: Sequence[str]) -> dict[str, bytes]:
        """The live values among those that were appended under these keys; a missing one is simply absent."""
        ...

    async def put_new(self, key: str, value: bytes) -> bytes:
        """Store `value` forever unless the key exists; return the value that the key has now."""
        ...

    async def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        """The live values among `keys`; a missing or expired key is simply absent."""
        ...

    async def add(self, key: str, amount: int, ttl: float) -> int:
        """Add to a counter that expires `ttl` seconds after its first addition; return the new sum.

        `get_many` shows the sum in decimal digits.
        """
        ...

    async def add_many(self, amounts: Mapping[str, int], ttl: float) -> dict[str, int]:
        """Add to several counters in one step, all or none; return the new sum of each. An amount of 0 only reads."""
        ...

    async def lease(self, key: str, owner: str, ttl: float) -> bool:
        """Acquire or renew a lease for `ttl` seconds; False while another owner has it."""
        ...

    async def close(self) -> None:
        """Release files and threads; the store is not used afterwards."""
        ...


class AuditFilter(msgspec.Struct, frozen=True):
    """Which entries of a workspace's audit are wanted; None: any."""

    kind: str | None = None
    alias: str | None = None
    by: str | None = None  # the name of the author or the id of its key

    def matches(self, entry: AuditEntry) -> bool:
        if self.by not in (None, entry.by, entry.author_key):
            return False
        pairs = ((self.kind, entry.key.kind), (self.alias, entry.key.alias))
        return all(wanted in (None, actual) for wanted, actual in pairs)


class RecordPage(NamedTuple):
    """Some of the stored versions of an object."""

    records: list[Record]
    total: int


class AuditEntryPage(NamedTuple):
    """Some of the matching audit entries of a workspace."""

    entries: list[AuditEntry]
    total: int


class RecordStore(Protocol):
    """Versioned objects with optimistic concurrency and a change feed. Every method raises StoreError on failure.

    An object that was written with an outline comes with that in place of its body wherever many are read at once.
    """

    async def load(self) -> RecordBatch:
        """The current version of every object in every workspace, without deleted ones, in no particular order."""
        ...

    async def read_changes(self, since: FeedPosition) -> RecordBatch | None:
        """The current version of everything that changed after `since`, deletions included; None: `load` again.

        Cheap when nothing has changed: it is called several times a second.
        """
        ...

    async def read(self, keys: Sequence[RecordKey]) -> dict[RecordKey, Record]:
        """The current versions of these objects with their whole bodies; one that does not exist is absent."""
        ...

    async def commit(self, writes: Sequence[RecordWrite], author: Author) -> list[Record]:
        """Apply all writes or none, durably before it returns; raises VersionConflict on an unexpected version.

        Deleting an object that does not exist with `expected=None` changes nothing and yields no record. No two
        writes of one commit have the same key.
        """
        ...

    async def list_versions(self, key: RecordKey, skip: int, take: int) -> RecordPage:
        """The stored versions of an object, newest first."""
        ...

    async def find_version(self, key: RecordKey, number: int) -> Record | None:
        """One version of an object, if it is still stored."""
        ...

    async def list_audit(self, workspace: str, criteria: AuditFilter, skip: int, take: int) -> AuditEntryPage:
        """The matching audit entries of a workspace, newest first."""
        ...

    async def prune(self, keep: int, before: float) -> int:
        """Delete all but the newest `keep` versions of each object, and audit entries older than `before`.

        Returns how many were deleted, PRUNE_LIMIT at most. The current version of an object is never deleted.
        """
        ...


class VectorStore(Protocol):
    """Vectors under the hash of model and text; a vector that was not used for a month is deleted."""

    async def get_many(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """The stored vectors among `keys`, which counts as use; raises StoreError."""
        ...

    async def put_many(self, vectors: Mapping[bytes, bytes]) -> None:
        """Store these vectors; raises StoreError if they could not be stored."""
        ...

    async def sweep(self) -> int:
        """Delete what was not used for a month; returns how many, or 0 if the engine expires them itself."""
        ...

    async def close(self) -> None:
        """Release files and threads; the store is not used afterwards."""
        ...


class ReceiptScan:
    """The bounds of one page."""

    __slots__ = ("_end", "_scanned")

    def __init__(self) -> None:
        self._scanned = 0
        self._end = time.monotonic() + RECEIPT_SCAN_SECONDS

    def is_over(self) -> bool:
        """Whether the receipt that was just looked at is the last one for this page."""
        self._scanned += 1
        late = self._scanned >= RECEIPT_SCAN_LEAST and time.monotonic() > self._end
        return late or self._scanned >= RECEIPT_SCAN


class ReceiptStore(Protocol):
    """The accounts of exchanges, newest first. Every method raises StoreError on failure.

    A receipt belongs to the process that started it until that process finishes it. A boot id names the process.
    """

    async def write(self, receipts: ReceiptBatch, boot: str) -> None:
        """Store all or none. One with the status `started` belongs to `boot`, any other is finished.

        A finished receipt never changes again; one that was only swept is replaced by what its process says. Writing
        the same receipts twice is harmless; those that were only noted, after a write that failed or all at once.
        """
        ...

    async def list_page(
        self, workspace: str, criteria: ReceiptFilter, after: str | None, take: int, whole: bool = False
    ) -> ReceiptPage:
        """The matching receipts that are older than `after`, `take` at most; details are empty unless `whole`.

        It looks at a bounded number of receipts: a page may be short, even empty, and still have a next one.
        """
        ...

    async def find(self, workspace: str, id: str) -> Receipt | None:
        """One receipt, with its details."""
        ...

    async def delete(self, workspace: str, id: str) -> bool:
        """Delete a receipt; False if there is none."""
        ...

    async def renew(self, boot: str, seconds: float) -> None:
        """Say that the process is alive, for so many seconds; 0: it has ended."""
        ...

    async def sweep(self) -> int:
        """Mark what processes that are gone have left unfinished as aborted; returns how many."""
        ...

    async def prune(self, before: float, max_bytes: int) -> int:
        """Delete receipts that are older than `before`, and the oldest while all take more than `max_bytes`.

        Returns how many were deleted, PRUNE_LIMIT at most; call it until it returns 0.
        """
        ...

    async def close(self) -> None:
        """Release files, threads and connections; the store is not used afterwards."""
        ...


class StoredSession(msgspec.Struct, frozen=True):
    """A session's body with what the store knows about it."""

    key: SessionKey
    version: int  # 1 when it was created
    body: bytes
    updated: float


class SessionOwner(msgspec.Struct, frozen=True):
    """Whose sessions are wanted; None: anybody's in the workspace."""

    workspace: str
    principal: str | None = None
    user: str | None = None

    def owns(self, key: SessionKey) -> bool:
        pairs = ((self.workspace, key.workspace), (self.principal, key.principal), (self.user, key.user))
        return all(wanted in (None, actual) for wanted, actual in pairs)


class SessionPage(NamedTuple):
    """Some of the sessions that are wanted."""

    sessions: list[StoredSession]
    total: int


class SessionStore(Protocol):
    """Sessions with optimistic concurrency; they expire. Every method raises StoreError on failure."""

    async def get(self, key: SessionKey) -> StoredSession | None:
        """The session, unless there is none or it has expired."""
        ...

    async def put(self, key: SessionKey, body: bytes, expected: int, ttl: float) -> StoredSession | None:
        """Store the next version for `ttl` seconds; None if the current one is not `expected` (0: there is none)."""
        ...

    async def renew(self, key: SessionKey, ttl: float) -> None:
        """Keep a session for `ttl` more seconds without changing it."""
        ...

    async def delete(self, key: SessionKey, expected: int | None = None) -> bool:
        """Delete a session; False if there was none, or if its version is not `expected` (None: any)."""
        ...

    async def count(self, workspace: str) -> int:
        """How many sessions a workspace has; some of them may have expired a moment ago."""
        ...

    async def list_sessions(self, owner: SessionOwner, skip: int, take: int) -> SessionPage:
        """The owner's sessions, the last changed one first."""
        ...
