"""The content tree gives parents, children, siblings and permissions without looking at other nodes."""

from gateway.domain.node import Node
from gateway.domain.node_tree import NodeTree


def make_tree(*nodes: Node) -> NodeTree:
    return NodeTree({one.path: one for one in nodes}, {one.id: one.path for one in nodes})


def make_node(path: str, *, order: int = 0, readers: tuple[str, ...] = (), id: str | None = None) -> Node:
    return Node(id or path, path, path.rpartition("/")[0] or None, "page", path, order=order, readers=readers)


TREE = make_tree(
    make_node("site"),
    make_node("site/late", order=5),
    make_node("site/first", order=-1),
    make_node("site/blog", readers=("group:staff",), id="7"),
    make_node("site/blog/post", readers=("user:ada",)),
    make_node("other"),
)


def test_children_stand_in_the_order_that_they_name_and_else_in_that_of_their_definition() -> None:
    assert [one.path for one in TREE.list_children(TREE.nodes["site"])] == ["site/first", "site/blog", "site/late"]
    assert [one.path for one in TREE.list_roots()] == ["site", "other"]
    assert TREE.list_children(TREE.nodes["other"]) == []
    assert TREE.count_children(TREE.nodes["site"]) == 3


def test_a_branch_lists_parents_before_their_children() -> None:
    branch = [one.path for one in TREE.list_branch(TREE.nodes["site"])]
    assert branch == ["site", "site/first", "site/blog", "site/blog/post", "site/late"]


def test_a_node_is_found_by_id_and_by_path() -> None:
    blog = TREE.nodes["site/blog"]
    assert TREE.find("7") is TREE.find("/site/blog/") is TREE.get("7") is blog
    assert TREE.get("site/blog") is None
    assert TREE.find("nowhere") is None
    assert TREE.get_parent(blog) is TREE.nodes["site"]
    assert TREE.get_parent(TREE.nodes["site"]) is None


def test_only_readers_of_everything_above_may_read_a_node() -> None:
    post = TREE.nodes["site/blog/post"]
    assert not TREE.may_read(frozenset({"user:ada"}), post)
    assert not TREE.may_read(frozenset({"group:staff"}), post)
    assert TREE.may_read(frozenset({"user:ada", "group:staff"}), post)
    assert TREE.may_read(frozenset(), TREE.nodes["site/late"])
