"""Hints for misspelt names, within bounds."""

from typing import Any

import pytest
from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict

from gateway.domain.node import Node
from gateway.domain.node_tree import NodeTree
from gateway.domain.snapshot import EMPTY_SNAPSHOT
from gateway.errors import COMPARED_WORDS, MOST_KNOWN, QUOTED, UnknownAlias, find_similar
from gateway.scopes.scope import find_node
from gateway.strict_yaml import YamlDocument
from gateway.validation import MOST_SUGGESTIONS, validate

MANY = [f"resource-{number}" for number in range(10_000)]


class Shape(BaseModel):
    model_config = ConfigDict(extra="forbid")

    alias: str = ""


def test_a_long_alias_is_cut_in_the_message() -> None:
    message = UnknownAlias("agent", "x" * 1_000_000, ["support"], param="agent").message
    assert len(message) < QUOTED + 50
    assert "xxx…" in message


def test_the_nearest_of_many_names_is_found_by_its_beginning_or_its_end() -> None:
    assert "editorial" in find_similar("editorail", [*MANY, "editorial"], 3)
    assert "support-team" in find_similar("uspport-team", [*MANY, "support-team"], 3)


def test_few_names_are_all_compared() -> None:
    few = [f"{number:03}-guide" for number in range(COMPARED_WORDS)]
    assert find_similar("050-giude", few, 1) == ["050-guide"]


def test_only_the_first_faults_come_with_a_hint() -> None:
    _, faults = validate(Shape, {f"alia{n}": 1 for n in range(100)}, YamlDocument("f", None, {}), ())
    assert len(faults) == 100
    assert sum("did you mean" in fault.message for fault in faults) == MOST_SUGGESTIONS


class CountedNodes(dict[str, Node]):
    """The nodes of a tree, and how many of them somebody looked at in a row."""

    looked_at = 0

    def items(self) -> Any:
        for pair in super().items():
            self.looked_at += 1
            yield pair


@pytest.mark.parametrize("readers", [(), ("group:board",)])
def test_only_so_many_nodes_of_a_tree_are_looked_at_for_a_misspelt_path(readers: tuple[str, ...]) -> None:
    """Whoever asks for what does not exist costs the same in any tree, whether he may read it or not."""
    paths = [f"p{number}" for number in range(MOST_KNOWN + 500)]
    nodes = CountedNodes({path: Node(path, path, None, "page", path, readers=readers) for path in paths})
    snapshot = replace(EMPTY_SNAPSHOT, tree=NodeTree(nodes, {path: path for path in nodes}))
    with pytest.raises(UnknownAlias):
        find_node("nowhere", frozenset(), snapshot, "content")
    assert nodes.looked_at <= MOST_KNOWN
