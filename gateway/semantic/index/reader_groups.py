"""Nodes by who may read them: most nodes of a tree share their readers with thousands of others."""

from collections.abc import Mapping

import msgspec

from gateway.domain.node_tree import NodeTree
from gateway.domain.principal import ANY_GROUP, may_read

ReaderChain = tuple[tuple[str, ...], ...]  # reader lists from the root down, without empty ones


class ReaderGroups(msgspec.Struct, frozen=True):
    """A number for each chain of reader lists that stands above nodes."""

    chains: tuple[ReaderChain, ...]
    numbers: Mapping[str, int]  # by id of a node
    names: frozenset[str]  # every identity that a list names

    def reduce(self, readers: frozenset[str]) -> frozenset[str]:
        """Those identities that make a difference."""
        return readers & (self.names | {ANY_GROUP})

    def list_permitted(self, readers: frozenset[str]) -> list[int]:
        """The groups whose nodes somebody may read: only a reader of everything above them may."""
        return [
            number for number, chain in enumerate(self.chains) if all(may_read(readers, allowed) for allowed in chain)
        ]


def group_by_readers(tree: NodeTree) -> ReaderGroups:
    """The groups of all nodes; takes time in proportion to the tree."""
    chains: dict[ReaderChain, int] = {(): 0}
    above: dict[str | None, ReaderChain] = {None: ()}
    numbers: dict[str, int] = {}
    for path, node in tree.nodes.items():
        if node.parent not in above:  # defined before its parent
            line = reversed(tree.list_ancestry(node))
            chain: ReaderChain = tuple(one.readers for one in line if one.readers)
        else:
            chain = (*above[node.parent], node.readers) if node.readers else above[node.parent]
        above[path] = chain
        numbers[node.id] = chains.setdefault(chain, len(chains))
    return ReaderGroups(tuple(chains), numbers, frozenset(name for chain in chains for one in chain for name in one))
