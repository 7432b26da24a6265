"""Names of content in texts: whole words, distinctive, in time that grows with the text."""

import time

import pytest

from gateway.domain.content_names import LONGEST_TEXT, MAX_SHARING, ContentNames
from gateway.domain.node import Node


def node(path: str, title: str = "") -> Node:
    parent = path.rpartition("/")[0] or None
    return Node(path, path, parent, "page", title or path.rpartition("/")[2].title())


def index(*nodes: Node) -> ContentNames:
    names = ContentNames({one.path: one for one in nodes})
    names.build()
    return names


TREE = (
    node("halden", "Halden Instruments"),
    node("halden/products", "Products"),
    node("halden/products/hp-200", "HP-200 pressure transmitter"),
    node("halden/about", "About us"),
    node("halden/blog", "Engineering blog"),
    node("lumo", "Lumo"),
    node("lumo/blog", "Blog"),
    node("lumo/shop", "Lamps"),
    node("nord.example", "Shop"),
    node("lumo/fl30", "FL30"),
)


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("Write about Halden Instruments, please.", ["halden"]),
        ("Write about HALDEN INSTRUMENTS", ["halden"]),
        ("and on halden?", ["halden"]),
        ("Haldens instruments", []),
        ("the instruments of Halden", ["halden"]),
        ("compare it with the HP-200", ["halden/products/hp-200"]),
        ("the HP-200 pressure transmitter", ["halden/products/hp-200"]),
        ("see halden/products/hp-200", ["halden/products/hp-200"]),
        ("as on https://lumo.com/blog", ["lumo"]),
        ("as in the Lumo blog", ["lumo/blog"]),
        ("as in lumo_blog", ["lumo/blog"]),
        ("a post for the blog", []),
        ("tell me about us and products", []),
        ("we sell lamps", []),
        ("what is on nord.example?", ["nord.example"]),
        ("what is in the shop", []),
        ("the FL30 is loud", ["lumo/fl30"]),
        ("Lumo or Halden Instruments", ["halden", "lumo"]),
        ("", []),
    ],
)
def test_a_name_counts_as_whole_words_unless_it_is_common(text: str, paths: list[str]) -> None:
    assert [path for mention in index(*TREE).find(text) for path in mention.paths] == paths


def test_nothing_is_found_before_the_names_are_indexed() -> None:
    names = ContentNames({one.path: one for one in TREE})
    assert not names.is_built
    assert names.find("Lumo") == []
    assert ContentNames().is_built


def test_a_name_that_many_nodes_bear_says_nothing() -> None:
    shared = [node(f"lumo/page-{number}", "Opening hours") for number in range(MAX_SHARING)]
    (mention,) = index(*shared).find("the opening hours")
    assert len(mention.paths) == MAX_SHARING
    assert index(*shared, node("lumo/more", "Opening hours")).find("the opening hours") == []


def test_only_the_beginning_of_a_long_text_is_looked_at() -> None:
    names = index(*TREE)
    assert names.find(" " * (LONGEST_TEXT - 5) + " Lumo")
    assert not names.find(" " * LONGEST_TEXT + "Lumo")


def test_the_work_does_not_grow_with_the_tree() -> None:
    """Titles that begin alike: whoever looks at each of them takes a thousand times as long."""
    text = "the old harbour of the north " * 60

    def measure(size: int) -> float:
        names = index(*(node(f"site/p{number}", f"The old harbour {number} of town") for number in range(size)))
        began = time.process_time()
        for _ in range(20):
            names.find(text)
        return time.process_time() - began

    small = min(measure(20) for _ in range(3))
    assert min(measure(20_000) for _ in range(3)) < 5 * small
