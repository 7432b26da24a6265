"""What the rest of the house asks of a store. One file per engine, chosen by URL scheme."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from gateway.domain.record import AuditEntry, Author, FeedPosition, Record, RecordBatch, RecordKey, RecordWrite


class EphemeralStore(Protocol):
    """Key-values that may expire: hidden turns, copies of links, the workspace secret, counters, leases."""

    async def put(self, key: str, value: bytes, ttl: float | None = None) -> None:
        """Keep `value` under `key` for `ttl` seconds (None: for good), replacing what was there.

        Raises StoreError when it could not be kept.
        """
        ...

    async def put_new(self, key: str, value: bytes) -> bytes:
        """Keep `value` for good unless the key exists; return what the key holds now."""
        ...

    async def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        """The live values among `keys`; a missing or expired key is simply absent."""
        ...

    async def add(self, key: str, amount: int, ttl: float) -> int:
        """Add to a counter that ends `ttl` seconds after its first addition; return its sum, `amount` included.

        `get_many` shows the sum in decimal digits.
        """
        ...

    async def lease(self, key: str, owner: str, ttl: float) -> bool:
        """Take or prolong a lease for `ttl` seconds; False while another owner holds it."""
        ...

    async def close(self) -> None:
        """Release files and threads; the store is not used afterwards."""
        ...


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which lines of a workspace's audit are wanted; None: any."""

    kind: str | None = None
    alias: str | None = None
    by: str | None = None


class RecordStore(Protocol):
    """Versioned objects with optimistic concurrency and a change feed. Every method raises StoreError on failure."""

    async def load(self) -> RecordBatch:
        """Every object of every workspace as it is now (deleted ones are absent), in no particular order."""
        ...

    async def changes(self, since: FeedPosition) -> RecordBatch | None:
        """The latest version of what was changed after `since`, deletions included; None: `load` anew.

        Cheap when nothing has changed: it is asked several times a second.
        """
        ...

    async def commit(self, writes: Sequence[RecordWrite], author: Author) -> list[Record]:
        """Make all changes or none, durably before it returns; raises VersionConflict if a version is not the expected.

        Deleting what does not exist with `expected=None` changes nothing and yields no record. No two writes of one
        commit have the same key.
        """
        ...

    async def versions(self, key: RecordKey, skip: int, take: int) -> tuple[list[Record], int]:
        """Versions that are kept of an object, newest first, and how many there are."""
        ...

    async def version(self, key: RecordKey, number: int) -> Record | None:
        """One version of an object, if it is kept."""
        ...

    async def audit(self, workspace: str, wanted: AuditFilter, skip: int, take: int) -> tuple[list[AuditEntry], int]:
        """Lines of a workspace's audit, newest first, and how many there are."""
        ...

    async def prune(self, keep: int, before: float) -> int:
        """Forget versions beyond the newest `keep` of an object, and audit lines older than `before`; how many.

        The current version of an object is always kept.
        """
        ...
