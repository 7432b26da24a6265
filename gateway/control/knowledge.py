"""Entities, relationships and axioms: find, create, replace and delete them, whether stored or defined in files."""

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec
import orjson

from gateway.control.authorship import Tags, make_author
from gateway.control.diff import encode_for_audit, list_differences
from gateway.domain.knowledge import (
    AXIOMS,
    ENTITIES,
    RELATIONSHIPS,
    Axiom,
    Entity,
    KnowledgeItem,
    Relationship,
)
from gateway.domain.principal import Principal
from gateway.domain.record import RecordKey, RecordWrite
from gateway.errors import Conflict, FieldError, InvalidObject, NotFound, PreconditionFailed, VersionConflict, quote
from gateway.fair_queue import FairThreads
from gateway.knowledge.graph import KnowledgeGraph
from gateway.knowledge.repository import KnowledgeRepository
from gateway.knowledge.workspace import StoredItem
from gateway.policies.knowledge_shapes import (
    KnowledgeShape,
    RelationshipShape,
    dump_item,
    make_item,
    make_relationship_id,
)

ITEM_NAMES = {ENTITIES: "entity", RELATIONSHIPS: "relationship", AXIOMS: "axiom"}
BATCH = 500  # relationships that are deleted at a time with their entity


class KnowledgeInfo(msgspec.Struct, frozen=True):
    """One item as a reader sees it."""

    kind: str
    item: KnowledgeItem
    stored: StoredItem | None  # None: it is defined in a file
    file: str | None = None  # "graph.yaml:12"

    @property
    def tag(self) -> str:
        """Changes with everything that a reader sees."""
        version = self.stored.version if self.stored is not None else 0
        return f"{version}-{sha256(orjson.dumps(dump_item(self.item))).hexdigest()[:8]}"

    def require_writable(self, tags: Tags) -> StoredItem:
        """What is stored; raises PreconditionFailed unless it has one of the tags, Conflict if it is in a file."""
        name = f"{ITEM_NAMES[self.kind]} {quote(self.item.id)}"
        if tags is not None and not tags & {"*", self.tag}:
            raise PreconditionFailed(f"The {name} has changed. Read it again and retry.")
        if self.stored is None:
            raise Conflict(f"The {name} is defined in the file {self.file}; change it there.")
        return self.stored


class KnowledgeFilter(NamedTuple):
    """Which items are wanted."""

    word: str = ""  # in the id, a name or the text
    type: str | None = None
    entity: str | None = None  # of relationships: one of the two

    def accepts(self, item: KnowledgeItem) -> bool:
        types: tuple[str, ...]
        texts: tuple[str, ...]
        match item:
            case Entity():
                types, texts = (item.type,), (item.id, item.name, *item.aliases)
            case Relationship():
                types, texts = (item.type,), (item.id, item.source, item.target)
                if self.entity is not None and self.entity not in (item.source, item.target):
                    return False
            case Axiom():
                types, texts = item.types, (item.id, item.text)
        if self.type is not None and self.type.casefold() not in (one.casefold() for one in types):
            return False
        word = self.word.casefold()
        return not word or any(word in text.casefold() for text in texts)


class KnowledgePage(NamedTuple):
    """Some of the items that are wanted."""

    items: list[KnowledgeInfo]
    total: int


class KnowledgeManager:
    """The graphs of all workspaces; a caller sees its own."""

    def __init__(self, repository: KnowledgeRepository, threads: FairThreads) -> None:
        self._repository = repository
        self._threads = threads

    async def list_page(
        self, workspace: str, kind: str, wanted: KnowledgeFilter, skip: int, take: int
    ) -> KnowledgePage:
        """The items of a kind, by name. There may be many: they are looked through off the event loop."""
        graph = self._repository.get(workspace).graph

        def find() -> tuple[list[str], int]:
            items: Any = getattr(graph.items, kind)
            found = [one for one in graph.ordered_ids[kind] if wanted.accepts(items[one])]
            return found[skip : skip + take], len(found)

        ids, total = await self._threads.run(workspace, find)
        return KnowledgePage([self.get(workspace, kind, one, graph) for one in ids], total)

    def get(self, workspace: str, kind: str, identity: str, graph: KnowledgeGraph | None = None) -> KnowledgeInfo:
        """One item; raises NotFound."""
        known = self._repository.get(workspace)
        items: Any = getattr((graph or known.graph).items, kind)
        item = items.get(identity)
        if item is None:
            raise NotFound(f"There is no {ITEM_NAMES[kind]} {quote(identity)}.")
        file = known.graph.items.places.get((kind, identity))
        return KnowledgeInfo(kind, item, None if file is not None else known.stored.get((kind, identity)), file)

    async def create(self, caller: Principal, kind: str, identity: str | None, shape: KnowledgeShape) -> KnowledgeInfo:
        """Create an item; raises Conflict if its id is taken."""
        if isinstance(shape, RelationshipShape):
            identity = identity or make_relationship_id(shape.source, shape.type, shape.target)
        assert identity is not None
        await self._repository.refresh(caller.workspace)
        taken = getattr(self._repository.get(caller.workspace).graph.items, kind)
        message = f"The {ITEM_NAMES[kind]} {quote(identity)} already exists."
        if identity in taken:
            raise Conflict(message)
        item = self._check(caller.workspace, identity, shape)
        try:
            await self._commit(caller, "create", [make_write(caller.workspace, kind, item, None)])
        except VersionConflict as error:
            raise Conflict(message) from error
        return self.get(caller.workspace, kind, identity)

    async def replace(
        self, caller: Principal, kind: str, identity: str, shape: KnowledgeShape, tags: Tags = None
    ) -> KnowledgeInfo:
        """Replace an item."""
        await self._repository.refresh(caller.workspace)
        current = self.get(caller.workspace, kind, identity)
        former = current.require_writable(tags)
        item = self._check(caller.workspace, identity, shape)
        if item != former.item:
            await self._commit(caller, "update", [make_write(caller.workspace, kind, item, former)])
        return self.get(caller.workspace, kind, identity)

    async def delete(self, caller: Principal, kind: str, identity: str, tags: Tags = None) -> None:
        """Delete an item; with an entity go its stored relationships."""
        await self._repository.refresh(caller.workspace)
        workspace = caller.workspace
        former = self.get(workspace, kind, identity).require_writable(tags)
        if kind == ENTITIES:
            await self._delete_relationships(caller, identity)
        await self._commit(caller, "delete", [make_deletion(workspace, kind, identity, former)])

    async def _delete_relationships(self, caller: Principal, entity: str) -> None:
        """In parts: an entity may have many, and what is deleted already does no harm if the rest fails."""
        known = self._repository.get(caller.workspace)
        ties = await self._threads.run(caller.workspace, list_ties, known.graph.items.relationships.values(), entity)
        stored = [(one, known.stored.get((RELATIONSHIPS, one))) for one in ties]
        gone = [make_deletion(caller.workspace, RELATIONSHIPS, one, former) for one, former in stored if former]
        for start in range(0, len(gone), BATCH):
            await self._commit(caller, "delete", gone[start : start + BATCH])

    def _check(self, workspace: str, identity: str, shape: KnowledgeShape) -> KnowledgeItem:
        """The item; raises InvalidObject for a relationship whose entities do not exist."""
        if isinstance(shape, RelationshipShape):
            known = self._repository.get(workspace).graph.items.entities
            ends = (("/from", shape.source), ("/to", shape.target))
            wrong = [FieldError(at, f"there is no entity {quote(end)}") for at, end in ends if end not in known]
            if wrong:
                raise InvalidObject("Validation failed; nothing was changed.", wrong)
        return make_item(identity, shape)

    async def _commit(self, caller: Principal, action: str, writes: Sequence[RecordWrite]) -> None:
        try:
            await self._repository.commit(writes, make_author(caller, action))
        except VersionConflict as error:
            if action == "create":
                raise
            _, kind, identity = error.key
            name = f"{ITEM_NAMES[kind]} {quote(identity)}"
            raise PreconditionFailed(f"The {name} was changed at the same moment. Read it again and retry.") from error


def make_write(workspace: str, kind: str, item: KnowledgeItem, former: StoredItem | None) -> RecordWrite:
    """The write that stores an item in place of its former version."""
    body = dump_item(item)
    before = dump_item(former.item) if former is not None else {}
    return RecordWrite(
        RecordKey(workspace, kind, item.id),
        orjson.dumps(body),
        former.version if former is not None else 0,
        changes=encode_for_audit(list_differences(before, body)),
    )


def make_deletion(workspace: str, kind: str, identity: str, former: StoredItem) -> RecordWrite:
    changes = encode_for_audit(list_differences(dump_item(former.item), {}))
    return RecordWrite(RecordKey(workspace, kind, identity), None, former.version, changes=changes)


def list_ties(relationships: Iterable[Relationship], entity: str) -> list[str]:
    """The ids of the relationships of an entity."""
    return [one.id for one in relationships if entity in (one.source, one.target)]
