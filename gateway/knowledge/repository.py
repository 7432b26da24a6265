"""The knowledge of every workspace: files that all share, and what each has stored."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

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
        self._lock = asyncio.Lock()  # held while graphs change
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

    async def refresh(self) -> None:
        """Read what has changed in the store; raises StoreError."""
        async with self._lock:
            try:
                await self._read_changes()
            except StoreError as error:
                if self.error is None:
                    log.warning("the knowledge graph cannot be read from the store: %s", error)
                self.error = str(error)
                raise
            self.error = None
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
                await self.refresh()
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
        async with self._lock:
            files = self._wanted
            if files is self._files:
                return
            self._base = await self._threads.run("", build_graph, files, NO_KNOWLEDGE)
            for name, known in list(self._workspaces.items()):
                self._workspaces[name] = await self._threads.run(name, known.replace_files, files)
            self._files = files
            self._notify(None)

    async def _read_changes(self) -> None:
        store = await self._records.open()
        if store is None:
            return
        if self._position is not None:
            changed = await store.read_changes(self._position)
            if changed is not None:
                await self._apply(changed.records)
                self._position = changed.position
                return
        batch = await store.load()
        kept = {record.key.workspace for record in batch.records}
        for name in self._workspaces.keys() - kept:
            del self._workspaces[name]
            self._notify(name)
        await self._apply(batch.records, complete=True)
        self._position = batch.position

    async def _apply(self, records: Sequence[Record], *, complete: bool = False) -> None:
        """Know these records from now on, in addition or, if `complete`, in place of all of their workspaces."""
        by_workspace: dict[str, list[Record]] = {}
        for record in records:
            by_workspace.setdefault(record.key.workspace, []).append(record)
        for name, own in by_workspace.items():
            former = WorkspaceKnowledge() if complete else self._workspaces.get(name) or WorkspaceKnowledge()
            had = bool(self.find(name).graph)
            self._workspaces[name] = known = await self._threads.run(name, former.apply, own, self._files)
            if bool(known.graph) != had:
                self._notify(name)
        if len(records) > LARGE:
            freeze_gc(full=False)

    def _notify(self, workspace: str | None) -> None:
        for notify in self._watchers:
            notify(workspace)
