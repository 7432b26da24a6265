"""The policies of every workspace: files that all share, and what each has stored."""

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial

from msgspec.structs import replace

from gateway.domain.knowledge import KnowledgeSet
from gateway.domain.principal import DEFAULT_WORKSPACE
from gateway.domain.record import Author, FeedPosition, Record, RecordKey, RecordWrite
from gateway.domain.snapshot import ServedSnapshots, Snapshot
from gateway.domain.tool import ToolServerAddress
from gateway.errors import Faults, ServiceUnavailable, StoreError, WorkspaceBusy
from gateway.fair_queue import LOCK_RESTS, FairThreads
from gateway.policies.assembly import assemble
from gateway.policies.collection import FULL_COLLECTION_SWAPS, GarbageFreezer
from gateway.policies.context_compiler import PolicySource
from gateway.policies.file_policies import FilePolicies, FilePolicyReader
from gateway.policies.files import PolicyEntry
from gateway.policies.generation import GenerationBuilder, LinkUse, PolicyGeneration, ServerUse, WorkspaceBuild
from gateway.policies.node_records import CONTENT, group_ids, lacks_outline, outline_write
from gateway.policies.quotas import Quotas, QuotaUse
from gateway.policies.record_ids import make_id_prefix
from gateway.policies.restoration import restore_lost_records
from gateway.policies.workspace import AdoptedName, Changes, StoredPolicies, WorkspaceEntries
from gateway.policies.workspace_builds import WorkspaceBuilds
from gateway.queue_bounds import QueueBounds
from gateway.settings import QuotaLimits, QuotaSettings
from gateway.stores.protocols import RecordStore

POLL_SECONDS = 0.5
START_PATIENCE = 60.0  # seconds that a start waits until the policies of all workspaces are compiled
BUSY_SECONDS = 0.2  # until a build that found no room in the queue is tried again
NOTIFY_SECONDS = 0.1  # between two announcements while many workspaces are built
LARGE_BYTES = 64 * 1024  # of writes; more are not looked through on the event loop
DEFAULT_QUOTAS = QuotaSettings()
COMPILE_BOUNDS = QueueBounds(places=3, each=1, waiting=64)

log = logging.getLogger(__name__)


class PolicyRepository:
    """What new requests work with. A request calls `get_snapshot` once; that snapshot never changes.

    The files, what is known of the store, and each workspace change independently of each other. Workspaces are built
    in threads that they share fairly: nobody waits until another's policies are compiled.
    """

    def __init__(
        self,
        source: PolicySource,
        store: RecordStore,
        *,
        quotas: QuotaSettings = DEFAULT_QUOTAS,
        clock: Callable[[], float] = time.time,
        full_collection_swaps: int = FULL_COLLECTION_SWAPS,
    ) -> None:
        self._reader, self._builder = FilePolicyReader(source), GenerationBuilder(source, clock)
        self._store, self._quotas, self._clock = store, Quotas(quotas), clock
        self._freezer = GarbageFreezer(full_collection_swaps)
        self._now = PolicyGeneration()
        self._position: FeedPosition | None = None
        self._feed_lock, self._files_lock = asyncio.Lock(), asyncio.Lock()  # held while the store, the files are read
        self._builds = WorkspaceBuilds(self._build)
        self._entries: dict[str, WorkspaceEntries] = {}  # of this generation, for workspaces that were asked for
        self._watchers: list[Callable[[], None]] = []
        self._record_watchers: list[Callable[[], None]] = []
        self._node_watchers: list[Callable[[str, Collection[str]], None]] = []
        self._known_generation = 0  # of which the watchers have heard, …
        self._notified_at = -math.inf  # … and when
        self._file_error: str | None = None
        self.threads = FairThreads("policies", COMPILE_BOUNDS, rests=LOCK_RESTS)
        self.contact = -math.inf  # when the store answered last, in monotonic seconds; -inf: never
        self.store_error: str | None = None
        self.unindexed: list[RecordKey] = []  # nodes that an earlier release has stored, for `index_nodes`

    @property
    def generation(self) -> int:
        return self._now.number

    @property
    def current(self) -> Snapshot:
        """Of the workspace that callers without one belong to."""
        return self.get_snapshot(DEFAULT_WORKSPACE)

    @property
    def loaded(self) -> bool:
        """Whether both the files and the store have been read; before that no request can be answered."""
        return self._now.number > 0 and self._position is not None

    @property
    def error(self) -> str | None:
        """Why the latest change is not in use, or what in it has no effect."""
        wrong = (*self._now.errors.items(), *self._now.warnings.items())
        errors = (f"workspace {name!r}: {error}" for name, error in wrong)
        return self._file_error or next(errors, None)

    def get_snapshot(self, workspace: str) -> Snapshot:
        """The policies of a workspace; raises ServiceUnavailable if none have been loaded or none were ever valid."""
        known = self._now.workspaces.get(workspace)
        if known is not None:
            return known.snapshot
        if self._position is None or workspace in self._now.errors or workspace in self._now.unbuilt:
            raise ServiceUnavailable("The policies of this workspace are not available. See the gateway's log.")
        return self._now.base

    def snapshots(self) -> ServedSnapshots:
        """The snapshot of the files, and that of each workspace that has stored something."""
        return ServedSnapshots(self._now.base, {name: one.snapshot for name, one in self._now.workspaces.items()})

    def entries(self, workspace: str) -> WorkspaceEntries:
        """Every object of a workspace by kind and alias; those of files have no record."""
        found = self._entries.get(workspace)
        if found is None:
            # A workspace with faults is served its former policies, but its editors have to see what is stored.
            known = self._now.faulty.get(workspace) or self._now.workspaces.get(workspace)
            if known is None and workspace in self._now.stored.list_users():
                raise ServiceUnavailable("The policies of this workspace are still being compiled. Retry in a moment.")
            known = known or self._builder.build_workspace(self._now, workspace)
            find = partial(self.find_record, workspace, CONTENT)
            found = self._entries[workspace] = known.entries(self._now.loaded_files, find)
        return found

    async def read_nodes(self, workspace: str, ids: Iterable[str]) -> dict[str, Record]:
        """The whole records of stored nodes by id; raises StoreError."""
        records = await self._store.read([RecordKey(workspace, CONTENT, id) for id in ids])
        return {key.alias: record for key, record in records.items()}

    def list_records(self, kind: str) -> Iterable[Record]:
        """The stored objects of a kind in all workspaces."""
        return self._now.stored.list_records(kind)

    def find_record(self, workspace: str, kind: str, alias: str) -> Record | None:
        """The current record of an object, also of one that a file hides; of a node without what it says."""
        return self._now.stored.by_kind.get(kind, {}).get(RecordKey(workspace, kind, alias))

    def list_adopted(self, workspace: str) -> frozenset[AdoptedName]:
        """The stored objects of a workspace that take over from a file's."""
        return self._now.stored.list_adopted(workspace)

    def find_file_entry(self, kind: str, alias: str) -> PolicyEntry | None:
        """What the policy files say under an alias, or about the node with an id."""
        return self._now.loaded_files.find_entry(kind, alias)

    def get_knowledge(self) -> KnowledgeSet:
        """What the files say about the knowledge graph; the same object until that changes."""
        return self._now.loaded_files.knowledge

    def links(self) -> dict[str, list[LinkUse]]:
        """The external links that policies name, by URL, each with the resources that use it."""
        return self._now.links()

    def list_tool_servers(self) -> dict[ToolServerAddress, list[ServerUse]]:
        """The MCP servers that policies name, each with the resources that do."""
        return self._now.list_tool_servers()

    def watch(self, notify: Callable[[], None]) -> None:
        """Call `notify` when other policies serve, before the caller that caused it continues."""
        self._watchers.append(notify)

    def watch_nodes(self, notify: Callable[[str, Collection[str]], None]) -> None:
        """Call `notify` with a workspace and ids when stored nodes are others by now, if only by what they say."""
        self._node_watchers.append(notify)

    def watch_records(self, notify: Callable[[], None]) -> None:
        """Call `notify` when other records are known, of whatever kind, before the caller that caused it continues."""
        self._record_watchers.append(notify)

    async def start(self) -> None:
        """The first load; raises Faults of the files, because a server must not start without its policies.

        If the store does not answer yet, `follow` tries again; until then no request is answered.
        """
        files = await asyncio.to_thread(self._reader.read)
        base = await asyncio.to_thread(assemble, files.policies, 1, self._clock())
        self._now = PolicyGeneration(1, files, base)
        with contextlib.suppress(StoreError):
            await self._read_feed()
        await self._builds.wait(within=START_PATIENCE)
        self._freezer.freeze(self._now.number)

    async def close(self) -> None:
        """End what is being built."""
        await self._builds.close()
        self._freezer.stop()
        self.threads.close()

    async def reload(self, *, wait: bool = True) -> bool:
        """Read the files again; True if they are in use now, otherwise `error` says why not.

        Without `wait`, workspaces with policies of their own may follow later.
        """
        async with self._files_lock:
            try:
                files = await asyncio.to_thread(self._reader.read)
                base = await asyncio.to_thread(assemble, files.policies, self._now.number + 1, self._clock())
            except Faults as faults:
                self._file_error = str(faults)
                return False
            self._file_error = None
            self._serve_files(files, base)
        if wait:
            await self._builds.wait()
            self._notify()
        return True

    async def refresh(self, *workspaces: str) -> None:
        """Read what has changed in the store and return once these workspaces, or all, are built from it.

        Raises StoreError if the store does not answer.
        """
        await self._read_feed()
        await self._builds.wait(workspaces or None)
        self._notify()

    async def update_links(self, urls: Collection[str], *workspaces: str) -> None:
        """Use the new texts of these links; returns once these workspaces use them, the others follow."""
        await self._update_users(self._now.list_link_users(urls), workspaces)

    async def update_tools(self, addresses: Collection[ToolServerAddress], *workspaces: str) -> None:
        """Use the new lists of these servers; returns once these workspaces use them, the others follow."""
        await self._update_users(self._now.list_server_users(addresses), workspaces)

    async def _update_users(self, users: Sequence[str], workspaces: Sequence[str]) -> None:
        if "" in users:
            await self.reload(wait=False)
        else:
            self._builds.request(users)
        await self._builds.wait(workspaces)
        self._notify()

    async def commit(self, writes: Sequence[RecordWrite], author: Author, *, refresh: bool = True) -> list[Record]:
        """Store all changes or none; they are in use on this replica on return, unless it is not to `refresh`.

        Raises QuotaExceeded, VersionConflict and StoreError.
        """
        prefix = make_id_prefix()
        identified = [
            write if write.id is not None else replace(write, id=f"{prefix}{position:04x}")
            for position, write in enumerate(writes)
        ]
        records = await self._store.commit(await self._check_writes(identified), author)
        if refresh:
            with contextlib.suppress(StoreError):  # the changes are stored; this replica reads them later
                await self.refresh(*{write.key.workspace for write in writes})
        return records

    def list_quotas(self, workspace: str) -> list[QuotaUse]:
        """Every quota of a workspace, with what is used of it."""
        return self._quotas.list_uses(workspace, self._now.stored, self._now.count_links(workspace))

    def get_quota_limits(self, workspace: str) -> QuotaLimits:
        """What a workspace may store."""
        return self._quotas.get_limits(workspace)

    def check_upload(self, workspace: str, size: int) -> None:
        """Raise QuotaExceeded if a document of so many bytes could not be stored."""
        self._quotas.check_document(workspace, size, self._now.stored)

    def trial(self, workspace: str, changes: Changes) -> Snapshot:
        """The snapshot that changes would give; raises Faults, QuotaExceeded for too many links. Takes milliseconds."""
        current = self._now
        changed = self._builder.build_workspace(current, workspace, changes)
        self._quotas.check_links(workspace, self._now.count_links(workspace), changed.link_count)
        return changed.assemble(current.number, self._clock()).snapshot

    async def _check_writes(self, writes: Sequence[RecordWrite]) -> Sequence[RecordWrite]:
        """The writes as they are stored; raises QuotaExceeded."""

        def work() -> Sequence[RecordWrite]:
            self._quotas.check_writes(writes, stored)
            return [outline_write(write) for write in writes]

        stored = self._now.stored
        if sum(len(write.body or b"") for write in writes) < LARGE_BYTES:
            return work()
        return await self.threads.run(writes[0].key.workspace, work)

    async def try_changes(self, workspace: str, changes: Changes) -> Snapshot:
        """As `trial`, in a thread; raises WorkspaceBusy if this workspace tries too much at once."""
        return await self.threads.run(workspace, self.trial, workspace, changes)

    async def follow(self, interval: float = POLL_SECONDS) -> None:
        """Keep up with the changes of others, and with what becomes valid or expires, until cancelled."""
        while True:
            await asyncio.sleep(interval)
            with contextlib.suppress(StoreError):
                await self._read_feed()
            await self._update_expired(self._clock())

    async def _update_expired(self, now: float) -> None:
        """Build anew what has become valid or expired."""
        if not self._now.has_expired_files(now):
            self._builds.request(self._now.list_expired(now))
            return
        async with self._files_lock:
            files = self._now.loaded_files
            self._serve_files(
                files, await asyncio.to_thread(assemble, files.policies, self._now.number + 1, self._clock())
            )

    async def _read_feed(self) -> None:
        async with self._feed_lock:
            try:
                await self._read_changes()
            except StoreError as error:
                self._record_contact(str(error))
                raise
            self._record_contact(None)

    def _record_contact(self, error: str | None) -> None:
        if error is None:
            self.contact = time.monotonic()
        elif self.store_error is None:
            log.warning("policy changes cannot be read from the store: %s", error)
        self.store_error = error

    async def _read_changes(self) -> None:
        if self._position is not None:
            changed = await self._store.read_changes(self._position)
            if changed is not None:
                if changed.records:
                    await self._apply(changed.records)
                self._position = changed.position
                return
        batch = await self._store.load()
        has_records = any(self._now.stored.by_kind.values())
        if self._position is not None and has_records:
            batch = await restore_lost_records(self._store, batch, self._now.stored)
        if batch.records or has_records:
            await self._apply(batch.records, complete=True)
        self._position = batch.position

    async def _apply(self, records: Sequence[Record], *, complete: bool = False) -> None:
        """Know these records from now on, in addition or, if `complete`, in place of all; then build what they touch.

        Only policies are built. A key, a draft or what a node says changes no snapshot, and no injection that is
        remembered is lost.
        """
        known = self._now.stored
        stored = await asyncio.to_thread((StoredPolicies() if complete else known).apply, records)
        self.unindexed += [record.key for record in records if lacks_outline(record)]
        touched = {name for name in {record.key.workspace for record in records} if stored.differs(known, name)}
        unbuilt = self._now.unbuilt
        if complete:
            touched |= known.list_users() | stored.list_users()
            unbuilt = stored.list_users() - self._now.workspaces.keys()
        self._now = replace(self._now, stored=stored, unbuilt=unbuilt)
        self._builds.request(touched)
        for notify in self._record_watchers:
            notify()
        for workspace, ids in group_ids(records).items():
            for tell in self._node_watchers:
                tell(workspace, ids)

    async def _build(self, workspace: str) -> None:
        """Build a workspace from what is known now and serve it; whatever goes wrong is recorded on that workspace."""
        current = self._now
        (built,) = await asyncio.gather(
            self.threads.run(workspace, self._builder.build, current, workspace), return_exceptions=True
        )
        if isinstance(built, WorkspaceBusy):  # it tries too many changes; its policies are built all the same
            await asyncio.sleep(BUSY_SECONDS)
            self._builds.request([workspace])
            return
        if isinstance(built, Exception):
            log.error("the policies of workspace %r could not be compiled", workspace, exc_info=built)
            built = WorkspaceBuild(None, f"the policies could not be compiled: {type(built).__name__}: {built}")
        if isinstance(built, BaseException):
            raise built
        self._entries.pop(workspace, None)
        self._now = self._now.replace_workspace(workspace, built)
        self._freezer.freeze_soon(self._now.number)
        # After a change of the files all workspaces are built: not each of them is announced by itself.
        if self._builds.is_idle or time.monotonic() - self._notified_at > NOTIFY_SECONDS:
            self._notify()

    def _serve_files(self, files: FilePolicies, base: Snapshot) -> None:
        """Serve other files; workspaces with policies of their own follow as soon as they are built."""
        self._now = replace(self._now, number=self._now.number + 1, files=files, base=base)
        self._entries.clear()
        self._builds.request(self._now.stored.list_users())
        self._freezer.freeze(self._now.number)
        self._notify()

    def _notify(self) -> None:
        """Tell the watchers, unless they know."""
        if self._known_generation == self._now.number:
            return
        self._known_generation, self._notified_at = self._now.number, time.monotonic()
        for notify in self._watchers:
            notify()
