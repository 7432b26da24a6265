"""The immutable form of all policies that a request works with."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gateway.domain.agent import Agent, Profile, Prompt
from gateway.domain.context import Context
from gateway.domain.lru import LruCache
from gateway.domain.node import Node
from gateway.domain.resource import Resource


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
    # Work that depends on nothing but the snapshot and a scope; lives and dies with it.
    memo: LruCache[Hashable, Any] = field(default_factory=LruCache, compare=False, repr=False)

    def ancestry(self, node: Node) -> list[Node]:
        """The node and its ancestors, nearest first."""
        line = [node]
        while line[-1].parent is not None:
            line.append(self.nodes[line[-1].parent])
        return line


class ServedSnapshots(NamedTuple):
    """What the files give, and what each workspace that stores something has."""

    base: Snapshot
    workspaces: Mapping[str, Snapshot]


EMPTY_SNAPSHOT = Snapshot("0" * 64, 0, {}, {}, {}, {}, {}, {}, {})
