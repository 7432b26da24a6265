"""Records without a file: for tests, and for one process that may forget at a restart."""

import time
from collections.abc import Callable, Sequence
from secrets import token_hex
from uuid import uuid4

from gateway.domain.record import AuditEntry, Author, FeedPosition, Record, RecordBatch, RecordKey, RecordWrite
from gateway.errors import VersionConflict
from gateway.stores.protocols import AuditFilter

PRUNED_AT_ONCE = 1000  # versions and audit lines per call, so that no caller waits for a large backlog


class MemoryRecords:
    """A RecordStore of one process; what the other engines are held against."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._epoch = token_hex(16)
        self._number = 0
        self._versions: dict[RecordKey, list[Record]] = {}  # oldest first, a deletion included
        self._changed: dict[RecordKey, int] = {}  # number of the last change, in the order of these numbers
        self._audit: list[AuditEntry] = []

    async def load(self) -> RecordBatch:
        current = (versions[-1] for versions in self._versions.values())
        return RecordBatch(self._position, tuple(record for record in current if record.body is not None))

    async def changes(self, since: FeedPosition) -> RecordBatch | None:
        if since.epoch != self._epoch or since.number > self._number:
            return None
        changed: list[Record] = []
        for key in reversed(self._changed):
            if self._changed[key] <= since.number:
                break
            changed.append(self._versions[key][-1])
        return RecordBatch(self._position, tuple(reversed(changed)))

    async def commit(self, writes: Sequence[RecordWrite], author: Author) -> list[Record]:
        # Nothing is awaited from the first check to the last change: no other task comes in between.
        for write in writes:
            live = self._live(write.key)
            actual = live.version if live else 0
            if write.expected not in (None, actual):
                raise VersionConflict(write.key, actual)
        now = self._clock()
        return [self._write(write, author, now) for write in writes if write.body is not None or self._live(write.key)]

    async def versions(self, key: RecordKey, skip: int, take: int) -> tuple[list[Record], int]:
        kept = self._versions.get(key, [])
        return kept[::-1][skip : skip + take], len(kept)

    async def version(self, key: RecordKey, number: int) -> Record | None:
        return next((record for record in self._versions.get(key, []) if record.version == number), None)

    async def audit(self, workspace: str, wanted: AuditFilter, skip: int, take: int) -> tuple[list[AuditEntry], int]:
        found = [entry for entry in reversed(self._audit) if matches(entry, workspace, wanted)]
        return found[skip : skip + take], len(found)

    async def prune(self, keep: int, before: float) -> int:
        left = PRUNED_AT_ONCE
        for versions in self._versions.values():
            surplus = min(left, max(0, len(versions) - max(1, keep)))
            del versions[:surplus]
            left -= surplus
        old = [entry.number for entry in self._audit if entry.at < before][:left]
        self._audit = [entry for entry in self._audit if entry.number not in set(old)]
        return PRUNED_AT_ONCE - left + len(old)

    @property
    def _position(self) -> FeedPosition:
        return FeedPosition(self._epoch, self._number)

    def _live(self, key: RecordKey) -> Record | None:
        versions = self._versions.get(key)
        return versions[-1] if versions and versions[-1].body is not None else None

    def _write(self, write: RecordWrite, author: Author, now: float) -> Record:
        key, live = write.key, self._live(write.key)
        versions = self._versions.setdefault(key, [])
        made = live.id if live else write.id or str(uuid4())
        number = versions[-1].version + 1 if versions else 1
        record = Record(key, made, number, write.body, now, author.by, author.action)
        versions.append(record)
        self._number += 1
        self._changed.pop(key, None)
        self._changed[key] = self._number
        self._audit.append(AuditEntry(self._number, key, number, now, author.by, author.action, write.changes))
        return record


def matches(entry: AuditEntry, workspace: str, wanted: AuditFilter) -> bool:
    """Whether a line of the audit is wanted."""
    return entry.key.workspace == workspace and all(
        asked in (None, found)
        for asked, found in ((wanted.kind, entry.key.kind), (wanted.alias, entry.key.alias), (wanted.by, entry.by))
    )
