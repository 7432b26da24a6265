"""The section `knowledge` of a bundle: entities, relationships and axioms, exported and imported with the policies."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import orjson
from msgspec.structs import replace

from gateway.control.authorship import make_author
from gateway.control.bundle_plan import PlannedChange
from gateway.control.knowledge import make_deletion, make_write
from gateway.domain.knowledge import (
    ENTITIES,
    KNOWLEDGE_KINDS,
    RELATIONSHIPS,
    KnowledgeItem,
    KnowledgeSet,
    Relationship,
)
from gateway.domain.principal import Principal
from gateway.domain.record import RecordWrite
from gateway.errors import Conflict, Faults, VersionConflict
from gateway.knowledge.repository import KnowledgeRepository
from gateway.knowledge.workspace import ItemKey, WorkspaceKnowledge
from gateway.policies.files import KNOWLEDGE, EntryLocation, PolicyEntry
from gateway.policies.knowledge_files import read_knowledge
from gateway.policies.knowledge_shapes import dump_item
from gateway.strict_yaml import YamlDocument


class BundleItems(msgspec.Struct, frozen=True):
    """The items of a bundle, and where they stand in it."""

    items: Mapping[ItemKey, KnowledgeItem]
    locations: Mapping[ItemKey, EntryLocation]


def read_items(document: YamlDocument, known: WorkspaceKnowledge, replace_all: bool) -> BundleItems:
    """The items of a bundle; raises Faults. With `replace_all`, stored entities that it does not have will be gone."""
    section = document.data.get(KNOWLEDGE) if isinstance(document.data, dict) else None
    if section is None:
        return BundleItems({}, {})
    entry = PolicyEntry(KNOWLEDGE, EntryLocation(document, (KNOWLEDGE,)), section)
    graph = known.graph.items
    staying = {id for kind, id in graph.places if kind == ENTITIES} if replace_all else graph.entities
    text = read_knowledge([entry], staying)
    if text.faults:
        raise Faults(text.faults)
    return BundleItems(dict(list_items(text.items)), text.locations)


def list_items(items: KnowledgeSet) -> Iterator[tuple[ItemKey, KnowledgeItem]]:
    """Every item by kind and id; entities first, so that nobody sees a relationship without them."""
    for kind in KNOWLEDGE_KINDS:
        for identity, item in getattr(items, kind).items():
            yield (kind, identity), item


def export_items(known: WorkspaceKnowledge, *, stored: bool) -> dict[str, dict[str, Any]]:
    """The items by kind and id as a policy file has them; only the stored ones, with the entities that they relate."""
    items = dict(list_items(known.graph.items))
    if stored:
        own = {key: one.item for key, one in known.stored.items() if key not in known.graph.items.places}
        ends = {end for one in own.values() if isinstance(one, Relationship) for end in (one.source, one.target)}
        items = {key: item for key, item in items.items() if key in own or (key[0] == ENTITIES and key[1] in ends)}
    section: dict[str, dict[str, Any]] = {}
    for (kind, identity), item in sorted(items.items(), key=lambda one: (KNOWLEDGE_KINDS.index(one[0][0]), one[0][1])):
        section.setdefault(kind, {})[identity] = dump_item(item)
    return section


class KnowledgePlan(msgspec.Struct, frozen=True):
    """What an import does with the items of a bundle."""

    steps: tuple[PlannedChange, ...] = ()
    writes: tuple[RecordWrite, ...] = ()
    conflicts: tuple[ItemKey, ...] = ()  # items that files define differently


def plan_items(workspace: str, bundle: BundleItems, known: WorkspaceKnowledge, replace_all: bool) -> KnowledgePlan:
    """Compare the items with what is there. Takes milliseconds of CPU: not on the event loop."""
    steps, writes, conflicts = [], [], []
    there = dict(list_items(known.graph.items))
    for key, item in bundle.items.items():
        kind, identity = key
        former = there.get(key)
        if former is not None and says_the_same(former, item):
            steps.append(PlannedChange(kind, identity, "unchanged"))
        elif key in known.graph.items.places:
            conflicts.append(key)
        else:
            change = PlannedChange(kind, identity, "create", data=dump_item(item))
            if former is not None:
                change = replace(change, action="update", former=dump_item(former))
            steps.append(change)
            writes.append(make_write(workspace, kind, item, known.stored.get(key)))
    if replace_all:
        # Relationships before the entities that they relate.
        for key in sorted(known.stored, key=lambda one: (one[0] != RELATIONSHIPS, one)):
            if key not in bundle.items and key not in known.graph.items.places:
                steps.append(PlannedChange(*key, "delete", dump_item(known.stored[key].item)))
                writes.append(make_deletion(workspace, *key, known.stored[key]))
    return KnowledgePlan(tuple(steps), tuple(writes), tuple(conflicts))


def says_the_same(one: KnowledgeItem, other: KnowledgeItem) -> bool:
    """Compared as they are stored: 1 and true are not the same, nor are properties in another order."""
    return orjson.dumps(dump_item(one)) == orjson.dumps(dump_item(other))


async def store_items(repository: KnowledgeRepository, caller: Principal, plan: KnowledgePlan) -> None:
    """Store what a plan changes, all of it or nothing."""
    if not plan.writes:
        return
    try:
        await repository.commit(plan.writes, make_author(caller, "import"))
    except VersionConflict as error:
        _, kind, identity = error.key
        message = f"{kind}/{identity} was changed by someone else in the meantime. Import the bundle again."
        raise Conflict(message) from error
