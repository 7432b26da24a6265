"""Finds nodes by their words and their meaning. The index of a workspace is made when somebody first searches it.

Nobody waits for vectors: they are made in the background, and nodes without one are found by their words.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from gateway.domain.content import ContentReader
from gateway.domain.node import Node
from gateway.domain.search import NodeMatches, NodeQuery
from gateway.domain.snapshot import Snapshot
from gateway.errors import StoreError, WorkspaceBusy
from gateway.fair_queue import FairThreads
from gateway.queue_bounds import BACKGROUND
from gateway.semantic.document_indexer import DocumentIndexer, DocumentSource

if TYPE_CHECKING:
    from gateway.semantic.index.document_vectors import DocumentVectors
    from gateway.semantic.index.node_index import MeantQuestion, NodeIndex
    from gateway.semantic.index.vector_index import Floats

BATCH = 1_000  # nodes that are read and indexed at a time
MOST_WORKSPACES = 64  # whose indexes are kept
PATIENCE = 0.1  # seconds that a request waits for an index that is being made
RETRY_SECONDS = 5.0  # after a failure of the store

log = logging.getLogger(__name__)


class WorkspaceIndex(msgspec.Struct, eq=False):
    """The index of one workspace, and how far it is."""

    changed: set[str]  # ids of nodes whose text is another one by now
    nodes: NodeIndex | None = None  # None: nothing is indexed yet
    complete: bool = False  # it knows all nodes of its tree
    making: asyncio.Task[None] | None = None
    source: DocumentSource | None = None  # of vectors; None: nobody has asked for them
    max_embedded: int = 0  # nodes that get vectors


class NodeSearch:
    """Searches the nodes of workspaces; what is being indexed is searched as far as it is."""

    def __init__(
        self,
        content: ContentReader,
        threads: FairThreads,
        vectors: DocumentIndexer | None = None,
        *,
        patience: float = PATIENCE,
    ) -> None:
        self._content, self._threads, self._patience = content, threads, patience
        self._vectors = vectors  # None: words are all that counts
        self._indexes: OrderedDict[str, WorkspaceIndex] = OrderedDict()  # the least recently used first

    async def find(
        self, workspace: str, snapshot: Snapshot, readers: frozenset[str], query: NodeQuery, limit: int
    ) -> NodeMatches:
        """The nodes that the caller may read and that match, best first."""
        index = self._open(workspace)
        nodes, tree = index.nodes, snapshot.tree
        index.max_embedded = max(index.max_embedded, query.max_embedded)
        if nodes is None or nodes.tree is not tree or nodes.contents is not snapshot.contents or index.changed:
            self._make(workspace, index, snapshot)
        if not index.complete and index.making is not None:
            await asyncio.wait([index.making], timeout=self._patience)
        if index.nodes is None:
            return NodeMatches(complete=False)
        self._require_vectors(workspace, index, index.nodes)
        meant, failure = await self._embed(workspace, index, query)
        quick = meant is None and index.nodes.is_quick(readers, query)
        run = self._threads.run_here if quick else self._threads.run
        found = await run(workspace, index.nodes.search, readers, query, limit, meant)
        if index.source is not None:
            index.source.prefer(found.unknown)
        # The tree may be newer than the index.
        here = ((one, tree.get(one.id)) for one in found.matches)
        permitted = (one for one, node in here if node is not None and tree.may_read(readers, node))
        return NodeMatches(tuple(permitted), found.total, index.complete, failure)

    def note_change(self, workspace: str, ids: Collection[str]) -> None:
        """These nodes say something else by now: the next search has them indexed again."""
        if (index := self._indexes.get(workspace)) is not None:
            index.changed.update(ids)

    async def wait_until_indexed(self, workspace: str) -> None:
        """Return once what was asked for so far can be found."""
        index = self._indexes.get(workspace)
        while index is not None and index.making is not None:
            await asyncio.wait([index.making])

    async def close(self) -> None:
        for index in self._indexes.values():
            if index.making is not None:
                index.making.cancel()

    def _open(self, workspace: str) -> WorkspaceIndex:
        index = self._indexes.get(workspace)
        if index is None:
            index = self._indexes[workspace] = WorkspaceIndex(set())
            if len(self._indexes) > MOST_WORKSPACES:
                _, oldest = self._indexes.popitem(last=False)
                if oldest.making is not None:
                    oldest.making.cancel()
                if self._vectors is not None and oldest.source is not None:
                    self._vectors.close(oldest.source)
        self._indexes.move_to_end(workspace)
        return index

    def _make(self, workspace: str, index: WorkspaceIndex, snapshot: Snapshot) -> None:
        """Bring an index up to date, unless that is being done: then the next search sees to the rest."""
        if index.making is None:
            index.making = asyncio.create_task(self._update(workspace, index, snapshot))

    async def _update(self, workspace: str, index: WorkspaceIndex, snapshot: Snapshot) -> None:
        try:
            await self._catch_up(workspace, index, snapshot)
        except (StoreError, WorkspaceBusy) as error:
            log.warning("the nodes of a workspace could not be indexed: %s", error)
            await asyncio.sleep(RETRY_SECONDS)
        finally:
            index.making = None

    async def _catch_up(self, workspace: str, index: WorkspaceIndex, snapshot: Snapshot) -> None:
        """Index what is new or has changed, batch by batch; each can be found as soon as it is indexed."""
        changed, index.changed = index.changed, set()
        nodes = index.nodes
        if nodes is None:
            nodes = await self._threads.run(BACKGROUND, _open_index)
        try:
            new, gone = await self._threads.run(BACKGROUND, nodes.follow, snapshot, changed)
            index.nodes, pending = nodes, iter(new)
            batch: list[Node] = []
            while batch := [*batch, *islice(pending, BATCH - len(batch))]:
                ids = [node.id for node in batch]
                count = self._content.count_readable(workspace, ids)
                contents = await self._content.read(workspace, ids[:count])
                await self._threads.run(BACKGROUND, nodes.add, batch[:count], contents)
                batch = batch[count:]
        except BaseException:
            index.changed |= changed
            nodes.forget()
            raise
        nodes.tree, index.complete = snapshot.tree, True
        if index.source is not None:
            index.source.remove(gone)
            index.source.require([node.id for node in new], index.max_embedded)

    def _require_vectors(self, workspace: str, index: WorkspaceIndex, nodes: NodeIndex) -> None:
        """Have the nodes embedded once somebody asks for their meaning; those that change follow by themselves."""
        if self._vectors is None or index.source is not None or not (index.max_embedded and index.complete):
            return
        index.source = self._vectors.open(partial(self._read_passages, workspace, nodes), nodes.numbers)
        index.source.require(nodes.list_latest(index.max_embedded), index.max_embedded)

    async def _read_passages(self, workspace: str, nodes: NodeIndex, ids: Sequence[str]) -> Mapping[str, Sequence[str]]:
        """What of nodes gets vectors; raises StoreError."""
        passages: dict[str, Sequence[str]] = {}
        while ids:
            count = self._content.count_readable(workspace, ids)
            contents = await self._content.read(workspace, ids[:count])
            passages |= await self._threads.run(BACKGROUND, nodes.list_passages, contents)
            ids = ids[count:]
        return passages

    async def _embed(
        self, workspace: str, index: WorkspaceIndex, query: NodeQuery
    ) -> tuple[MeantQuestion | None, str | None]:
        """The question as vectors, if there is anything to compare it with; else why not, if something failed."""
        if self._vectors is None or index.source is None or not query.meant:
            return None, None
        if index.source.vectors is None:
            return None, self._vectors.failure
        vectors, failure = await self._vectors.embed_question(workspace, query.meant, query.seconds)
        return (_make_question(vectors, index.source.vectors) if vectors is not None else None), failure


def _make_question(queries: Floats, vectors: DocumentVectors) -> MeantQuestion:
    from gateway.semantic.index.node_index import MeantQuestion

    return MeantQuestion(queries, vectors)


def _open_index() -> NodeIndex:
    """Imported in a thread, and only where nodes are searched: numpy takes a while."""
    from gateway.semantic.index.node_index import NodeIndex

    return NodeIndex()
