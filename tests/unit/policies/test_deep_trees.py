"""Stored nodes far below each other, or in a circle."""

from gateway.policies.content_tree import CIRCULAR, MAX_DEPTH, TOO_DEEP, ContentTree, add_stored_nodes
from gateway.policies.files import EntryLocation, PolicyEntry
from gateway.strict_yaml import YamlDocument


def build(parents: dict[str, str | None]) -> ContentTree:
    place = EntryLocation(YamlDocument("f", None, {}), ())
    nodes = {name: PolicyEntry(name, place, {"key": name, "parent": above}) for name, above in parents.items()}
    return add_stored_nodes(ContentTree(), nodes)


def test_a_tree_has_at_most_so_many_levels() -> None:
    chain = {f"n{level}": f"n{level - 1}" if level else None for level in range(MAX_DEPTH + 2)}
    for parents in (chain, dict(reversed(chain.items()))):
        tree = build(parents)
        assert len(tree.nodes) == MAX_DEPTH
        assert [fault.message for fault in tree.faults] == [TOO_DEEP] * 2


def test_every_node_of_a_circle_is_named_once() -> None:
    tree = build({"a": "b", "b": "c", "c": "a", "below": "a", "free": None})
    assert [fault.message for fault in tree.faults] == [CIRCULAR] * 4
    assert list(tree.nodes) == ["free"]


def test_below_a_node_that_is_missing_nothing_is_found() -> None:
    tree = build({"a": "nowhere", "b": "a"})
    assert [fault.message for fault in tree.faults] == [
        "there is no node with the id 'nowhere'",
        "there is no node with the id 'a'",
    ]
