"""What nodes say is looked up by id; links lead to ids, backlinks come back, views are remembered."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import orjson
from msgspec.structs import replace

from gateway.content.activity import MAX_WAITING, ActivityLog
from gateway.content.reader import WorkspaceContent
from gateway.domain.content import ActivityKind, Backlink, NodeActivity, NodeLink
from gateway.domain.record import Record, RecordKey
from gateway.domain.snapshot import Snapshot
from gateway.errors import StoreError
from gateway.stores.memory_content import MemoryContentStore
from gateway.stores.memory_records import MemoryRecordStore

STORY = """
content:
  story:
    body: Once upon a time.
    properties: {status: draft, words: 4}
    links: [cast/mara, {to: m2, type: mentions}, {to: nowhere, type: cites}]
  cast: {children: {mara: {id: m1, links: [/story]}, milo: {id: m2}}}
"""


@dataclass
class FileNodes:
    """Nodes of policy files only."""

    snapshot: Snapshot

    def get_snapshot(self, workspace: str) -> Snapshot:
        return self.snapshot

    def find_record(self, workspace: str, kind: str, alias: str) -> Record | None:
        return None

    async def read_nodes(self, workspace: str, ids: Sequence[str]) -> dict[str, Record]:
        raise AssertionError("nothing is stored")


def open_content(snapshot: Snapshot) -> WorkspaceContent:
    store = MemoryContentStore(MemoryRecordStore())
    return WorkspaceContent(FileNodes(snapshot), store, ActivityLog(store))


async def test_the_text_properties_and_links_of_a_node_are_read_by_id(policies: Callable[[str], Snapshot]) -> None:
    found = await open_content(policies(STORY)).read("default", ["story", "unknown"])
    assert list(found) == ["story"]
    assert (found["story"].body, found["story"].properties) == ("Once upon a time.", {"status": "draft", "words": 4})
    links = (NodeLink("link", "m1"), NodeLink("mentions", "m2"), NodeLink("cites", "nowhere"))
    assert found["story"].links == links


async def test_backlinks_name_the_nodes_that_link_here(policies: Callable[[str], Snapshot]) -> None:
    content = open_content(policies(STORY))
    assert await content.list_backlinks("default", "m2", 10) == [Backlink("mentions", "story")]
    assert await content.list_backlinks("default", "story", 10) == [Backlink("link", "m1")]
    assert await content.list_backlinks("default", "story", 0) == []


async def test_a_view_is_remembered_once_with_its_last_time() -> None:
    now = [1.0]
    log = ActivityLog(MemoryContentStore(MemoryRecordStore()), clock=lambda: now[0])
    for now[0], node in ((1.0, "a"), (2.0, "b"), (3.0, "a")):
        log.note("default", "ada", node, ActivityKind.VIEW)
    seen = await log.list_recent("default", "ada", 0, 10)
    assert [(one.node, one.at) for one in seen] == [("a", 3.0), ("b", 2.0)]
    assert await log.list_recent("other", "ada", 0, 10) == []
    assert await log.list_recent("default", "bob", 0, 10) == []


@dataclass
class LargeNodes(FileNodes):
    """Nodes with texts of ten megabytes."""

    read: list[str] = field(default_factory=list)

    def find_record(self, workspace: str, kind: str, alias: str) -> Record | None:
        return Record(RecordKey(workspace, kind, alias), alias, 1, b"{}", 0.0, "", "create", 10_000_000)

    async def read_nodes(self, workspace: str, ids: Sequence[str]) -> dict[str, Record]:
        self.read += ids
        body = orjson.dumps({"body": "x" * 300_000})
        return {id: Record(RecordKey(workspace, "content", id), id, 1, body, 0.0, "", "create") for id in ids}


async def test_no_more_is_read_at_once_than_memory_and_loop_can_take(policies: Callable[[str], Snapshot]) -> None:
    ids = [f"n{number}" for number in range(9)]
    snapshot = policies("content: {" + ", ".join(f"{id}: {{}}" for id in ids) + "}")
    nodes = LargeNodes(replace(snapshot, contents={}))
    store = MemoryContentStore(MemoryRecordStore())
    content = WorkspaceContent(nodes, store, ActivityLog(store))
    assert list(await content.read("default", ids)) == nodes.read == ids[:3]
    assert content.count_readable("default", ids[3:]) == 3
    assert len((await content.read("default", ids[8:]))["n8"].body) == 300_000


async def test_a_workspace_that_notes_the_most_loses_its_own_notes_first() -> None:
    log = ActivityLog(MemoryContentStore(MemoryRecordStore()), clock=lambda: 1.0)
    log.note("honest", "ada", "a", ActivityKind.VIEW)
    for number in range(MAX_WAITING + 5):
        log.note("hostile", f"u{number}", "a", ActivityKind.VIEW)
    log.note("hostile", "x" * 10_000, "a", ActivityKind.VIEW)
    assert log.lost == 6
    assert [one.node for one in await log.list_recent("honest", "ada", 0, 10)] == ["a"]


class BrokenContentStore(MemoryContentStore):
    """Does not answer."""

    broken = True

    async def note(self, workspace: str, activities: Sequence[NodeActivity]) -> None:
        if self.broken:
            raise StoreError("down")
        await super().note(workspace, activities)


async def test_what_a_store_does_not_take_is_kept_for_later() -> None:
    store = BrokenContentStore(MemoryRecordStore())
    log = ActivityLog(store, clock=lambda: 1.0)
    log.note("default", "ada", "a", ActivityKind.EDIT)
    try:
        await log.flush()
    except StoreError:
        store.broken = False
    assert [one.node for one in await log.list_recent("default", "ada", 0, 10)] == ["a"]
