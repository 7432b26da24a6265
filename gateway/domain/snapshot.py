"""The immutable form of all policies that a request works with."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from gateway.domain.agent import Agent, Profile, Prompt
from gateway.domain.content_names import ContentNames
from gateway.domain.context import Context
from gateway.domain.memory_budget import CachePartition
from gateway.domain.node import Node
from gateway.domain.principal import may_read
from gateway.domain.resource import Mode, Resource
from gateway.domain.tool import CallableTool


@dataclass(frozen=True, slots=True)
class ContextTraits:
    """What the filters of a scope can tell apart in a context."""

    readers: frozenset[str]  # every identity that a reader list of its resources names
    languages: frozenset[str]  # of its resources, in lower case
    modes: frozenset[Mode] = frozenset()  # of its resources
    types: frozenset[str] = frozenset()  # of its resources


@dataclass(frozen=True)
class Snapshot:
    """One workspace's policies, compiled. Requests hold one reference from start to end."""

    hash: str  # hex of the canonical policy hash
    generation: int
    contexts: dict[str, Context]
    profiles: dict[str, Profile]
    agents: dict[str, Agent]
    prompts: dict[str, Prompt]
    nodes: dict[str, Node]  # by path
    node_ids: dict[str, str]  # id → path
    resources: dict[str, Resource]  # by id
    default: str | None = None  # alias of the global default context
    mandatory: tuple[str, ...] = ()  # aliases of the contexts that always apply
    readers: frozenset[str] = frozenset()  # every identity that a reader list names
    valid_until: float | None = None  # when something begins or ends to be valid; None: never
    content_names: ContentNames = field(default_factory=ContentNames, compare=False, repr=False)
    # What was made of it for callers, by workspace; lives and dies with it.
    partitions: dict[str, CachePartition] = field(init=False, default_factory=dict, compare=False, repr=False)
    _traits: dict[str, ContextTraits] = field(init=False, default_factory=dict, compare=False, repr=False)

    @cached_property
    def languages(self) -> frozenset[str]:
        """Every language that a resource names, in lower case."""
        return collect_languages(self.resources.values())

    @cached_property
    def expands(self) -> bool:
        """Whether an agent lets picks lead to further ones."""
        return any(agent.selection.expansion.depth for agent in self.agents.values())

    @cached_property
    def tools(self) -> tuple[Resource, ...]:
        """Every resource that stands for one tool."""
        return tuple(one for one in self.resources.values() if isinstance(one.data, CallableTool))

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

    def ancestry(self, node: Node) -> list[Node]:
        """The node and its ancestors, nearest first."""
        line = [node]
        while line[-1].parent is not None:
            line.append(self.nodes[line[-1].parent])
        return line


def collect_languages(resources: Iterable[Resource]) -> frozenset[str]:
    return frozenset(language.lower() for resource in resources for language in resource.languages)


class ServedSnapshots(NamedTuple):
    """What the files give, and what each workspace that stores something has."""

    base: Snapshot
    workspaces: Mapping[str, Snapshot]


EMPTY_SNAPSHOT = Snapshot("0" * 64, 0, {}, {}, {}, {}, {}, {}, {})
