"""Records in memory: for tests, and for one process that may lose them at a restart."""

import time
from collections.abc import Callable, Sequence
from secrets import token_hex
from uuid import uuid4

from msgspec.structs import replace

from gateway.domain.content import Backlink, NodeLink
from gateway.domain.record import AuditEntry, Author, FeedPosition, Record, RecordBatch, RecordKey, RecordWrite
from gateway.errors import VersionConflict
from gateway.stores.protocols import PRUNE_LIMIT, AuditEntryPage, AuditFilter, RecordPage


class MemoryRecordStore:
    """A RecordStore for one process; the reference that the other engines are compared with."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._epoch = token_hex(16)
        self._number = 0
        self._versions: dict[RecordKey, list[Record]] = {}  # oldest first, deletions included
        self._changed: dict[RecordKey, int] = {}  # number of each object's last change, in ascending order
        self._audit: list[AuditEntry] = []
        self._creators: dict[RecordKey, str] = {}
        self._outlines: dict[RecordKey, bytes] = {}
        self._linked: dict[RecordKey, tuple[NodeLink, ...]] = {}
        self.links: dict[tuple[str, str], set[Backlink]] = {}  # by workspace and target

    async def load(self) -> RecordBatch:
        current = (self._shorten(versions[-1]) for versions in self._versions.values())
        return RecordBatch(self._position, tuple(record for record in current if record.body is not None))

    async def read_changes(self, since: FeedPosition) -> RecordBatch | None:
        if since.epoch != self._epoch or since.number > self._number:
            return None
        changed: list[Record] = []
        for key in reversed(self._changed):
            if self._changed[key] <= since.number:
                break
            changed.append(self._shorten(self._versions[key][-1]))
        return RecordBatch(self._position, tuple(reversed(changed)))

    async def commit(self, writes: Sequence[RecordWrite], author: Author) -> list[Record]:
        # Nothing is awaited between the first check and the last change, so no other task can interfere.
        for write in writes:
            live = self._find_live(write.key)
            actual = live.version if live else 0
            if write.expected not in (None, actual):
                raise VersionConflict(write.key, actual)
        now = self._clock()
        return [
            self._apply(write, author, now)
            for write in writes
            if write.body is not None or self._find_live(write.key) is not None
        ]

    async def read(self, keys: Sequence[RecordKey]) -> dict[RecordKey, Record]:
        found = {key: self.find_whole(key) for key in keys}
        return {key: record for key, record in found.items() if record is not None}

    async def list_versions(self, key: RecordKey, skip: int, take: int) -> RecordPage:
        versions = self._versions.get(key, [])
        return RecordPage(versions[::-1][skip : skip + take], len(versions))

    async def find_version(self, key: RecordKey, number: int) -> Record | None:
        return next((record for record in self._versions.get(key, []) if record.version == number), None)

    async def list_audit(self, workspace: str, criteria: AuditFilter, skip: int, take: int) -> AuditEntryPage:
        ours = (entry for entry in reversed(self._audit) if entry.key.workspace == workspace)
        matching = [entry for entry in ours if criteria.matches(entry)]
        return AuditEntryPage(matching[skip : skip + take], len(matching))

    async def prune(self, keep: int, before: float) -> int:
        left = PRUNE_LIMIT
        for versions in self._versions.values():
            surplus = min(left, max(0, len(versions) - max(1, keep)))
            del versions[:surplus]
            left -= surplus
        old = [entry.number for entry in self._audit if entry.at < before][:left]
        self._audit = [entry for entry in self._audit if entry.number not in set(old)]
        return PRUNE_LIMIT - left + len(old)

    def find_whole(self, key: RecordKey) -> Record | None:
        """The current version of an object, if it exists."""
        live = self._find_live(key)
        if live is None:
            return None
        return replace(live, created_by=self._creators[key])

    def outline(self, key: RecordKey, outline: bytes | None, links: Sequence[NodeLink]) -> None:
        """Index the current version of an object anew."""
        for link in self._linked.pop(key, ()):
            self.links[key.workspace, link.target].discard(Backlink(link.type, key.alias))
        self._outlines.pop(key, None)
        if outline is not None:
            self._outlines[key], self._linked[key] = outline, tuple(links)
        for link in links:
            self.links.setdefault((key.workspace, link.target), set()).add(Backlink(link.type, key.alias))

    def _shorten(self, record: Record) -> Record:
        """The record as everybody loads it."""
        outline = self._outlines.get(record.key)
        if outline is None or record.body is None:
            return record
        return replace(record, body=outline, whole_bytes=len(record.body))

    @property
    def _position(self) -> FeedPosition:
        return FeedPosition(self._epoch, self._number)

    def _find_live(self, key: RecordKey) -> Record | None:
        versions = self._versions.get(key)
        return versions[-1] if versions and versions[-1].body is not None else None

    def _apply(self, write: RecordWrite, author: Author, now: float) -> Record:
        key, live = write.key, self._find_live(write.key)
        versions = self._versions.setdefault(key, [])
        object_id = live.id if live else write.id or str(uuid4())
        version = versions[-1].version + 1 if versions else 1
        record = Record(key, object_id, version, write.body, now, author.by, author.action)
        versions.append(record)
        if live is None:
            self._creators[key] = author.by
        self.outline(key, write.outline, write.links)
        self._number += 1
        self._changed.pop(key, None)
        self._changed[key] = self._number
        self._audit.append(
            AuditEntry(self._number, key, version, now, author.by, author.action, write.changes, author.key)
        )
        return record
