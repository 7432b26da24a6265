"""The vectors of entities: which there are, and how near entities are to a question."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from gateway.domain.knowledge import Entity
from gateway.fair_queue import FairThreads
from gateway.queue_bounds import BACKGROUND
from gateway.semantic.document_indexer import DocumentIndexer, DocumentSource
from gateway.semantic.index.document_numbers import DocumentNumbers

if TYPE_CHECKING:
    from gateway.knowledge.entity_index import EntityIndex
    from gateway.knowledge.entity_meaning import EntityMeaning
    from gateway.semantic.index.document_vectors import Numbers

MOST_WORKSPACES = 64  # whose vectors are kept


class MeaningRule(NamedTuple):
    """How meanings count."""

    sentences: tuple[str, ...]  # of the question
    similar: float  # the cosine from which an entity is relevant
    max_embedded: int  # entities that get vectors
    seconds: float  # that a request waits for the vectors of its question


class MeantEntities(NamedTuple):
    """What meanings say, or why they say nothing although they should."""

    meaning: EntityMeaning | None = None
    failure: str | None = None


class WorkspaceVectors(msgspec.Struct, eq=False):
    """The entities of one workspace that have vectors, or get some."""

    source: DocumentSource
    numbers: DocumentNumbers
    entities: dict[str, Entity] = msgspec.field(default_factory=dict)
    index: EntityIndex | None = None  # of these entities
    rows: Numbers | None = None  # by row of the index
    following: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)


class EntityVectors:
    """Has entities embedded once somebody asks for their meaning, and again when they change."""

    def __init__(self, documents: DocumentIndexer, threads: FairThreads) -> None:
        self._documents, self._threads = documents, threads
        self._known: OrderedDict[str, WorkspaceVectors] = OrderedDict()  # the least recently used first

    async def compare(self, workspace: str, index: EntityIndex, rule: MeaningRule) -> MeantEntities:
        """What is needed to compare a question with these entities; raises WorkspaceBusy."""
        known = self._open(workspace)
        async with known.following:
            if known.index is not index:
                await self._follow(known, index, rule.max_embedded)
            rows = known.rows
        if known.source.vectors is None:
            return MeantEntities(failure=self._documents.failure)
        question = await self._documents.embed_question(workspace, rule.sentences, rule.seconds)
        if question.vectors is None or known.source.vectors is None:
            return MeantEntities(failure=question.reason)
        from gateway.knowledge.entity_meaning import EntityMeaning

        assert rows is not None
        return MeantEntities(EntityMeaning(question.vectors, known.source.vectors, rows, rule.similar))

    def _open(self, workspace: str) -> WorkspaceVectors:
        known = self._known.get(workspace)
        if known is None:
            numbers, entities = DocumentNumbers(), dict[str, Entity]()

            async def read(ids: Sequence[str]) -> Mapping[str, Sequence[str]]:
                return await self._threads.run(BACKGROUND, _list_passages, entities, ids)

            known = WorkspaceVectors(self._documents.open(read, numbers), numbers, entities)
            self._known[workspace] = known
            if len(self._known) > MOST_WORKSPACES:
                self._documents.close(self._known.popitem(last=False)[1].source)
        self._known.move_to_end(workspace)
        return known

    async def _follow(self, known: WorkspaceVectors, index: EntityIndex, limit: int) -> None:
        """Have what is new or changed embedded, and forget what is gone."""
        changed, gone = await self._threads.run(BACKGROUND, _find_changes, known.entities, index.entities)
        rows = await self._threads.run(BACKGROUND, _number, known.numbers, index.entities)
        for id in gone:
            del known.entities[id]
        known.entities.update(changed)
        known.source.remove(gone)
        known.source.require(list(changed), limit)
        known.index, known.rows = index, rows


def _find_changes(former: Mapping[str, Entity], entities: Sequence[Entity]) -> tuple[dict[str, Entity], list[str]]:
    """The entities that are new or others, and the ids of those that are gone."""
    changed = {one.id: one for one in entities if former.get(one.id) is not one and former.get(one.id) != one}
    present = {one.id for one in entities}
    return changed, [id for id in former if id not in present]


def _number(numbers: DocumentNumbers, entities: Sequence[Entity]) -> Numbers:
    import numpy as np

    return np.array(numbers.number(one.id for one in entities), np.int32)


def _list_passages(entities: Mapping[str, Entity], ids: Sequence[str]) -> dict[str, list[str]]:
    from gateway.knowledge.entity_meaning import list_passages

    return {id: list_passages(one) for id in ids if (one := entities.get(id)) is not None}
