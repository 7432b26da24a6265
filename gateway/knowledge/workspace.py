"""What one workspace has stored of the graph, and the graph that it makes with the files."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec
import orjson
from pydantic import ValidationError

from gateway.domain.knowledge import (
    AXIOMS,
    ENTITIES,
    KNOWLEDGE_KINDS,
    NO_KNOWLEDGE,
    RELATIONSHIPS,
    KnowledgeItem,
    KnowledgeSet,
)
from gateway.domain.record import Record
from gateway.knowledge.graph import EMPTY_GRAPH, KnowledgeGraph, build_graph, revise_graph
from gateway.policies.knowledge_shapes import KNOWLEDGE_SHAPES, make_item

REVISED_AT_MOST = 2_000  # changed items; from there on a graph is built anew

ItemKey = tuple[str, str]  # kind and id


class StoredItem(NamedTuple):
    """An item with what the store knows about it."""

    item: KnowledgeItem
    version: int
    at: float
    by: str
    size: int  # bytes of its body


class WorkspaceKnowledge(msgspec.Struct, frozen=True):
    """One workspace; it is replaced, never changed."""

    stored: Mapping[ItemKey, StoredItem] = msgspec.field(default_factory=dict)
    graph: KnowledgeGraph = EMPTY_GRAPH
    counts: Mapping[str, int] = msgspec.field(
        default_factory=lambda: dict.fromkeys(KNOWLEDGE_KINDS, 0)
    )  # of stored items
    bytes: int = 0  # of all that is stored
    files: KnowledgeSet = NO_KNOWLEDGE  # that the graph was made with

    def apply(self, records: Iterable[Record], files: KnowledgeSet) -> "WorkspaceKnowledge":
        """With these records, deletions included, and these files.

        Takes milliseconds to seconds of CPU: not on the event loop.
        """
        stored, changed = dict(self.stored), set[ItemKey]()
        for record in records:
            key = (record.key.kind, record.key.alias)
            item = read_item(record)
            if item is not None:
                changed.add(key)
                stored[key] = StoredItem(item, record.version, record.at, record.by, len(record.body or b""))
            elif stored.pop(key, None) is not None:
                changed.add(key)
        counts = Counter(kind for kind, _ in stored)  # here, since every write asks for it on the event loop
        size = sum(one.size for one in stored.values())
        graph = self._revise(stored, files, changed)
        return WorkspaceKnowledge(stored, graph, {kind: counts[kind] for kind in KNOWLEDGE_KINDS}, size, files)

    def _revise(
        self, stored: Mapping[ItemKey, StoredItem], files: KnowledgeSet, changed: set[ItemKey]
    ) -> KnowledgeGraph:
        items = collect_items(stored)
        if self.graph is EMPTY_GRAPH or files is not self.files or len(changed) > REVISED_AT_MOST:
            return build_graph(files, items)
        kinds = {kind: frozenset(one for where, one in changed if where == kind) for kind in KNOWLEDGE_KINDS}
        return revise_graph(self.graph, files, items, kinds)


def collect_items(stored: Mapping[ItemKey, StoredItem]) -> KnowledgeSet:
    kinds: dict[str, dict[str, Any]] = {kind: {} for kind in KNOWLEDGE_KINDS}
    for (kind, identity), one in stored.items():
        kinds[kind][identity] = one.item
    return KnowledgeSet(kinds[ENTITIES], kinds[RELATIONSHIPS], kinds[AXIOMS])


def read_item(record: Record) -> KnowledgeItem | None:
    """The item that a record holds; None if it was deleted, or cannot be read by this release."""
    shape = KNOWLEDGE_SHAPES.get(record.key.kind)
    if record.body is None or shape is None:
        return None
    try:
        return make_item(record.key.alias, shape.model_validate(orjson.loads(record.body)))
    except (ValidationError, orjson.JSONDecodeError):
        return None
