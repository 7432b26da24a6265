"""The immutable form of all policies that a request works with."""

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from gateway.domain.agent import Agent, Profile, Prompt
from gateway.domain.content import Backlink, NodeContent
from gateway.domain.context import Context
from gateway.domain.memory_budget import CachePartition
from gateway.domain.node_tree import EMPTY_TREE, NodeTree
from gateway.domain.principal import may_read
from gateway.domain.recipe import Recipe
from gateway.domain.resource import Mode, Resource
from gateway.domain.tool import CallableTool


class ContextTraits(msgspec.Struct, frozen=True):
    """What the filters of a scope can tell apart in a context."""

    readers: frozenset[str]  # every identity that a reader list of its resources names
    languages: frozenset[str]  # of its resources, in lower case
    modes: frozenset[Mode] = frozenset()  # of its resources
    types: frozenset[str] = frozenset()  # of its resources


class Snapshot(msgspec.Struct, frozen=True, eq=False, dict=True):
    """One workspace's policies, compiled. Requests hold one reference from start to end."""

    hash: str  # hex of the canonical policy hash
    generation: int
    contexts: dict[str, Context]
    profiles: dict[str, Profile]
    agents: dict[str, Agent]
    prompts: dict[str, Prompt]
    resources: dict[str, Resource]  # by id
    tree: NodeTree = EMPTY_TREE  # of content
    # What nodes of policy files say, by id; what stored ones say is looked up.
    contents: Mapping[str, NodeContent] = msgspec.field(default_factory=dict)
    recipes: dict[str, Recipe] = msgspec.field(default_factory=dict)
    default: str | None = None  # alias of the global default context
    mandatory: tuple[str, ...] = ()  # aliases of the contexts that always apply
    readers: frozenset[str] = frozenset()  # every identity that a reader list names
    valid_until: float | None = None  # when something begins or ends to be valid; None: never
    tree_generation: int = 0  # the generation that brought its tree

    @cached_property
    def partitions(self) -> dict[str, CachePartition]:
        """What was made of it for callers, by workspace; lives and dies with it, but for `follow`."""
        return {}

    @cached_property
    def _traits(self) -> dict[str, ContextTraits]:
        return {}

    def follow(self, former: "Snapshot | None", generation: int) -> "Snapshot":
        """This snapshot as the next `generation`, after a former one.

        If they differ in nothing but the tree, it keeps what was made of the former: whatever depends on the tree is
        kept together with the `tree_generation` that it was made for.
        """
        if former is None:
            return replace(self, generation=generation, tree_generation=generation)
        tree_generation = former.tree_generation if self.tree is former.tree else generation
        following = replace(self, generation=generation, tree_generation=tree_generation)
        if self._has_policies_of(former):
            following.partitions.update(former.partitions)
        return following

    def _has_policies_of(self, other: "Snapshot") -> bool:
        """Whether everything but the tree is the same; compared by identity, as unchanged entries are not compiled."""
        kinds = ("contexts", "profiles", "agents", "prompts", "recipes")
        pairs: list[tuple[dict[str, object], dict[str, object]]] = [
            (getattr(self, kind), getattr(other, kind)) for kind in kinds
        ]
        return all(
            list(one) == list(known) and all(one[alias] is known[alias] for alias in one) for one, known in pairs
        )

    @cached_property
    def languages(self) -> frozenset[str]:
        """Every language that a resource names, in lower case."""
        return collect_languages(self.resources.values())

    @cached_property
    def has_texts(self) -> bool:
        """Whether a node says anything: many trees only assign contexts."""
        stored = len(self.tree.ids) > len(self.contents)  # what stored nodes say is not known here
        return stored or any(one.body or one.properties for one in self.contents.values())

    @cached_property
    def expands(self) -> bool:
        """Whether an agent lets picks lead to further ones."""
        return any(agent.selection.expansion.depth for agent in self.agents.values())

    @cached_property
    def tools(self) -> tuple[Resource, ...]:
        """Every resource that stands for one tool."""
        return tuple(one for one in self.resources.values() if isinstance(one.data, CallableTool))

    @cached_property
    def backlinks(self) -> Mapping[str, tuple[Backlink, ...]]:
        """The links from nodes of files, by the id of the node that they lead to."""
        found: dict[str, list[Backlink]] = {}
        for source, content in self.contents.items():
            for link in content.links:
                if (node := self.tree.find(link.target)) is not None:
                    found.setdefault(node.id, []).append(Backlink(link.type, source))
        return {id: tuple(links) for id, links in found.items()}

    def get_traits(self, context: str) -> ContextTraits:
        """The traits of a context, worked out once."""
        known = self._traits.get(context)
        if known is None:
            resources = self.contexts[context].resources
            readers = frozenset(name for resource in resources for name in resource.readers)
            modes, types = frozenset(one.mode for one in resources), frozenset(one.type for one in resources)
            known = self._traits[context] = ContextTraits(readers, collect_languages(resources), modes, types)
        return known

    def find_readable(self, identity: str, readers: frozenset[str]) -> Resource | None:
        """A resource by id; one that the caller may not read counts as unknown."""
        resource = self.resources.get(identity)
        return resource if resource is not None and may_read(readers, resource.readers) else None

    def list_readable(self, readers: frozenset[str]) -> Iterator[str]:
        """The ids of all resources that the caller may read."""
        return (one.id for one in self.resources.values() if may_read(readers, one.readers))


def collect_languages(resources: Iterable[Resource]) -> frozenset[str]:
    return frozenset(language.lower() for resource in resources for language in resource.languages)


class ServedSnapshots(NamedTuple):
    """What the files give, and what each workspace that stores something has."""

    base: Snapshot
    workspaces: Mapping[str, Snapshot]

    def forget_injections(self, workspace: str | None) -> None:
        """Forget what was built for a workspace, or for all: something that is no policy has changed what applies."""
        for snapshot in (self.base, *self.workspaces.values()):
            if workspace is None:
                snapshot.partitions.clear()
            else:
                snapshot.partitions.pop(workspace, None)


EMPTY_SNAPSHOT = Snapshot("0" * 64, 0, {}, {}, {}, {}, {})
