"""Applies a few changes of stored nodes to a tree: one edit must not cost as much as all nodes together."""

from collections.abc import Iterable, Mapping

from gateway.domain.node import Node
from gateway.policies.content_tree import (
    MAX_DEPTH,
    CheckedNode,
    ContentTree,
    TreeFacts,
    check_node,
    digest_node,
    place_node,
)
from gateway.policies.files import PolicyEntry
from gateway.policies.shapes import find_node_key_fault

MOST_CHANGES = 1000  # with more of them a build of the whole tree is as fast


def update_tree(former: ContentTree, stored: Mapping[str, PolicyEntry]) -> ContentTree | None:
    """The former tree with these stored nodes; None if it has to be built anew, which also finds every fault."""
    base = former.base
    if base is None or former.faults or former.adopted:
        return None
    changed = {id: one for id, one in stored.items() if former.stored.get(id) is not one and id not in base.ids}
    removed = [id for id in former.stored if id not in stored and id not in base.ids]
    if len(changed) + len(removed) > MOST_CHANGES:
        return None
    checked = {id: check_node(entry, former.checked.get(id)) for id, entry in changed.items()}
    if any(one.faults or find_node_key_fault(one.key) for one in checked.values()):
        return None
    draft = TreeDraft(former)
    return draft.finish(stored) if draft.apply(checked, removed) else None


class TreeDraft:
    """Copies of what a tree consists of, while changes are applied to them."""

    def __init__(self, former: ContentTree) -> None:
        facts = former.facts
        self._former = former
        self._nodes, self._ids = dict(former.nodes), dict(former.ids)
        self._entries, self._checked = dict(former.entries), dict(former.checked)
        self._below, self._referring = dict(facts.below), dict(facts.referring)
        self._digest, self._readers = facts.digest, facts.readers
        self._resorted: set[str | None] = set()  # parents whose children have changed

    def apply(self, changed: Mapping[str, CheckedNode], removed: Iterable[str]) -> bool:
        """Apply changes; False if they cause a fault, whatever it is."""
        moved = [id for id, one in changed.items() if not self._stays(id, one)]
        for id in changed.keys() - set(moved):
            self._replace(self._ids[id], changed[id])
        gone = set(removed)
        homeless = self._take_out([*gone, *moved])
        self._checked |= changed
        for id in gone:
            del self._checked[id]
        pending = dict.fromkeys([*moved, *(id for id in homeless if id not in gone)])
        while pending:
            if not self._place(next(iter(pending)), pending):
                return False
        return True

    def finish(self, stored: Mapping[str, PolicyEntry]) -> ContentTree:
        former = self._former
        for parent in self._resorted:
            paths = former.sort_children(self._below.pop(parent, ()), self._nodes, self._entries)
            if paths:
                self._below[parent] = paths
        facts = TreeFacts(self._digest % 2**256, self._below, self._readers, self._referring)
        return ContentTree(
            *(self._nodes, self._ids, self._entries, former.contents, [], former.base, stored, self._checked),
            given=facts,
        )

    def _stays(self, id: str, one: CheckedNode) -> bool:
        known = self._checked.get(id)
        return known is not None and (known.key, known.parent) == (one.key, one.parent) and id in self._ids

    def _replace(self, path: str, one: CheckedNode) -> None:
        """Put other names, readers, contexts or another order in the place of those that a node had."""
        self._forget(path)
        self._know(place_node(one.node, path), one.entry)
        self._resorted.add(self._nodes[path].parent)

    def _take_out(self, ids: Iterable[str]) -> list[str]:
        """Remove nodes with everything below them; the ids of all, parents first."""
        tree, out = self._former.structure, dict[str, str]()  # id → path
        for id in ids:
            node = tree.get(id)
            if node is not None and id not in out:
                out |= {one.id: one.path for one in tree.list_branch(node)}
        lost = set(out.values())
        for id, path in out.items():
            parent = self._nodes[path].parent
            self._forget(path)
            del self._nodes[path], self._entries[path], self._ids[id]
            self._below.pop(path, None)
            if parent not in lost and parent not in self._resorted:
                self._resorted.add(parent)
        for parent in self._resorted:
            self._below[parent] = tuple(path for path in self._below.get(parent, ()) if path not in lost)
        return list(out)

    def _place(self, id: str, pending: dict[str, None]) -> bool:
        """Place a node after those above it; False if it has no place."""
        line = [id]
        while (above := self._checked[line[-1]].parent) in pending:
            if above is None or above in line or len(line) > MAX_DEPTH:
                return False
            line.append(above)
        return all(self._place_one(one, pending) for one in reversed(line))

    def _place_one(self, id: str, pending: dict[str, None]) -> bool:
        del pending[id]
        one = self._checked[id]
        if one.parent is not None and one.parent not in self._ids:
            return False
        path = one.key if one.parent is None else f"{self._ids[one.parent]}/{one.key}"
        taken = path in self._nodes or (id != path and id in self._nodes) or id in self._ids
        if taken or self._ids.get(path, path) != path or path.count("/") >= MAX_DEPTH:
            return False
        node = place_node(one.node, path)
        self._ids[id] = path
        self._know(node, one.entry)
        self._below[node.parent] = (*self._below.get(node.parent, ()), path)
        self._resorted.add(node.parent)
        return True

    def _know(self, node: Node, entry: PolicyEntry) -> None:
        self._nodes[node.path], self._entries[node.path] = node, entry
        self._digest += digest_node(node)
        self._readers = self._readers.union(node.readers)
        if node.contexts or entry.record is None:
            self._referring[node.path] = entry

    def _forget(self, path: str) -> None:
        self._digest -= digest_node(self._nodes[path])
        self._referring.pop(path, None)
