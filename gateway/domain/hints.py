"""What a request would like to see, as far as collectors and ranking can tell."""

from math import inf

import msgspec
from msgspec.structs import replace

from gateway.domain.node_tree import NodeTree


class ContextHints(msgspec.Struct, frozen=True):
    """Wishes about nodes and other found items; none of them brings in what the caller may not read."""

    prioritize_types: tuple[str, ...] = ()
    since: float = -inf  # seconds since 1970; items that were modified before are left out
    until: float = inf
    include: frozenset[str] = frozenset()  # ids that come first
    exclude: frozenset[str] = frozenset()  # ids that are left out
    max_depth: int | None = None  # steps in the tree that collectors go at most

    def resolve(self, tree: NodeTree) -> "ContextHints":
        """The same with the ids of nodes that are named by their path."""
        if not (self.include or self.exclude):
            return self
        include, exclude = (_add_ids(names, tree) for names in (self.include, self.exclude))
        return replace(self, include=include, exclude=exclude)

    def excludes(self, id: str) -> bool:
        """Whether something is left out: a node, or a part of one, such as `<node>#ending`."""
        return bool(self.exclude) and (id in self.exclude or id.rpartition("#")[0] in self.exclude)


def _add_ids(names: frozenset[str], tree: NodeTree) -> frozenset[str]:
    """Names may be those of entities, too: they stay."""
    return names.union(node.id for name in names if (node := tree.find(name)) is not None)


NO_HINTS = ContextHints()
