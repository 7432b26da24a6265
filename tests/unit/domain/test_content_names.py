"""Names of content in texts: whole words, distinctive, in time that grows with the text."""

import time

import pytest

from gateway.domain.content_names import LONGEST_TEXT, MAX_SHARING, ContentNames
from gateway.domain.node import Node

NOBODY: frozenset[str] = frozenset()
ANN, BOB = frozenset({"key:k", "user:ann"}), frozenset({"key:k", "user:bob"})


def node(path: str, title: str = "", readers: tuple[str, ...] = ()) -> Node:
    parent = path.rpartition("/")[0] or None
    return Node(path, path, parent, "page", title or path.rpartition("/")[2].title(), readers=readers)


def index(*nodes: Node) -> ContentNames:
    """The names of these nodes, and of whatever stands above them."""
    every: dict[str, Node] = {}
    for one in nodes:
        steps = one.path.split("/")
        for depth in range(1, len(steps)):
            every.setdefault("/".join(steps[:depth]), node("/".join(steps[:depth])))
        every[one.path] = one
    names = ContentNames(every)
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
    assert [path for mention in index(*TREE).find(text, NOBODY) for path in mention.paths] == paths


def test_nothing_is_found_before_the_names_are_indexed() -> None:
    names = ContentNames({one.path: one for one in TREE})
    assert not names.is_built
    assert names.find("Lumo", NOBODY) == []
    assert ContentNames().is_built


def test_a_name_that_many_nodes_bear_says_nothing() -> None:
    shared = [node(f"lumo/page-{number}", "Opening hours") for number in range(MAX_SHARING)]
    (mention,) = index(*shared).find("the opening hours", NOBODY)
    assert len(mention.paths) == MAX_SHARING
    assert index(*shared, node("lumo/more", "Opening hours")).find("the opening hours", NOBODY) == []


@pytest.mark.parametrize("many", [1, MAX_SHARING, 4 * MAX_SHARING])
def test_what_a_caller_may_not_read_changes_nothing_for_it(many: int) -> None:
    """Neither many nodes of a title, nor longer names that begin with it, whoever may read them."""
    own = [node("lumo/hours", "Opening hours"), node("lumo/desk", "Front desk", ("user:bob",))]
    foreign = [
        *(node(f"lumo/ann-{number}", "Opening hours", ("user:ann",)) for number in range(many)),
        *(node(f"lumo/board-{number}", "Opening hours", ("group:board",)) for number in range(many)),
        *(node(f"lumo/own-{number}", "Front desk", (f"user:{number}",)) for number in range(many)),
        node("lumo/vault", "Vault", ("user:ann",)),
        *(node(f"lumo/vault/{number}", "Front desk", ("user:bob",)) for number in range(many)),
        node("lumo/feast", "Opening hours at Christmas", ("user:ann",)),
    ]
    text = "the opening hours at christmas of the front desk"
    alone, among = index(*own), index(*foreign, *own)
    assert among.find(text, BOB) == alone.find(text, BOB) != []
    assert among.find(text, NOBODY) == alone.find(text, NOBODY) != []
    assert among.find(text, ANN)[0].paths == ("lumo/feast",)
    everyone = frozenset({"*"})
    board = among.find("the opening hours", everyone)
    assert [len(one.paths) for one in board] == ([many + 1] if many < MAX_SHARING else [])


def test_a_title_of_many_readers_is_found_without_a_look_at_all_of_them() -> None:
    def measure(size: int) -> float:
        names = index(*(node(f"site/p{number}", "Opening hours", (f"user:{number}",)) for number in range(size)))
        began = time.process_time()
        for _ in range(200):
            assert len(names.find("opening hours", frozenset({"user:7"}))) == 1
        return time.process_time() - began

    small = min(measure(20) for _ in range(3))
    assert min(measure(20_000) for _ in range(3)) < 5 * small


def test_only_the_beginning_of_a_long_text_is_looked_at() -> None:
    names = index(*TREE)
    assert names.find(" " * (LONGEST_TEXT - 5) + " Lumo", NOBODY)
    assert not names.find(" " * LONGEST_TEXT + "Lumo", NOBODY)


def test_the_work_does_not_grow_with_the_tree() -> None:
    """Titles that begin alike: whoever looks at each of them takes a thousand times as long."""
    text = "the old harbour of the north " * 60

    def measure(size: int) -> float:
        names = index(*(node(f"site/p{number}", f"The old harbour {number} of town") for number in range(size)))
        began = time.process_time()
        for _ in range(20):
            names.find(text, NOBODY)
        return time.process_time() - began

    small = min(measure(20) for _ in range(3))
    assert min(measure(20_000) for _ in range(3)) < 5 * small
