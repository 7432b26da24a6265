"""What stored nodes say lives in the store: editing it changes neither the tree nor what was remembered."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import orjson
import pytest
from msgspec.structs import replace
from pydantic import ValidationError

from gateway.content.indexing import index_nodes
from gateway.control.versions import Versions
from gateway.domain.content import Backlink, NodeLink
from gateway.domain.record import Author, RecordKey, RecordWrite
from gateway.edge.manage.content_views import NewNode
from gateway.errors import InvalidObject
from gateway.policies.repository import PolicyRepository
from gateway.policies.shapes import MAX_NODE_NAME, MAX_TITLE, StoredNodeShape
from gateway.stores.memory_records import MemoryRecordStore
from tests.support.control_plane import ANNA, ControlPlane

FILES = {"contexts": {"voice": {}}, "content": {"site": {"id": "root", "contexts": ["voice"]}}}


@pytest.fixture
async def house(tmp_path: Path) -> ControlPlane:
    started = await ControlPlane.start(tmp_path, FILES)
    await started.content.create(ANNA, {"key": "a", "id": "a", "parent": "root", "body": "First", "title": "A"})
    return started


async def test_an_edit_of_a_text_keeps_the_snapshot_and_gives_a_new_version(house: ControlPlane) -> None:
    before, tag = house.snapshot, house.node("a").tag
    said = {
        "title": "A",
        "body": "Second",
        "properties": {"status": "done"},
        "links": [{"to": "site", "type": "cites"}],
    }
    found = await house.content.replace(ANNA, "a", said)
    assert house.snapshot is before
    assert (found.object.version, found.object.tag != tag) == (2, True)
    content = (await house.contents.read("default", ["a"]))["a"]
    assert (content.body, content.properties, content.links) == (
        "Second",
        {"status": "done"},
        (NodeLink("cites", "root"),),
    )
    assert (content.created_by, content.updated_by) == ("anna", "anna")
    assert await house.contents.list_backlinks("default", "root", 10) == [Backlink("cites", "a")]


async def test_an_edit_of_the_structure_makes_another_tree(house: ControlPlane) -> None:
    before = house.snapshot
    await house.content.replace(ANNA, "a", {"title": "A", "body": "First", "order": 5})
    assert house.snapshot.tree is not before.tree
    assert (house.snapshot.hash == before.hash, house.snapshot.tree.nodes["site/a"].order) == (False, 5)


async def test_a_move_takes_the_text_along(house: ControlPlane) -> None:
    await house.content.create(ANNA, {"key": "b", "id": "b", "parent": "a"})
    await house.content.move(ANNA, "a", {"parent": None, "key": "alpha"})
    assert house.snapshot.tree.ids["b"] == "alpha/b"
    assert (await house.contents.read("default", ["a"]))["a"].body == "First"


async def test_a_faulty_text_is_refused_although_the_tree_stays(house: ControlPlane) -> None:
    with pytest.raises(InvalidObject) as caught:
        await house.content.replace(ANNA, "a", {"title": "A", "links": [{"type": "cites"}]})
    assert [fault.pointer for fault in caught.value.faults] == ["/links/0/to"]


async def test_the_audit_and_the_versions_hold_whole_texts(house: ControlPlane) -> None:
    await house.content.replace(ANNA, "a", {"title": "A", "body": "Second"})
    versions = Versions(house.content, house.records, house.writer)
    changes = await versions.compare("default", "a", (1, 2))
    assert changes == [{"pointer": "/body", "from": "First", "to": "Second"}]
    await versions.rollback(ANNA, "a", 1)
    assert (await house.contents.read("default", ["a"]))["a"].body == "First"
    audit = await house.records.list_versions(RecordKey("default", "content", "a"), 0, 10)
    assert audit.total == 3


async def test_nodes_that_an_earlier_release_stored_are_served_and_indexed(tmp_path: Path) -> None:
    records = MemoryRecordStore()
    body = orjson.dumps({"key": "old", "parent": None, "body": "Old text", "links": ["new"]})
    await records.commit([RecordWrite(RecordKey("default", "content", "old"), body)], Author("ada", "create"))
    (tmp_path / "p").mkdir()
    house = ControlPlane(tmp_path / "p", records)
    await house.policies.start()
    await house.content.create(ANNA, {"key": "new", "id": "new"})
    assert (await house.contents.read("default", ["old"]))["old"].body == "Old text"
    assert await house.contents.list_backlinks("default", "new", 10) == []
    assert await index_nodes(house.policies, house.store) == 1
    assert await house.contents.list_backlinks("default", "new", 10) == [Backlink("link", "old")]
    loaded = {record.key.alias: record for record in (await records.load()).records}
    assert loaded["old"].body == orjson.dumps({"key": "old", "parent": None})


async def test_another_replica_reads_the_new_text(house: ControlPlane, tmp_path: Path) -> None:
    other = ControlPlane(tmp_path, house.records)
    await other.policies.start()
    before = other.snapshot
    await house.content.replace(ANNA, "a", {"title": "A", "body": "Second"})
    await other.policies.refresh("default")
    assert (other.snapshot is before, other.node("a").version) == (True, 2)
    assert (await other.contents.read("default", ["a"]))["a"].body == "Second"


async def test_siblings_stand_in_the_order_of_their_creation_after_a_restart(
    house: ControlPlane, tmp_path: Path
) -> None:
    for key in ("z", "m", "b"):
        await house.content.create(ANNA, {"key": key, "id": key, "parent": "root"})
    await house.content.replace(ANNA, "a", {"title": "A", "body": "Second"})  # the last change, not the last node
    again: PolicyRepository = ControlPlane(tmp_path, house.records).policies
    await again.start()
    for policies in (house.policies, again):
        tree = policies.get_snapshot("default").tree
        assert [one.id for one in tree.list_children(tree.nodes["site"])] == ["a", "z", "m", "b"]


async def test_the_quota_counts_whole_texts(house: ControlPlane) -> None:
    def used() -> int:
        return next(one.used for one in house.policies.list_quotas("default") if one.name == "record_bytes")

    before = used()
    await house.content.replace(ANNA, "a", {"title": "A", "body": "x" * 1000})
    assert used() - before == 1000 - len("First")


async def test_an_edit_is_noted_for_the_editor(house: ControlPlane) -> None:
    await house.content.replace(replace(ANNA, name="eva"), "a", {"title": "A", "body": "Second"})
    assert [(one.node, one.kind) for one in await house.contents.list_activity("default", "key:eva", 0, 9)] == [
        ("a", "edit")
    ]


@pytest.mark.parametrize("shape", [StoredNodeShape, partial(NewNode, key="a")])
def test_names_that_stand_beside_many_nodes_are_bounded(shape: Callable[..., object]) -> None:
    """The title of a node is told with every node below it, and its id and type in lists."""
    shape(title="t" * MAX_TITLE, type="t" * MAX_NODE_NAME, id="i" * MAX_NODE_NAME)
    for name, most in (("title", MAX_TITLE), ("type", MAX_NODE_NAME), ("id", MAX_NODE_NAME)):
        with pytest.raises(ValidationError):
            shape(**{name: "t" * (most + 1)})
