"""The knowledge of every workspace: files that all share, and what each has stored."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple
from weakref import WeakValueDictionary

import msgspec

from gateway.domain.knowledge import KNOWLEDGE_KINDS, NO_KNOWLEDGE, KnowledgeSet
from gateway.domain.record import Author, FeedPosition, Record, RecordWrite
from gateway.errors import StoreError
from gateway.fair_queue import FairThreads
from gateway.knowledge.graph import EMPTY_GRAPH, KnowledgeGraph, build_graph
from gateway.knowledge.workspace import WorkspaceKnowledge
from gateway.policies.collection import freeze_gc
from gateway.policies.quotas import Quotas, QuotaUse, require_quota
from gateway.settings import QuotaSettings
from gateway.stores.knowledge_records import KnowledgeRecords
from gateway.stores.protocols import AuditEntryPage, AuditFilter

POLL_SECONDS = 0.5
START_SECONDS = 10.0  # that a start waits for the graph; then it is loaded in the background
LARGE = 1_000  # changed records after which the garbage collector is kept away from what they became
DEFAULT_QUOTAS = QuotaSettings()
BYTES = "knowledge_bytes"

log = logging.getLogger(__name__)

Notify = Callable[[str | None], None]  # the workspace; None: any


class KnownGraph(NamedTuple):
    """A graph to search in."""

    graph: KnowledgeGraph
    complete: bool  # False: only the files are known so far, the store has not answered


class PendingRecords(msgspec.Struct):
    """Records of a workspace that were read and are not in its graph yet, the oldest first."""

    records: list[Record] = msgspec.field(default_factory=list)
    complete: bool = False  # they replace all that was known


class KnowledgeRepository:
    """Graphs by workspace. A request takes one and keeps it; edits replace it, and leave every snapshot alone."""

    def __init__(
        self,
        records: KnowledgeRecords | None = None,
        threads: FairThreads | None = None,
        quotas: QuotaSettings = DEFAULT_QUOTAS,
    ) -> None:
        self._records = records or KnowledgeRecords()
        self._threads = threads or FairThreads("knowledge")
        self._quotas = Quotas(quotas)
        self._files = NO_KNOWLEDGE
        self._base = EMPTY_GRAPH  # of the files alone
        self._workspaces: dict[str, WorkspaceKnowledge] = {}
        self._position: FeedPosition | None = None
        self._feed = asyncio.Lock()  # held while changes are read
        self._pending: dict[str, PendingRecords] = {}
        # By workspace, held while its graph changes: nobody waits for what another has stored.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._wanted: KnowledgeSet = NO_KNOWLEDGE  # the files that are to be used
        self._rebuild = asyncio.Event()
        self._watchers: list[Notify] = []
        self.loaded = False  # whether it is known what is stored
        self.error: str | None = None

    def watch(self, notify: Notify) -> None:
        """Call `notify` when a workspace begins or ends to have knowledge: what was cached for it may be wrong."""
        self._watchers.append(notify)

    def may_have(self, workspace: str) -> bool:
        """Whether there is anything to find, as far as that is known."""
        return not self.loaded or bool(self.find(workspace).graph)

    def find(self, workspace: str) -> KnownGraph:
        known = self._workspaces.get(workspace)
        return KnownGraph(self._base if known is None else known.graph, self.loaded)

    def get(self, workspace: str) -> WorkspaceKnowledge:
        """What a workspace has stored; raises StoreError before that is known."""
        if not self.loaded:
            raise StoreError(self.error or "The knowledge graph has not been loaded yet.")
        return self._workspaces.get(workspace) or WorkspaceKnowledge(graph=self._base)

    async def start(self) -> None:
        """The first load; a store that takes long or fails is read by `run` later."""
        with contextlib.suppress(StoreError, TimeoutError):
            async with asyncio.timeout(START_SECONDS):
                await self._use_files()
                await self.refresh()

    def follow_files(self, files: KnowledgeSet) -> None:
        """Use what other policy files say, soon."""
        if files is not self._wanted:
            self._wanted = files
            self._rebuild.set()

    async def run(self, interval: float = POLL_SECONDS) -> None:
        """Keep up with the files and with the changes of others, until cancelled."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(interval):
                    await self._rebuild.wait()
            await self._use_files()
            with contextlib.suppress(StoreError):
                await self.refresh()

    async def refresh(self, workspace: str | None = None) -> None:
        """Use what has changed in the store, in a workspace or, without one, in all; raises StoreError."""
        async with self._feed:
            try:
                await self._read_changes()
            except StoreError as error:
                if self.error is None:
                    log.warning("the knowledge graph cannot be read from the store: %s", error)
                self.error = str(error)
                raise
            self.error = None
        if self.loaded and workspace is not None:
            await self._update(workspace)
            return
        await self._update_all()
        if not self.loaded:
            self.loaded = True
            self._notify(None)

    async def commit(self, writes: Sequence[RecordWrite], author: Author, *, wait: bool = True) -> list[Record]:
        """Store all changes of a workspace or none; they are in use on this replica on return, if it is to `wait`.

        Raises QuotaExceeded, VersionConflict and StoreError.
        """
        workspace = writes[0].key.workspace
        self.check_quotas(workspace, writes)
        store = await self._records.open(create=True)
        assert store is not None
        records = await store.commit(writes, author)
        if wait:
            with contextlib.suppress(StoreError):  # the changes are stored; this replica reads them later
                await self.refresh(workspace)
        return records

    async def list_audit(self, workspace: str, criteria: AuditFilter, skip: int, take: int) -> AuditEntryPage:
        """The matching audit entries of a workspace's graph, newest first; raises StoreError."""
        store = await self._records.open()
        return AuditEntryPage([], 0) if store is None else await store.list_audit(workspace, criteria, skip, take)

    def list_quotas(self, workspace: str) -> list[QuotaUse]:
        """The quotas of the graph, with what is used of them."""
        limits, known = self._quotas.get_limits(workspace), self._workspaces.get(workspace) or WorkspaceKnowledge()
        used = {**known.counts, BYTES: known.bytes}
        return [QuotaUse(name, getattr(limits, name), used[name]) for name in (*KNOWLEDGE_KINDS, BYTES)]

    def check_quotas(self, workspace: str, writes: Sequence[RecordWrite]) -> None:
        """Raise QuotaExceeded if the writes, all together, go beyond a quota."""
        known = self._workspaces.get(workspace) or WorkspaceKnowledge()
        limits, before = self._quotas.get_limits(workspace), {**known.counts, BYTES: known.bytes}
        after = dict(before)
        for write in writes:
            former = known.stored.get((write.key.kind, write.key.alias))
            after[write.key.kind] += (write.body is not None) - (former is not None)
            after[BYTES] += len(write.body or b"") - (former.size if former is not None else 0)
        for name, used in after.items():
            require_quota(name, getattr(limits, name), before[name], used)

    async def _use_files(self) -> None:
        """Build every graph with the wanted files, if they are others."""
        self._rebuild.clear()
        files = self._wanted
        if files is self._files:
            return
        self._base = await self._threads.run("", build_graph, files, NO_KNOWLEDGE)
        self._files = files
        await self._update_all()
        self._notify(None)

    async def _read_changes(self) -> None:
        """Note the records that are new in the store, or all of them if it does not know what is new."""
        store = await self._records.open()
        if store is None:
            return
        changed = await store.read_changes(self._position) if self._position is not None else None
        batch = changed or await store.load()
        if changed is None:
            self._pending = {name: PendingRecords(complete=True) for name in self._workspaces}
        for record in batch.records:
            name = record.key.workspace
            if name not in self._pending:
                self._pending[name] = PendingRecords(complete=changed is None)
            self._pending[name].records.append(record)
        self._position = batch.position

    async def _update_all(self) -> None:
        """Bring every graph up to date, side by side."""
        outdated = (name for name, known in self._workspaces.items() if known.files is not self._files)
        await asyncio.gather(*map(self._update, dict.fromkeys([*self._pending, *outdated])))

    async def _update(self, name: str) -> None:
        """Bring the graph of a workspace up to date with what was read, and with the files."""
        lock = self._locks.setdefault(name, asyncio.Lock())
        async with lock:
            known, files = self._workspaces.get(name) or WorkspaceKnowledge(), self._files
            pending = self._pending.pop(name, None) or PendingRecords()
            uses_files = known.files is files or name not in self._workspaces
            if not pending.records and not pending.complete and uses_files:
                return
            former = WorkspaceKnowledge() if pending.complete else known
            try:
                current = await self._threads.run(name, former.apply, pending.records, files)
            except BaseException:
                self._put_back(name, pending)
                raise
            had = bool(self.find(name).graph)
            if current.stored:
                self._workspaces[name] = current
            else:
                self._workspaces.pop(name, None)
            if bool(self.find(name).graph) != had:
                self._notify(name)
        if len(pending.records) > LARGE:
            freeze_gc(full=False)

    def _put_back(self, name: str, pending: PendingRecords) -> None:
        """They are still to be used, before those that were read meanwhile."""
        newer = self._pending.get(name)
        if newer is None:
            self._pending[name] = pending
        elif not newer.complete:
            self._pending[name] = PendingRecords([*pending.records, *newer.records], pending.complete)

    def _notify(self, workspace: str | None) -> None:
        for notify in self._watchers:
            notify(workspace)
