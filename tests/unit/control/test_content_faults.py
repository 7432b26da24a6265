"""A policy file takes away what stored nodes hang on: they stay in sight and can be fixed one by one."""

from pathlib import Path
from typing import Any

import pytest

from gateway.control.versions import Versions
from gateway.control.writer import PolicyWriter
from gateway.errors import Conflict, InvalidObject, NotFound, ServiceUnavailable
from gateway.stores.memory_ephemeral import MemoryEphemeralStore
from tests.support.control_plane import ANNA, ControlPlane, write

BEFORE = {"content": {"site": {"contexts": ["voice"], "children": {"blog": {"contexts": ["blog"]}}}}}
AFTER = {"content": {"site": {"contexts": ["voice"], "children": {"journal": {"contexts": ["blog"]}}}}}
CONTEXTS: dict[str, Any] = {"contexts": {"voice": {}, "blog": {}}}


@pytest.fixture
async def house(tmp_path: Path) -> ControlPlane:
    """`post` with `note` below it, and `page`, hang on `site/blog`, which has become `site/journal`."""
    house = await ControlPlane.start(tmp_path, {**CONTEXTS, **BEFORE})
    for id, parent in (("post", "site/blog"), ("note", "post"), ("page", "site/blog")):
        await house.content.create(ANNA, {"id": id, "key": id, "parent": parent, "title": id.upper()})
    write(tmp_path, {**CONTEXTS, **AFTER})
    await house.policies.reload()
    assert "site/blog" in str(house.policies.error)
    return house


def paths(house: ControlPlane) -> list[str]:
    return [one.node.path for one in house.content.tree(ANNA.workspace).list_all()]


async def test_what_lost_its_place_is_listed_and_found(house: ControlPlane) -> None:
    assert paths(house) == ["site", "site/blog/page", "site/blog/post", "site/blog/post/note", "site/journal"]
    tree = house.content.tree(ANNA.workspace)
    found = tree.find("post")
    assert (found.node.title, found.node.parent, found.parent, found.children) == ("POST", None, "site/blog", 1)
    assert [one.context for one in tree.list_effective_contexts(tree.find("site/journal").node)] == ["blog"]
    assert tree.list_effective_contexts(found.node) == []
    with pytest.raises(NotFound):
        tree.find("site/blog")


async def test_chats_go_on_with_the_former_tree(house: ControlPlane) -> None:
    assert "site/blog/post/note" in house.snapshot.tree.nodes


async def test_nodes_are_fixed_one_by_one(house: ControlPlane) -> None:
    moved = await house.content.replace(ANNA, "post", {"parent": "site/journal", "title": "Moved"})
    assert moved.node.path == "site/journal/post"
    assert house.policies.error is not None
    await house.content.delete(ANNA, "page")
    assert house.policies.error is None
    assert sorted(house.snapshot.tree.nodes) == ["site", "site/journal", "site/journal/post", "site/journal/post/note"]
    assert house.content.tree(ANNA.workspace).snapshot is house.snapshot


async def test_without_its_parent_a_node_cannot_be_changed_otherwise(house: ControlPlane) -> None:
    with pytest.raises(InvalidObject) as replaced:
        await house.content.replace(ANNA, "post", {"title": "Other"})
    with pytest.raises(InvalidObject) as assigned:
        await house.content.assign(ANNA, "post", ["voice"], None)
    versions = Versions(house.content, house.records, PolicyWriter(house.policies, MemoryEphemeralStore()))
    with pytest.raises(InvalidObject) as rolled_back:
        await versions.rollback(ANNA, "post", 1)
    for caught in (replaced, assigned, rolled_back):
        assert [fault.pointer for fault in caught.value.faults] == ["/parent"]


async def test_a_new_node_may_take_the_place_of_the_lost_one(house: ControlPlane) -> None:
    with pytest.raises(InvalidObject):
        await house.content.create(ANNA, {"key": "more", "parent": "site/blog"})
    await house.content.create(ANNA, {"id": "site/blog", "key": "blog", "parent": "site"})
    assert house.policies.error is None
    assert "site/blog/post/note" in house.snapshot.tree.nodes


async def test_a_stored_node_whose_path_a_file_takes_is_found_by_its_id(tmp_path: Path) -> None:
    house = await ControlPlane.start(tmp_path, {**CONTEXTS, **BEFORE})
    await house.content.create(ANNA, {"id": "mine", "key": "journal", "parent": "site"})
    write(tmp_path, {**CONTEXTS, **AFTER})
    await house.policies.reload()
    assert house.policies.error is not None
    tree = house.content.tree(ANNA.workspace)
    assert (tree.find("site/journal").object.record, tree.find("mine").node.path) == (None, "mine")
    with pytest.raises(Conflict):
        await house.content.replace(ANNA, "site/journal", {})
    assert (await house.content.replace(ANNA, "mine", {"key": "diary"})).node.path == "site/diary"
    assert house.policies.get_snapshot(ANNA.workspace).tree.ids["mine"] == "site/diary"


async def test_a_gateway_that_starts_with_faults_lets_them_be_fixed(house: ControlPlane, tmp_path: Path) -> None:
    started = ControlPlane(tmp_path, house.records)
    await started.policies.start()
    with pytest.raises(ServiceUnavailable):
        started.policies.get_snapshot(ANNA.workspace)
    assert sorted(paths(started)) == sorted(paths(house))
    await started.content.delete(ANNA, "post", recursive=True)
    moved = await started.content.replace(ANNA, "site/blog/page", {"parent": "site/journal"})
    assert (moved.node.path, started.policies.error) == ("site/journal/page", None)
    assert "site/journal/page" in started.snapshot.tree.nodes
