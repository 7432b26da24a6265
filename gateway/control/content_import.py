"""Imports content: checks a whole source first, then stores what differs, batch by batch."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import orjson

from gateway.control.authorship import make_author
from gateway.control.sources.source_node import ContentSource, SourceNode
from gateway.control.tree_view import KIND
from gateway.control.writer import Change, PolicyWriter
from gateway.domain.principal import Principal
from gateway.domain.record import Record
from gateway.errors import Conflict, Fault, Faults, QuotaExceeded, VersionConflict
from gateway.policies.node_records import make_outline
from gateway.policies.repository import PolicyRepository

BATCH = 200  # nodes that are read, compared and stored at a time
MOST_FAULTS = 1000  # that are kept; a person fixes them in several rounds anyway

Progress = Callable[[str, int, int], None]  # what is being done, how much of it is done, of how much


class ScannedSource(msgspec.Struct):
    """What is kept of a source: enough to check the tree, and no text."""

    outlines: dict[str, bytes] = msgspec.field(default_factory=dict)  # by id
    places: dict[str, tuple[str, int]] = msgspec.field(default_factory=dict)  # file and line by id
    bytes: int = 0  # of all bodies
    faults: list[Fault] = msgspec.field(default_factory=list)

    def add(self, node: SourceNode) -> None:
        if node.id in self.places:
            file, line = self.places[node.id]
            self.faults.append(node.fault(f"{node.id!r} is already the id of the node in {file}:{line}"))
            return
        self.outlines[node.id], self.places[node.id] = make_outline(node.body), (node.file, node.line)
        self.bytes += len(orjson.dumps(node.body))

    def relocate(self, fault: Fault) -> Fault:
        """A fault of the tree as one of the source."""
        kind, _, id = fault.file.partition("/")
        if kind != KIND or id not in self.places:
            return fault
        file, line = self.places[id]
        return Fault(file, line, fault.path, fault.message, fault.keys, fault.code)


class ContentImportResult(msgspec.Struct):
    """How many nodes were, or would be, changed."""

    created: int = 0
    updated: int = 0
    unchanged: int = 0
    deleted: int = 0


class ContentImporter:
    """Imports into the workspaces of one store; importing the same again changes nothing."""

    def __init__(self, policies: PolicyRepository, writer: PolicyWriter) -> None:
        self._policies = policies
        self._writer = writer

    async def run(
        self,
        caller: Principal,
        source: ContentSource,
        progress: Progress,
        *,
        dry_run: bool = False,
        prune: str | None = None,
    ) -> ContentImportResult:
        """Import a source; `prune` is the id of a node below which stored nodes that the source lacks are deleted.

        Raises Faults with every fault of the source, QuotaExceeded, and Conflict if somebody else changes the same.
        """
        workspace = caller.workspace
        scanned = await asyncio.to_thread(scan_source, source, progress)
        if scanned.faults:
            raise Faults(scanned.faults)
        async with self._writer.lock(workspace, renew=True):
            await self._check(workspace, scanned)
            gone = self._list_gone(workspace, scanned, prune) if prune is not None else []
            result = await self._store(caller, source, len(scanned.outlines), progress, dry_run=dry_run)
            for start in range(0, len(gone), BATCH):
                changes = [Change(KIND, one.key.alias, None, one) for one in gone[start : start + BATCH]]
                if not dry_run:
                    await self._commit(caller, changes)
            result.deleted = len(gone)
        await self._policies.refresh(workspace)
        return result

    async def _check(self, workspace: str, scanned: ScannedSource) -> None:
        """Raise Faults unless all nodes together have their places in the tree, and QuotaExceeded."""
        tree = self._policies.get_snapshot(workspace).tree
        entries = self._policies.entries(workspace).nodes
        in_files = [id for id in scanned.places if id in tree.ids and entries[id].record is None]
        wrong = [Fault(*scanned.places[id], id, f"is defined in {entries[id].location}") for id in in_files]
        changes: dict[tuple[str, str], Any] = {(KIND, id): orjson.loads(one) for id, one in scanned.outlines.items()}
        try:
            await self._policies.try_changes(workspace, changes)
        except Faults as faults:
            wrong += [scanned.relocate(fault) for fault in faults.faults]
        if wrong:
            raise Faults(wrong[:MOST_FAULTS])
        new = sum(id not in tree.ids for id in scanned.outlines)
        used = {use.name: use for use in self._policies.list_quotas(workspace)}
        for name, more in (("content", new), ("record_bytes", scanned.bytes if new else 0)):
            if used[name].used + more > used[name].limit:
                raise QuotaExceeded(name, used[name].limit, used[name].used, used[name].used + more)

    async def _store(
        self, caller: Principal, source: ContentSource, total: int, progress: Progress, *, dry_run: bool
    ) -> ContentImportResult:
        result, done = ContentImportResult(), 0
        batches = split_batches(source)
        while batch := await asyncio.to_thread(next, batches, None):
            known = await self._policies.read_nodes(caller.workspace, [node.id for node in batch])
            changes = [change for node in batch if (change := compare(node, known.get(node.id), result)) is not None]
            if changes and not dry_run:
                await self._commit(caller, changes)
            done += len(batch)
            progress("Importing", done, total)
        return result

    async def _commit(self, caller: Principal, changes: Sequence[Change]) -> None:
        writes = [change.to_write(caller.workspace) for change in changes]
        try:
            await self._policies.commit(writes, make_author(caller, "import"), refresh=False)
        except VersionConflict as conflict:
            message = f"The node {conflict.key[2]!r} was changed by someone else in the meantime. Import again."
            raise Conflict(message) from conflict

    def _list_gone(self, workspace: str, scanned: ScannedSource, root: str) -> list[Record]:
        """The records of stored nodes below a node that the source lacks, children first; "": of the whole tree."""
        tree, entries = self._policies.get_snapshot(workspace).tree, self._policies.entries(workspace).nodes
        top = tree.find(root)
        tops = tree.list_roots() if top is None else tree.list_children(top)
        branch = [node for one in tops for node in tree.list_branch(one)]
        lacking = [node.id for node in reversed(branch) if node.id not in scanned.outlines]
        return [record for id in lacking if (record := entries[id].record) is not None]


def scan_source(source: ContentSource, progress: Progress) -> ScannedSource:
    """Look at everything once."""
    scanned = ScannedSource()
    for number, one in enumerate(source.read(), 1):
        if isinstance(one, SourceNode):
            scanned.add(one)
        else:
            scanned.faults.append(one)
        if len(scanned.faults) >= MOST_FAULTS:
            break
        if number % BATCH == 0:
            progress("Checking", number, 0)
    return scanned


def split_batches(source: ContentSource) -> Iterator[list[SourceNode]]:
    batch: list[SourceNode] = []
    for one in source.read():
        if isinstance(one, SourceNode):
            batch.append(one)
        if len(batch) == BATCH:
            yield batch
            batch = []
    yield batch


def compare(node: SourceNode, known: Record | None, result: ContentImportResult) -> Change | None:
    """What has to be stored; None if that is what is stored."""
    if known is not None and orjson.loads(known.body or b"{}") == node.body:
        result.unchanged += 1
        return None
    if known is None:
        result.created += 1
    else:
        result.updated += 1
    return Change(KIND, node.id, node.body, known)
