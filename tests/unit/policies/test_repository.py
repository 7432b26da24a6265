"""The policies of several workspaces: files that all share, and what each has stored."""

import asyncio
import gc
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from gateway.domain.record import Author, FeedPosition, RecordBatch, RecordKey, RecordWrite
from gateway.errors import Faults, ServiceUnavailable, StoreError, VersionConflict
from gateway.policies import collection, repository
from gateway.policies.context_compiler import PolicySource
from gateway.policies.generation import WorkspaceBuild
from gateway.policies.repository import PolicyRepository
from gateway.resources.registry import load_registry
from gateway.stores.memory_records import MemoryRecordStore
from tests.support.search_harness import wait_until
from tests.support.yaml_texts import to_yaml

AUTHOR = Author("anna", "create")
FILES: dict[str, dict[str, Any]] = {
    "contexts": {"house": {"resources": {"voice": {"type": "text", "data": {"content": "Write plainly."}}}}},
    "profiles": {"writing": {"contexts": ["house"]}},
    "content": {"site": {"id": "root", "children": {"blog": {"contexts": ["house"]}}}},
}


class NoMaterials:
    def __init__(self) -> None:
        self.threads: set[threading.Thread] = set()
        self.copies: dict[str, str] = {}

    def file(self, path: Path) -> str:
        self.threads.add(threading.current_thread())
        return path.read_text()

    def link(self, url: str) -> str | None:
        return self.copies.get(url)


class UnreliableRecords(MemoryRecordStore):
    """Records that can be made unreachable."""

    def __init__(self) -> None:
        super().__init__()
        self.down = False

    async def load(self) -> RecordBatch:
        self._check()
        return await super().load()

    async def read_changes(self, since: FeedPosition) -> RecordBatch | None:
        self._check()
        return await super().read_changes(since)

    def _check(self) -> None:
        if self.down:
            raise StoreError("The store does not answer.")


class House:
    """One store and the files of a directory, seen by any number of replicas."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.store = UnreliableRecords()
        self.materials = NoMaterials()
        self.now = 1_000.0
        self.write(FILES)

    def write(self, policies: dict[str, Any]) -> None:
        (self.directory / "all.yaml").write_text(to_yaml(policies))

    def replica(self, **options: Any) -> PolicyRepository:
        source = PolicySource(self.directory, load_registry(), self.materials)
        return PolicyRepository(source, self.store, clock=lambda: self.now, **options)

    async def start(self) -> PolicyRepository:
        policies = self.replica()
        await policies.start()
        return policies


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    yield House(tmp_path)
    gc.unfreeze()


def write(kind: str, alias: str, data: Any, workspace: str = "default", expected: int | None = None) -> RecordWrite:
    return RecordWrite(RecordKey(workspace, kind, alias), None if data is None else orjson.dumps(data), expected)


def text(content: str, **more: Any) -> dict[str, Any]:
    return {"resources": {"one": {"type": "text", "data": {"content": content}, **more}}}


async def test_a_workspace_without_records_has_what_the_files_say(house: House) -> None:
    policies = await house.start()
    assert policies.generation == 1
    assert policies.get_snapshot("anyone") is policies.current
    assert list(policies.current.contexts) == ["house"]


async def test_what_is_stored_belongs_to_its_workspace_alone(house: House) -> None:
    policies = await house.start()
    await policies.commit([write("contexts", "seo", text("Use keywords."), "acme")], AUTHOR)
    assert list(policies.get_snapshot("acme").contexts) == ["house", "seo"]
    assert policies.get_snapshot("acme").resources["seo/one"].text == "Use keywords."
    assert list(policies.get_snapshot("default").contexts) == ["house"]
    assert policies.get_snapshot("acme").hash != policies.get_snapshot("default").hash


async def test_files_and_a_store_that_say_the_same_have_the_same_hash(house: House) -> None:
    policies = await house.start()
    before = policies.current.hash
    house.write({})
    await policies.reload()
    assert policies.current.hash != before
    site = {"key": "site", "parent": None}
    blog = {"key": "blog", "parent": "root", "contexts": ["house"]}
    await policies.commit(
        [
            write("contexts", "house", FILES["contexts"]["house"]),
            write("profiles", "writing", FILES["profiles"]["writing"]),
            write("content", "site/blog", blog),
            write("content", "root", site),
        ],
        AUTHOR,
    )
    assert policies.error is None
    assert policies.current.hash == before


async def test_another_replica_reads_what_was_changed(house: House) -> None:
    here, there = await house.start(), await house.start()
    await here.commit([write("contexts", "seo", text("First."))], AUTHOR)
    await there.refresh()
    assert there.current.hash == here.current.hash
    await here.commit([write("contexts", "seo", None)], AUTHOR)
    await there.refresh()
    assert "seo" not in there.current.contexts


async def test_a_request_keeps_the_snapshot_that_it_took(house: House) -> None:
    policies = await house.start()
    taken = policies.get_snapshot("default")
    await policies.commit([write("contexts", "seo", text("New."))], AUTHOR)
    assert "seo" not in taken.contexts
    assert policies.get_snapshot("default") is not taken


async def test_only_what_changed_is_compiled_again(house: House) -> None:
    policies = await house.start()
    await policies.commit([write("contexts", "a", text("A.")), write("contexts", "b", text("B."))], AUTHOR)
    before = policies.current
    await policies.commit([write("contexts", "a", text("Other."))], AUTHOR)
    assert policies.current.contexts["b"] is before.contexts["b"]
    assert policies.current.contexts["house"] is before.contexts["house"]
    assert policies.current.contexts["a"] is not before.contexts["a"]


async def test_resources_carry_the_version_of_their_context(house: House) -> None:
    policies = await house.start()
    for content in ("One.", "Two."):
        await policies.commit([write("contexts", "seo", text(content))], AUTHOR)
    assert policies.current.resources["seo/one"].version == 2
    assert policies.current.resources["house/voice"].version == 1


async def test_an_alias_that_a_file_takes_is_the_files(house: House) -> None:
    policies = await house.start()
    await policies.commit([write("contexts", "seo", text("Stored."))], AUTHOR)
    house.write({**FILES, "contexts": {**FILES["contexts"], "seo": text("Written.")}})
    assert await policies.reload()
    assert policies.current.resources["seo/one"].text == "Written."
    assert policies.entries("default")["contexts"]["seo"].record is None


async def test_a_trial_tells_faults_by_kind_alias_and_path_and_changes_nothing(house: House) -> None:
    policies = await house.start()
    wrong = {"resources": {"one": {"type": "text", "mode": "sometimes", "data": {"content": "x"}}}}
    with pytest.raises(Faults) as caught:
        policies.trial("default", {("contexts", "seo"): wrong, ("agents", "a"): {"contexts": ["nothing"]}})
    places = {(fault.file, fault.keys) for fault in caught.value.faults}
    assert places == {("contexts/seo", ("resources", "one", "mode")), ("agents/a", ("contexts", 0))}
    assert policies.generation == 1


async def test_a_trial_that_leaves_a_reference_dangling_names_who_refers(house: House) -> None:
    policies = await house.start()
    await policies.commit([write("contexts", "seo", text("x")), write("agents", "a", {"contexts": ["seo"]})], AUTHOR)
    with pytest.raises(Faults) as caught:
        policies.trial("default", {("contexts", "seo"): None})
    assert [fault.file for fault in caught.value.faults] == ["agents/a"]


async def test_a_stored_document_cannot_name_a_file_of_the_server(house: House) -> None:
    (house.directory / "secret.txt").write_text("server's own")
    policies = await house.start()
    with pytest.raises(Faults, match="only policy files can name a path"):
        policies.trial(
            "default",
            {("contexts", "x"): {"resources": {"d": {"type": "document", "data": {"path": "secret.txt"}}}}},
        )


async def test_a_change_of_the_files_that_breaks_one_workspace_leaves_the_others_alone(house: House) -> None:
    policies = await house.start()
    await policies.commit([write("agents", "a", {"contexts": ["house"]}, "acme")], AUTHOR)
    before = policies.get_snapshot("acme")
    house.write({"contexts": {"other": text("x")}})
    assert await policies.reload()
    assert list(policies.get_snapshot("default").contexts) == ["other"]
    assert policies.get_snapshot("acme") is before
    assert policies.error is not None
    assert "acme" in policies.error
    house.write(FILES)
    assert await policies.reload()
    assert policies.error is None


async def test_a_workspace_that_is_faulty_from_the_start_is_refused_alone(house: House) -> None:
    await house.store.commit([write("agents", "a", {"contexts": ["gone"]}, "acme")], AUTHOR)
    policies = await house.start()
    assert list(policies.get_snapshot("default").contexts) == ["house"]
    with pytest.raises(ServiceUnavailable):
        policies.get_snapshot("acme")


async def test_a_faulty_file_keeps_the_old_set_until_it_is_fixed(house: House) -> None:
    policies = await house.start()
    before = policies.current
    house.write({"agents": {"x": {"contexts": ["nothing"]}}})
    assert not await policies.reload()
    assert policies.current is before
    assert policies.error is not None
    assert "agents.x.contexts.0" in policies.error
    house.write(FILES)
    assert await policies.reload()
    assert policies.error is None


async def test_faulty_files_at_start_are_not_swallowed(house: House) -> None:
    house.write({"agents": {"x": {"contexts": ["nothing"]}}})
    with pytest.raises(Faults):
        await house.start()


async def test_until_the_store_has_answered_once_nobody_is_answered(house: House) -> None:
    house.store.down = True
    policies = await house.start()
    assert not policies.loaded
    with pytest.raises(ServiceUnavailable):
        policies.get_snapshot("default")
    house.store.down = False
    await policies.refresh()
    assert policies.loaded
    assert policies.get_snapshot("default").contexts


async def test_an_outage_later_keeps_the_policies_and_is_told(house: House) -> None:
    policies = await house.start()
    contact = policies.contact
    house.store.down = True
    with pytest.raises(StoreError):
        await policies.refresh()
    assert policies.store_error == "The store does not answer."
    assert (policies.contact, policies.get_snapshot("default").generation) == (contact, 1)
    house.store.down = False
    await policies.refresh()
    assert policies.store_error is None
    assert policies.contact > contact


async def test_a_store_that_was_emptied_gets_back_what_a_replica_has(house: House) -> None:
    policies = await house.start()
    await policies.commit([write("contexts", "seo", text("Kept.")), write("keys", "key-1", {"name": "k"})], AUTHOR)
    before = policies.current.hash
    policies._store = emptied = MemoryRecordStore()
    await policies.refresh()
    assert policies.current.hash == before
    restored = (await emptied.load()).records
    assert {record.key.kind for record in restored} == {"contexts", "keys"}
    assert {record.action for record in restored} == {"restore"}


async def test_a_store_that_lost_some_gets_it_back_and_what_was_deleted_stays_so(house: House) -> None:
    policies, other = await house.start(), MemoryRecordStore()
    await policies.commit([write("contexts", name, text(name)) for name in ("kept", "gone", "lost")], AUTHOR)
    await other.commit([write("contexts", "kept", text("Newer.")), write("contexts", "gone", text("x"))], AUTHOR)
    await other.commit([write("contexts", "gone", None)], AUTHOR)
    policies._store = other
    await policies.refresh()
    assert {record.key.alias for record in (await other.load()).records} == {"kept", "lost"}
    assert set(policies.current.contexts) == {"house", "kept", "lost"}
    assert policies.current.resources["kept/one"].text == "Newer."


async def test_several_replicas_write_back_at_the_same_time(house: House) -> None:
    replicas = [await house.start() for _ in range(4)]
    await replicas[0].commit([write("contexts", "kept", text("x"))], AUTHOR)
    for replica in replicas:
        await replica.refresh()
    emptied = MemoryRecordStore()
    for replica in replicas:
        replica._store = emptied
    await asyncio.gather(*(replica.refresh() for replica in replicas))
    assert len({replica.current.hash for replica in replicas}) == 1
    assert "kept" in replicas[0].current.contexts


async def test_what_is_valid_for_some_time_comes_and_goes_by_itself(house: House) -> None:
    policies = await house.start()
    sale = text("Sale!", valid_from="1970-01-01T00:18:20Z", valid_until="1970-01-01T00:20:00Z")  # seconds 1100 to 1200
    await policies.commit([write("contexts", "sale", sale)], AUTHOR)
    assert policies.current.valid_until == 1100
    seen = []
    following = asyncio.create_task(policies.follow(0.001))
    for house.now in (1_050.0, 1_100.0, 1_199.0, 1_200.0):
        await asyncio.sleep(0.1)
        seen.append("sale/one" in policies.current.resources)
    following.cancel()
    assert seen == [False, True, True, False]
    assert policies.current.valid_until is None


async def test_a_context_that_is_not_valid_now_counts_as_not_assigned(house: House) -> None:
    policies = await house.start()
    late = {**text("x"), "valid_from": "2030-01-01"}
    await policies.commit([write("contexts", "late", late), write("agents", "a", {"contexts": ["late"]})], AUTHOR)
    assert policies.error is None
    assert "late" not in policies.current.contexts


@pytest.mark.parametrize("until", ["1970-01-01T00:00:00Z", "soon", "2026-13-01", "2026-01-01T00:00:00"])
async def test_a_validity_that_never_holds_or_cannot_be_read_is_a_fault(house: House, until: str) -> None:
    policies = await house.start()
    with pytest.raises(Faults):
        policies.trial("default", {("contexts", "x"): text("x", valid_from="2026-01-01", valid_until=until)})


async def test_links_are_told_with_whoever_uses_them(house: House) -> None:
    policies = await house.start()
    link = {"resources": {"page": {"type": "external-link", "data": {"url": "https://example.com/a"}}}}
    await policies.commit([write("contexts", "web", link, "acme"), write("contexts", "web", link)], AUTHOR)
    (uses,) = policies.links().values()
    assert sorted(use[:2] for use in uses) == [("acme", "web/page"), ("default", "web/page")]
    assert policies.get_snapshot("acme").resources["web/page"].text is None
    house.materials.copies["https://example.com/a"] = "The page."
    await policies.reload()
    assert policies.get_snapshot("acme").resources["web/page"].text == "The page."


async def test_nodes_hang_below_nodes_of_files_and_move_with_their_parents(house: House) -> None:
    policies = await house.start()
    post, draft = {"key": "post", "parent": "site/blog"}, {"parent": "p1", "key": "draft"}
    await policies.commit([write("content", "p2", draft), write("content", "p1", post)], AUTHOR)
    assert policies.current.tree.ids["p2"] == "site/blog/post/draft"
    await policies.commit([write("content", "p1", {"key": "moved", "parent": "root"})], AUTHOR)
    assert policies.current.tree.ids["p2"] == "site/moved/draft"


@pytest.mark.parametrize(
    ("nodes", "told"),
    [
        ({"a": {"parent": "b"}, "b": {"parent": "a"}}, "its own ancestor"),
        ({"a": {"parent": "nowhere"}}, "there is no node with the id 'nowhere'"),
        ({"a": {"key": "blog", "parent": "root"}}, "the node 'site/blog' already exists"),
        ({"a": {"key": "A b"}}, "a node's key is"),
        ({"site": {"key": "other"}}, "is the path of another node"),
    ],
)
async def test_a_tree_that_cannot_be_is_a_fault(house: House, nodes: dict[str, Any], told: str) -> None:
    policies = await house.start()
    with pytest.raises(Faults, match=told):
        policies.trial("default", {("content", name): data for name, data in nodes.items()})


async def test_a_conflict_is_passed_on_and_changes_nothing(house: House) -> None:
    policies = await house.start()
    await policies.commit([write("contexts", "seo", text("x"), expected=0)], AUTHOR)
    with pytest.raises(VersionConflict):
        await policies.commit([write("contexts", "seo", text("y"), expected=0)], AUTHOR)
    assert policies.current.resources["seo/one"].text == "x"


async def test_watchers_hear_of_every_swap_before_its_cause_goes_on(house: House) -> None:
    policies = await house.start()
    heard: list[int] = []
    policies.watch(lambda: heard.append(policies.generation))
    await policies.commit([write("contexts", "seo", text("x"))], AUTHOR)
    await policies.reload()
    assert heard == [2, 3, 4]  # the files serve at once, the workspace as soon as it is compiled with them


async def test_mandatory_contexts_keep_the_order_in_which_they_were_made(house: House) -> None:
    policies = await house.start()
    names = ["zebra", "apple", "mango"]
    await policies.commit([write("contexts", name, {**text("x"), "mandatory": True}) for name in names], AUTHOR)
    there = await house.start()
    assert policies.current.mandatory == there.current.mandatory == ("zebra", "apple", "mango")


async def test_a_swap_takes_the_snapshot_out_of_the_garbage_collectors_way(house: House) -> None:
    policies = await house.start()
    await policies.reload()
    assert not any(one is policies.current for one in gc.get_objects())


async def test_compiling_happens_off_the_loop(house: House) -> None:
    (house.directory / "guide.txt").write_text("Guide.")
    guide = {"resources": {"guide": {"type": "document", "data": {"path": "guide.txt"}}}}
    house.write({"contexts": {"g": guide}})
    policies = await house.start()
    await policies.reload()
    assert threading.main_thread() not in house.materials.threads


async def test_frozen_garbage_is_collected_after_some_swaps(house: House) -> None:
    class Ring:
        """Refers to itself, so that only the collector can end it."""

        def __init__(self) -> None:
            self.own = self

    policies = house.replica(full_collection_swaps=4)
    await policies.start()
    ring = Ring()
    gone = weakref.ref(ring)
    await policies.reload()  # freezes it while it lives
    del ring
    gc.collect()
    assert gone() is not None, "the collector does not examine frozen objects"
    await policies.reload()
    await policies.reload()
    assert policies.generation == 4
    assert gone() is None


async def test_changes_of_workspaces_stop_the_loop_once_for_the_garbage_of_all(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    frozen: list[bool] = []
    monkeypatch.setattr(collection, "freeze_gc", lambda *, full: frozen.append(full))
    monkeypatch.setattr(collection, "FREEZE_SECONDS", 1.0)
    policies = await house.start()
    frozen.clear()
    for number in range(3):
        await policies.commit([write("contexts", f"c{number}", text("One."))], AUTHOR)
    assert frozen == []
    await wait_until(lambda: bool(frozen))
    assert frozen == [False]
    await policies.commit([write("contexts", "last", text("One."))], AUTHOR)
    await policies.close()
    await asyncio.sleep(1.1)
    assert frozen == [False]  # nothing is left behind


async def test_a_moment_that_passed_for_faulty_policies_is_not_worked_on_again_and_again(house: House) -> None:
    policies = await house.start()
    sale = text("Sale!", valid_until="1970-01-01T00:20:00Z")  # second 1200
    await policies.commit([write("contexts", "sale", sale), write("agents", "a", {"contexts": ["house"]})], AUTHOR)
    house.write({})  # the agent's context is gone: the workspace keeps what it has
    assert await policies.reload()
    house.now = 1_300.0
    before = policies.generation
    following = asyncio.create_task(policies.follow(0.001))
    await asyncio.sleep(0.1)
    following.cancel()
    assert policies.generation - before <= 1


async def test_records_are_listed_by_kind_over_all_workspaces(house: House) -> None:
    policies = await house.start()
    await policies.commit(
        [
            write("contexts", "a", text("x"), "acme"),
            write("keys", "key-1", {"name": "k"}),
            write("contexts", "b", text("x")),
        ],
        AUTHOR,
    )
    await policies.commit([write("contexts", "a", text("y"), "acme"), write("keys", "key-1", None)], AUTHOR)
    assert [(record.key.alias, record.version) for record in policies.list_records("contexts")] == [("a", 2), ("b", 1)]
    assert list(policies.list_records("keys")) == []
    assert list(policies.list_records("draft:contexts")) == []


class SlowMaterials(NoMaterials):
    """Links of `slow.example` take until they are told to go on."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = threading.Event()

    def link(self, url: str) -> str | None:
        if "slow.example" in url:
            self.go_on.wait(20)
        return super().link(url)


def link(url: str) -> dict[str, Any]:
    return {"resources": {"page": {"type": "external-link", "mode": "on_demand", "data": {"url": url}}}}


async def test_a_slow_compilation_of_one_workspace_delays_neither_others_nor_the_files(house: House) -> None:
    house.materials = slow = SlowMaterials()
    policies = await house.start()
    following = asyncio.create_task(policies.follow(0.01))
    stuck = asyncio.create_task(
        policies.commit([write("contexts", "seo", link("https://slow.example/"), "hostile")], AUTHOR)
    )
    try:
        await asyncio.sleep(0.05)
        async with asyncio.timeout(10):
            await policies.commit([write("contexts", "seo", text("x"), "honest")], AUTHOR)
            house.write(FILES | {"agents": {"writer": {"contexts": ["house"]}}})
            assert await policies.reload(wait=False)
        assert "seo" in policies.get_snapshot("honest").contexts
        assert "writer" in policies.current.agents
        assert "seo" not in policies.get_snapshot("hostile").contexts
        assert not stuck.done()
    finally:
        slow.go_on.set()
    await asyncio.wait_for(stuck, 10)
    assert "seo" in policies.get_snapshot("hostile").contexts
    assert "writer" in policies.get_snapshot("hostile").agents
    following.cancel()
    await policies.close()


async def test_a_key_or_a_draft_or_an_unused_document_leaves_the_snapshot_and_what_it_remembers(house: House) -> None:
    policies = await house.start()
    used = write("documents", "a" * 64, {"name": "a", "media_type": "text/plain", "size": 1, "text": "A"})
    context = {"resources": {"one": {"type": "document", "mode": "on_demand", "data": {"sha256": "a" * 64}}}}
    await policies.commit([used, write("contexts", "seo", context)], AUTHOR)
    before = policies.get_snapshot("default")
    heard: list[str] = []
    policies.watch(lambda: heard.append("policies"))
    policies.watch_records(lambda: heard.append("records"))
    await policies.commit([write("keys", "key-1", {"sha256": "0" * 64})], AUTHOR)
    await policies.commit([write("draft:contexts", "seo", text("draft"))], AUTHOR)
    other = {"name": "b", "media_type": "text/plain", "size": 1, "text": "B"}
    await policies.commit([write("documents", "b" * 64, other)], AUTHOR)
    assert policies.get_snapshot("default") is before
    assert heard == ["records"] * 3
    assert set(policies.entries("default")["documents"]) == {"a" * 64, "b" * 64}
    assert [record.key.alias for record in policies.list_records("keys")] == ["key-1"]
    changed = {"name": "a", "media_type": "text/plain", "size": 1, "text": "changed"}
    await policies.commit([write("documents", "a" * 64, changed)], AUTHOR)
    assert policies.get_snapshot("default").resources["seo/one"].text == "changed"


async def test_a_moment_or_a_page_of_one_workspace_changes_no_other_snapshot(house: House) -> None:
    policies = await house.start()
    until = {**text("soon gone"), "valid_until": "1970-01-01T00:20:00Z"}
    await policies.commit([write("contexts", "seo", until, "a"), write("contexts", "seo", text("x"), "b")], AUTHOR)
    await policies.commit([write("contexts", "page", link("https://a.example/"), "a")], AUTHOR)
    others = policies.get_snapshot("b"), policies.current
    following = asyncio.create_task(policies.follow(0.01))
    house.now = 1300.0
    await wait_until(lambda: "seo/one" not in policies.get_snapshot("a").resources)
    house.materials.copies["https://a.example/"] = "The page."
    await policies.update_links({"https://a.example/"}, "a")
    assert policies.get_snapshot("a").resources["page/page"].text is not None
    assert (policies.get_snapshot("b"), policies.current) == others
    assert policies.get_snapshot("b") is others[0]
    following.cancel()


async def test_a_workspace_that_takes_long_to_compile_at_the_start_is_refused_alone(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repository, "START_PATIENCE", 0.1)
    first = await house.start()
    await first.commit([write("contexts", "seo", link("https://slow.example/"), "hostile")], AUTHOR)
    await first.commit([write("contexts", "seo", text("x"), "honest")], AUTHOR)
    house.materials = slow = SlowMaterials()
    policies = await house.start()
    try:
        assert policies.loaded
        assert "seo" in policies.get_snapshot("honest").contexts
        with pytest.raises(ServiceUnavailable):
            policies.get_snapshot("hostile")
    finally:
        slow.go_on.set()
    await policies.refresh()
    assert "seo" in policies.get_snapshot("hostile").contexts


async def test_what_nobody_foresaw_in_a_compilation_is_recorded_on_its_workspace(house: House) -> None:
    def fail(*_: Any) -> WorkspaceBuild:
        raise LookupError("unforeseen")

    policies = await house.start()
    policies._builder.build = fail  # type: ignore[method-assign, assignment]
    await policies.commit([write("contexts", "seo", text("x"), "hostile")], AUTHOR)
    assert "unforeseen" in str(policies.error)
    with pytest.raises(ServiceUnavailable):
        policies.get_snapshot("hostile")
    assert policies.get_snapshot("honest") is policies.current
