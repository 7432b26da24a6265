"""Nodes are made, moved, changed and deleted; those of files are not."""

from pathlib import Path
from typing import Any

import pytest

from gateway.domain.content import Backlink
from gateway.domain.principal import Principal
from gateway.errors import Conflict, InvalidObject, NotFound, PreconditionFailed
from tests.support.control_plane import ANNA, ControlPlane

FILES = {
    "contexts": {"voice": {}, "blog": {}, "shop": {}},
    "content": {"site": {"id": "root", "contexts": ["voice"], "children": {"news": {}}}},
}


@pytest.fixture
async def house(tmp_path: Path) -> ControlPlane:
    return await ControlPlane.start(tmp_path, FILES)


async def make(house: ControlPlane, key: str, parent: str | None = None, **more: Any) -> str:
    return (await house.content.create(ANNA, {"key": key, "parent": parent, **more})).node.id


async def test_a_node_hangs_below_a_node_of_a_file(house: ControlPlane) -> None:
    made = await house.content.create(ANNA, {"key": "blog", "parent": "site/news", "title": "Our blog"})
    assert (made.node.path, made.node.title, made.parent) == ("site/news/blog", "Our blog", "site/news")
    assert house.snapshot.tree.nodes["site/news/blog"].id.startswith("node-")


async def test_a_parent_is_named_by_id_or_path(house: ControlPlane) -> None:
    await make(house, "a", "root", id="a")
    await make(house, "b", "/site/a", id="b")
    assert house.snapshot.tree.ids["b"] == "site/a/b"


async def test_what_is_taken_is_a_conflict_that_names_the_file(house: ControlPlane) -> None:
    await make(house, "a", id="a")
    for sent in ({"key": "x", "id": "a"}, {"key": "a"}):
        with pytest.raises(Conflict):
            await house.content.create(ANNA, sent)
    for sent in ({"key": "x", "id": "root"}, {"key": "news", "parent": "root"}):
        with pytest.raises(Conflict, match=r"files\.yaml:\d+"):
            await house.content.create(ANNA, sent)


@pytest.mark.parametrize(
    ("sent", "pointer"),
    [
        ({"key": "x", "parent": "nowhere"}, "/parent"),
        ({"key": "Not a key"}, "/key"),
        ({"key": "x", "contexts": ["voice", "unknown"]}, "/contexts/1"),
        ({"key": "x", "id": "site"}, "/id"),
        ({"key": "x", "inherit": "always"}, "/inherit"),
    ],
)
async def test_faults_point_at_what_was_sent(house: ControlPlane, sent: dict[str, Any], pointer: str) -> None:
    with pytest.raises(InvalidObject) as caught:
        await house.content.create(ANNA, sent)
    assert [fault.pointer for fault in caught.value.faults] == [pointer]
    assert len(house.snapshot.tree.nodes) == 2


async def test_a_moved_node_takes_everything_below_it_along(house: ControlPlane) -> None:
    await make(house, "a", id="a")
    await make(house, "b", "a", id="b")
    await make(house, "c", "b", id="c")
    await house.content.replace(ANNA, "a/b", {"key": "beta", "parent": "site/news"})
    paths = house.snapshot.tree.ids
    assert (paths["b"], paths["c"]) == ("site/news/beta", "site/news/beta/c")


async def test_a_replaced_node_stays_where_it_is(house: ControlPlane) -> None:
    await make(house, "a", "root", id="a", title="A", body="Long text", contexts=["blog"])
    found = await house.content.replace(ANNA, "a", {"title": "Other"})
    assert (found.node.path, found.node.title, found.node.contexts) == ("site/a", "Other", ())
    assert (await house.contents.read("default", ["a"]))["a"].body == ""
    moved = await house.content.replace(ANNA, "a", {"title": "Other", "parent": None})
    assert (moved.node.path, moved.parent) == ("a", None)


async def test_a_node_cannot_stand_below_itself(house: ControlPlane) -> None:
    await make(house, "a", id="a")
    await make(house, "b", "a", id="b")
    for parent in ("a", "b"):
        with pytest.raises(InvalidObject) as caught:
            await house.content.replace(ANNA, "a", {"parent": parent})
        assert [fault.pointer for fault in caught.value.faults] == ["/parent"]


async def test_a_node_cannot_move_onto_another(house: ControlPlane) -> None:
    await make(house, "a", id="a")
    await make(house, "b", id="b")
    with pytest.raises(Conflict):
        await house.content.replace(ANNA, "b", {"key": "a"})
    assert house.snapshot.tree.ids["b"] == "b"


async def test_an_id_never_changes(house: ControlPlane) -> None:
    await make(house, "a", id="a")
    with pytest.raises(InvalidObject) as caught:
        await house.content.replace(ANNA, "a", {"id": "other"})
    assert [fault.pointer for fault in caught.value.faults] == ["/id"]


async def test_nodes_of_files_are_read_only(house: ControlPlane) -> None:
    with pytest.raises(Conflict, match=r"files\.yaml:\d+"):
        await house.content.replace(ANNA, "root", {"title": "Mine"})
    with pytest.raises(Conflict, match=r"files\.yaml:\d+"):
        await house.content.delete(ANNA, "site/news")
    with pytest.raises(Conflict, match=r"files\.yaml:\d+"):
        await house.content.assign(ANNA, "root", ["blog"], None)


async def test_a_branch_goes_at_once_or_not_at_all(house: ControlPlane) -> None:
    await make(house, "a", id="a")
    await make(house, "b", "a", id="b")
    await make(house, "ab", id="ab")
    with pytest.raises(Conflict, match=r"child nodes \(1\)"):
        await house.content.delete(ANNA, "a")
    await house.content.delete(ANNA, "a", recursive=True)
    assert sorted(house.snapshot.tree.nodes) == ["ab", "site", "site/news"]


async def test_a_stale_tag_changes_nothing(house: ControlPlane) -> None:
    await make(house, "a", id="a")
    stale = frozenset({house.node("a").tag})
    await house.content.replace(ANNA, "a", {"title": "New"}, stale)
    with pytest.raises(PreconditionFailed):
        await house.content.replace(ANNA, "a", {"title": "Newer"}, stale)
    with pytest.raises(PreconditionFailed):
        await house.content.delete(ANNA, "a", tags=stale)
    assert house.snapshot.tree.nodes["a"].title == "New"


async def test_saying_the_same_again_makes_no_version(house: ControlPlane) -> None:
    await make(house, "a", id="a", title="A title")
    await house.content.replace(ANNA, "a", {"title": "A title", "type": "page", "contexts": []})
    assert house.node("a").version == 1


async def test_contexts_are_assigned_merged_and_taken_away(house: ControlPlane) -> None:
    await make(house, "a", "root", id="a")
    tree = house.content.tree("default")
    assert [(one.context, one.entity) for one in tree.list_effective_contexts(tree.find("a").node)] == [
        ("voice", "site")
    ]
    found = await house.content.assign(ANNA, "a", ["blog", "shop"], "merge")
    tree = house.content.tree("default")
    effective = [(one.context, one.entity) for one in tree.list_effective_contexts(found.node)]
    assert effective == [("voice", "site"), ("blog", "site/a"), ("shop", "site/a")]
    await house.content.assign(ANNA, "a", [], "nearest")
    assert house.snapshot.tree.nodes["site/a"].contexts == ()


async def test_links_are_followed_both_ways(house: ControlPlane) -> None:
    await make(house, "a", id="a", links=["root", "site/news", "gone"])
    found = await house.contents.read("default", ["a"])
    news = house.snapshot.tree.nodes["site/news"].id
    assert [link.target for link in found["a"].links] == ["root", news, "gone"]
    for target in ("root", news):
        assert await house.contents.list_backlinks("default", target, 10) == [Backlink("link", "a")]


async def test_another_workspace_has_a_tree_of_its_own(house: ControlPlane) -> None:
    await make(house, "a", id="a")
    other = Principal("bert", workspace="other", role=ANNA.role)
    with pytest.raises(NotFound):
        await house.content.replace(other, "a", {"title": "Mine"})
    await house.content.create(other, {"key": "a", "id": "a", "title": "Bert's"})
    assert house.snapshot.tree.nodes["a"].title == "A"
