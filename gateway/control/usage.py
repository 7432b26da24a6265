"""Who uses an object: the objects that refer to it, and the places that assign a context."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from heapq import nsmallest
from typing import Any

import msgspec

from gateway.domain.agent import Agent, Profile, Prompt
from gateway.domain.candidate import Level
from gateway.domain.node import Node
from gateway.domain.snapshot import Snapshot
from gateway.policies.files import PolicyEntry
from gateway.scopes.scope import list_content_assignments

# Which field of which kinds names objects of a kind.
REFERRING_FIELDS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "contexts": (("profiles", "contexts"), ("agents", "contexts"), ("prompts", "contexts"), ("content", "contexts")),
    "profiles": (("agents", "profile"),),
}


class ContextUse(msgspec.Struct, frozen=True):
    """One place where a context is used."""

    level: Level
    entity: str  # alias or path of the object that names it; empty for global
    name: str
    through: str = "assignment"  # or "default", "mandatory"
    path: str | None = None  # content: the path of the node
    inherited: int | None = None  # content: how many nodes below inherit it


def list_referrers(sections: Mapping[str, Mapping[str, PolicyEntry]], kind: str, alias: str) -> Iterator[str]:
    """Every object that names this one, as `kind/alias`."""
    for other, field in REFERRING_FIELDS.get(kind, ()):
        for entry in sections.get(other, {}).values():
            if alias in _get_list(entry.data, field):
                yield f"{other}/{entry.alias}"


def list_uses(context: str, snapshot: Snapshot) -> list[ContextUse]:
    """Every use of a context in one workspace, from broad to narrow."""
    return [
        *_list_global_uses(context, snapshot),
        *_list_alias_uses(context, snapshot),
        *_list_node_uses(context, snapshot),
    ]


def _get_list(data: Any, field: str) -> list[Any]:
    value = data.get(field) if isinstance(data, Mapping) else None
    return value if isinstance(value, list) else [value]


def _list_global_uses(context: str, snapshot: Snapshot) -> Iterator[ContextUse]:
    if context in snapshot.mandatory:
        yield ContextUse(Level.GLOBAL, "", "Every request", "mandatory")
    if context == snapshot.default:
        yield ContextUse(Level.GLOBAL, "", "Requests that nothing else applies to", "default")


def _list_alias_uses(context: str, snapshot: Snapshot) -> Iterator[ContextUse]:
    levels: tuple[tuple[Level, Mapping[str, Profile | Agent | Prompt]], ...] = (
        (Level.PROFILE, snapshot.profiles),
        (Level.AGENT, snapshot.agents),
        (Level.PROMPT, snapshot.prompts),
    )
    for level, known in levels:
        for one in sorted(known.values(), key=lambda one: one.alias):
            if context in one.contexts:
                yield ContextUse(level, one.alias, one.name)


def _list_node_uses(context: str, snapshot: Snapshot) -> Iterator[ContextUse]:
    tree = snapshot.tree
    assigned = sorted((node for node in tree.nodes.values() if context in node.contexts), key=lambda node: node.path)
    below: dict[str, Node] = {}  # by path; whatever does not lie below one of them inherits nothing
    for node in assigned:
        if node.path not in below:
            below |= {one.path: one for one in tree.list_branch(node)}
    heirs = Counter(
        found.entity
        for node in below.values()
        for found in list_content_assignments(node, snapshot)
        if found.context == context and found.entity != node.path
    )
    for node in assigned:
        yield ContextUse(Level.CONTENT, node.path, node.title, path=node.path, inherited=heirs[node.path])


class UseSummary(msgspec.Struct, frozen=True):
    """How many places use a context, and the first few of them."""

    context: str
    total: int
    first: list[ContextUse]


def summarize_uses(contexts: Sequence[str], snapshot: Snapshot, most: int) -> list[UseSummary]:
    """The uses of several contexts in one walk of the tree; who inherits them is not counted."""
    named: dict[str, list[Node]] = {context: [] for context in contexts}
    for node in snapshot.tree.nodes.values():
        for context in node.contexts:
            if context in named:
                named[context].append(node)
    return [_summarize(context, snapshot, nodes, most) for context, nodes in named.items()]


def _summarize(context: str, snapshot: Snapshot, nodes: Sequence[Node], most: int) -> UseSummary:
    uses = [*_list_global_uses(context, snapshot), *_list_alias_uses(context, snapshot)]
    first = nsmallest(max(0, most - len(uses)), nodes, key=lambda node: node.path)
    shown = [ContextUse(Level.CONTENT, node.path, node.title, path=node.path) for node in first]
    return UseSummary(context, len(uses) + len(nodes), [*uses[:most], *shown])
