"""Semantic search over policies that are not served: former versions and drafts are found by what they say."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from gateway.domain.agent import SelectionSettings
from gateway.domain.resource import Resource
from gateway.domain.search import Query, SearchResult
from gateway.domain.snapshot import Snapshot
from gateway.errors import StoreError
from gateway.semantic.index.passages import Passage, describe_resource, split_resources
from gateway.semantic.model.embedder import SemanticError
from gateway.semantic.service import SemanticService

if TYPE_CHECKING:
    from gateway.semantic.index.passage_index import PassageIndex, Vector
    from gateway.semantic.search.engine import SemanticEngine

MAX_EMBEDDED = 400  # passages of other versions that are embedded for one search
EMBED_SECONDS = 20.0
CHUNK = 8

log = logging.getLogger(__name__)


class SnapshotSearcher(msgspec.Struct, frozen=True):
    """A SemanticSearcher for one snapshot; what differs from the served one gets an index for the search."""

    service: SemanticService
    snapshot: Snapshot

    async def find(
        self, workspace: str, query: Query, resources: Sequence[str], settings: SelectionSettings
    ) -> SearchResult:
        engine = self.service.engine
        wanted = [self.snapshot.resources[name] for name in resources]
        if engine is None or not any(self._differs(workspace, one) for one in wanted):
            return await self.service.find(workspace, query, resources, settings)
        try:
            index = await self._build_index(workspace, wanted)
        except (SemanticError, TimeoutError) as error:
            log.warning("other versions of resources cannot be searched: %s", error)
            return SearchResult(reason="unavailable", pending=frozenset(resources))
        return await self._search(engine, index, workspace, query, resources, settings)

    async def rank(self, workspace: str, text: str, resources: Sequence[str]) -> list[str] | None:
        return None

    async def find_passages(self, workspace: str, text: str, resource: str) -> list[str]:
        return []

    async def score_texts(self, workspace: str, query: Query, texts: Sequence[str]) -> list[float] | None:
        return await self.service.score_texts(workspace, query, texts)

    def _differs(self, workspace: str, resource: Resource) -> bool:
        served = self.service.find_newest(workspace, resource.id)
        return served is None or describe_resource(served) != describe_resource(resource)

    async def _search(
        self,
        engine: SemanticEngine,
        index: PassageIndex,
        workspace: str,
        query: Query,
        resources: Sequence[str],
        settings: SelectionSettings,
    ) -> SearchResult:
        forked = engine.fork(index)
        await forked.catch_up()
        return await forked.find(workspace, query, resources, settings)

    async def _build_index(self, workspace: str, resources: Sequence[Resource]) -> PassageIndex:
        from gateway.semantic.index.passage_index import PassageIndex

        embedder, run = self.service.embedder, self.service.threads.run
        assert embedder is not None
        passages = await run(workspace, split_resources, resources)
        vectors = await self._find_vectors(workspace, {one.key(embedder.id): one for one in passages})
        return await run(workspace, PassageIndex.build, 0, embedder, passages, vectors)

    async def _find_vectors(self, workspace: str, passages: Mapping[bytes, Passage]) -> dict[bytes, Vector]:
        """The vectors of passages: from the index that serves, from the store, or made now and not stored."""
        import numpy as np

        service = self.service
        index = service.indexer.current if service.indexer is not None else None
        found = dict(await service.threads.run(workspace, index.find_vectors, list(passages))) if index else {}
        missing = [key for key in passages if key not in found]
        try:
            stored = await service.read_vectors(missing)
        except StoreError:
            stored = {}
        found |= {key: np.frombuffer(value, "<f2") for key, value in stored.items()}
        missing = [key for key in missing if key not in found][:MAX_EMBEDDED]
        assert service.embedder is not None
        async with asyncio.timeout(EMBED_SECONDS):
            for start in range(0, len(missing), CHUNK):
                keys = missing[start : start + CHUNK]
                rows = await service.embedder.embed([passages[key].text for key in keys])
                found |= dict(zip(keys, rows.astype("<f2"), strict=True))
        return found
