"""The policies of every workspace: files that all share, and what each has stored."""

import asyncio
import contextlib
import gc
import logging
import math
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gateway.domain.material import LinkMaterial
from gateway.domain.record import Author, FeedPosition, Record, RecordBatch, RecordWrite
from gateway.domain.snapshot import EMPTY_SNAPSHOT, Snapshot
from gateway.errors import Faults, ServiceUnavailable, StoreError, VersionConflict
from gateway.policies.assembly import assemble
from gateway.policies.context_compiler import PolicySource
from gateway.policies.file_policies import FilePolicies, PolicyReader
from gateway.policies.workspace import Entries, StoredPolicies, Workspace
from gateway.stores.protocols import RecordStore

POLL_SECONDS = 0.5
SWEPT = 2048  # swaps after which everything is looked at for garbage: the loop stands still for some 75 ms
DEFAULT = "default"
ATTEMPTS = 5  # to write back what a store has lost, while other nodes do the same
RESTORER = Author("gateway", "restore")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PolicyGeneration:
    """Everything that serves at one moment; it is swapped as a whole."""

    number: int = 0
    files: FilePolicies | None = None
    base: Snapshot = EMPTY_SNAPSHOT  # for workspaces that have stored nothing
    stored: StoredPolicies = field(default_factory=StoredPolicies)
    workspaces: Mapping[str, Workspace] = field(default_factory=dict)
    broken: Mapping[str, str] = field(default_factory=dict)  # why a workspace kept its former policies, or has none


class PolicyRepository:
    """What new requests work with. Readers take `of(workspace)` once per request; it never changes under them."""

    def __init__(self, source: PolicySource, store: RecordStore, *, clock: Callable[[], float] = time.time) -> None:
        self._source = source
        self._reader = PolicyReader(source)
        self._store = store
        self._clock = clock
        self._now = PolicyGeneration()
        self._position: FeedPosition | None = None
        self._turn = asyncio.Lock()
        self._entries: dict[str, Entries] = {}  # of this generation, as far as somebody asked for them
        self._watchers: list[Callable[[], None]] = []
        self._file_error: str | None = None
        self.contact = -math.inf  # when the store answered last, in monotonic seconds; -inf: never
        self.store_error: str | None = None

    @property
    def generation(self) -> int:
        return self._now.number

    @property
    def current(self) -> Snapshot:
        """Of the workspace that callers without one belong to."""
        return self.of(DEFAULT)

    @property
    def loaded(self) -> bool:
        """Whether both the files and the store have been read: before that nobody can be answered."""
        return self._now.number > 0 and self._position is not None

    @property
    def error(self) -> str | None:
        """Why the latest change is not in use."""
        broken = (f"workspace {name!r}: {why}" for name, why in self._now.broken.items())
        return self._file_error or next(broken, None)

    def of(self, workspace: str) -> Snapshot:
        """The policies of a workspace; raises Unavailable while they are not known or were faulty from the start."""
        known = self._now.workspaces.get(workspace)
        if known is not None:
            return known.snapshot
        if self._position is None or workspace in self._now.broken:
            raise ServiceUnavailable("The policies of this workspace cannot be used now. The gateway's log says why.")
        return self._now.base

    def snapshots(self) -> tuple[Snapshot, dict[str, Snapshot]]:
        """What the files give, and what each workspace that stores something has."""
        return self._now.base, {name: one.snapshot for name, one in self._now.workspaces.items()}

    def entries(self, workspace: str) -> Entries:
        """Every object of a workspace by kind and alias; those of files have no record."""
        assert self._now.files is not None
        found = self._entries.get(workspace)
        if found is None:
            # A workspace with faults goes on with former policies; whoever mends it has to see what is stored.
            known = None if workspace in self._now.broken else self._now.workspaces.get(workspace)
            found = (known or self._workspace(self._now, workspace)).entries(self._now.files)
            self._entries[workspace] = found
        return found

    def stored(self, kind: str) -> Iterable[Record]:
        """The stored objects of a kind in all workspaces."""
        return self._now.stored.of_kind(kind)

    def links(self) -> dict[str, list[tuple[str, str, LinkMaterial]]]:
        """The links that policies name, by URL, each with the workspaces and resources that use it ("": all)."""
        found: dict[str, list[tuple[str, str, LinkMaterial]]] = {}
        shared = {} if self._now.files is None else self._now.files.policies.parts["contexts"]
        groups = [("", shared), *((name, one.contexts) for name, one in self._now.workspaces.items())]
        for workspace, parts in groups:
            for part in parts.values():
                for resource, link in (part.links or {}).items():
                    found.setdefault(link.url, []).append((workspace, resource, link))
        return found

    def watch(self, notify: Callable[[], None]) -> None:
        """Call `notify` after every swap, before whoever caused it goes on."""
        self._watchers.append(notify)

    async def start(self) -> None:
        """The first load; Faults of the files pass, because a server without its policies must not start.

        A store that does not answer yet is asked again by `follow`; until then nobody is answered.
        """
        files = await asyncio.to_thread(self._reader.read)
        base = await asyncio.to_thread(assemble, files.policies, 1, self._clock())
        self._now = PolicyGeneration(1, files, base)
        with contextlib.suppress(StoreError):
            await self.refresh()
        freeze_gc(self.generation)

    async def reload(self) -> bool:
        """Read the files again; True if what they say is in use now, else `error` says why not."""
        async with self._turn:
            try:
                files = await asyncio.to_thread(self._reader.read)
                self._swap(await asyncio.to_thread(self._rebuilt, files))
            except Faults as faults:
                self._file_error = str(faults)
                return False
            self._file_error = None
            return True

    async def refresh(self) -> None:
        """Take over what has changed in the store; raises StoreError if it does not answer."""
        async with self._turn:
            try:
                await self._take_over()
            except StoreError as error:
                self._note(str(error))
                raise
            self._note(None)

    async def commit(self, writes: Sequence[RecordWrite], author: Author) -> list[Record]:
        """Store changes; they are in use on this node before it returns. Raises VersionConflict and StoreError."""
        began = new_id()
        numbered = [
            write if write.id is not None else replace(write, id=f"{began}{place:04x}")
            for place, write in enumerate(writes)
        ]
        records = await self._store.commit(numbered, author)
        with contextlib.suppress(StoreError):  # it is stored; this node follows as soon as the store answers again
            await self.refresh()
        return records

    def trial(self, workspace: str, changes: Mapping[tuple[str, str], Any | None]) -> Snapshot:
        """The snapshot that changes would give, by kind and alias, None meaning deleted; raises Faults.

        It takes milliseconds of CPU: not on the loop.
        """
        now = self._now
        assert now.files is not None
        entries = now.stored.tried(workspace, changes)
        tried = Workspace.build(entries, now.files, self._source, now.workspaces.get(workspace))
        return tried.assembled(now.number, self._clock()).snapshot

    async def follow(self, interval: float = POLL_SECONDS) -> None:
        """Take over what others change, and what begins or ends to be valid, until cancelled."""
        while True:
            await asyncio.sleep(interval)
            with contextlib.suppress(StoreError):
                await self.refresh()
            if self._moment_passed():
                async with self._turn:
                    assert self._now.files is not None
                    self._swap(await asyncio.to_thread(self._rebuilt, self._now.files))

    def _moment_passed(self) -> bool:
        now = self._now
        # What is broken keeps its former snapshot, whose moment has passed for good.
        others = (one.snapshot for name, one in now.workspaces.items() if name not in now.broken)
        moments = (one.valid_until for one in (now.base, *others))
        return any(moment is not None and moment <= self._clock() for moment in moments)

    def _note(self, error: str | None) -> None:
        if error is None:
            self.contact = time.monotonic()
        elif self.store_error is None:
            log.warning("policies cannot be compared with the store: %s", error)
        self.store_error = error

    async def _take_over(self) -> None:
        if self._position is not None:
            changed = await self._store.changes(self._position)
            if changed is not None:
                if changed.records:
                    self._swap(await asyncio.to_thread(self._changed, self._now.stored, changed.records))
                self._position = changed.position
                return
        loaded = await self._store.load()
        if self._position is not None and self._now.stored.records:
            loaded = await self._refilled(loaded)
        if loaded.records or self._now.stored.records:
            self._swap(await asyncio.to_thread(self._changed, StoredPolicies(), loaded.records))
        self._position = loaded.position

    async def _refilled(self, loaded: RecordBatch) -> RecordBatch:
        """A store with another history gets back what it lost and this node holds; nobody is locked out meanwhile.

        What was deleted stays so: a store remembers that, as long as it remembers anything.
        """
        for _ in range(ATTEMPTS):
            everything = await self._store.changes(FeedPosition(loaded.position.epoch, 0))
            known = {record.key for record in (loaded if everything is None else everything).records}
            lost = sorted((one for one in self._now.stored.records.values() if one.key not in known), key=made)
            if not lost:
                break
            log.error("the store has lost %d objects; they are written back, without former versions", len(lost))
            with contextlib.suppress(VersionConflict):  # another node was faster
                await self._store.commit([RecordWrite(one.key, one.body, 0, one.id) for one in lost], RESTORER)
            loaded = await self._store.load()
        return loaded

    def _rebuilt(self, files: FilePolicies) -> PolicyGeneration:
        """Everything anew, with other files; raises their Faults. A workspace with faults keeps what it had."""
        number = self._now.number + 1
        base = assemble(files.policies, number, self._clock())
        fresh = replace(self._now, number=number, files=files, base=base)
        return self._with_workspaces(fresh, self._now.stored.workspaces)

    def _changed(self, former: StoredPolicies, changed: Sequence[Record]) -> PolicyGeneration:
        """With what came after `former`, which is what this node holds, or nothing when everything was loaded anew."""
        now = self._now
        fresh = replace(now, number=now.number + 1, stored=former.with_changes(changed))
        left = () if former is now.stored else now.stored.records
        return self._with_workspaces(fresh, {key.workspace for key in (*left, *(one.key for one in changed))})

    def _with_workspaces(self, fresh: PolicyGeneration, touched: Iterable[str]) -> PolicyGeneration:
        built = dict(fresh.workspaces)
        broken = dict(fresh.broken)
        for name in touched:
            broken.pop(name, None)
            try:
                workspace = self._workspace(fresh, name)
                if not workspace.empty:
                    built[name] = workspace.assembled(fresh.number, self._clock())
                else:
                    built.pop(name, None)
            except Faults as faults:
                broken[name] = str(faults)
                log.error("the stored policies of workspace %r cannot be used:\n%s", name, faults)
        return replace(fresh, workspaces=built, broken=broken)

    def _workspace(self, generation: PolicyGeneration, name: str) -> Workspace:
        assert generation.files is not None
        entries = generation.stored.entries(name)
        return Workspace.build(entries, generation.files, self._source, generation.workspaces.get(name))

    def _swap(self, fresh: PolicyGeneration) -> None:
        self._now = fresh
        self._entries.clear()
        freeze_gc(fresh.number)
        for notify in self._watchers:
            notify()


def freeze_gc(number: int) -> None:
    """Take what lives now out of the garbage collector's way.

    A full collection would walk the whole snapshot and stop the loop for it (35 ms for a big one). Garbage that is set
    aside along with it would stay for ever, so now and then it is looked at all the same.
    """
    if number % SWEPT == 0:
        gc.unfreeze()
        gc.collect()
    else:
        gc.collect(1)  # what is young: well under a millisecond
    gc.freeze()


def made(record: Record) -> str:
    """The order in which objects were made."""
    return record.id


def new_id() -> str:
    """An id in the order of time: what is made in one order keeps it."""
    return f"{time.time_ns() // 1000:013x}{secrets.token_hex(3)}"
