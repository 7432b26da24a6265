"""Adoption: a stored object takes over from a file's, nothing changes upstream, and it can be given back."""

from pathlib import Path
from typing import Any

import pytest

from gateway.control.adoption import Adoption
from gateway.control.objects import Objects
from gateway.control.writer import PolicyWriter
from gateway.domain.principal import Principal, Role
from gateway.errors import Conflict, Forbidden, InvalidObject, NotFound
from gateway.stores.memory_ephemeral import MemoryEphemeralStore
from tests.support.control_plane import ANNA, ControlPlane, write

ROOT = Principal("root", role=Role.ADMIN)
FILES: dict[str, Any] = {
    "contexts": {
        "rules": {"mandatory": True, "resources": {"law": {"type": "text", "data": {"content": "Obey."}}}},
        "house": {
            "default": True,
            "resources": {
                "voice": {"type": "text", "data": {"content": "Plainly."}},
                "guide": {"type": "document", "mode": "on_demand", "data": {"path": "guide.md"}},
            },
        },
        "later": {"resources": {"strict": {"type": "text", "mandatory": True, "data": {"content": "Now."}}}},
    },
    "profiles": {"writing": {"contexts": ["house"], "budget": 3000}},
    "agents": {"editor": {"profile": "writing"}},
    "prompts": {"teaser": {"template": "Tease {content}"}},
    "content": {"site": {"contexts": ["house"], "children": {"blog": {"children": {"post": {"id": "7"}}}}}},
}
ALL = {
    *(("contexts", "house"), ("profiles", "writing"), ("agents", "editor"), ("prompts", "teaser")),
    *(("content", "site"), ("content", "site/blog"), ("content", "7")),
}


class Plane(ControlPlane):
    """The control plane with what adopts."""

    @property
    def adoption(self) -> Adoption:
        return Adoption(self.policies, PolicyWriter(self.policies, MemoryEphemeralStore()), self.documents)

    @property
    def objects(self) -> Objects:
        return Objects(self.policies, PolicyWriter(self.policies, MemoryEphemeralStore()))


@pytest.fixture
async def plane(tmp_path: Path) -> Plane:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "guide.md").write_text("Be brief.")
    made = await Plane.start(tmp_path / "files", FILES)
    assert isinstance(made, Plane)
    return made


@pytest.mark.parametrize("name", sorted(ALL))
async def test_one_object_is_adopted_and_the_snapshot_stays(plane: Plane, name: tuple[str, str]) -> None:
    before = plane.snapshot.hash
    (step,) = await plane.adoption.adopt(ROOT, {name})
    assert (step.action, step.file is not None, plane.snapshot.hash) == ("adopt", True, before)
    entry = plane.policies.entries("default")[name[0]][name[1]]
    assert entry.record is not None
    assert plane.policies.list_adopted("default") == {name}


async def test_all_are_adopted_but_what_is_mandatory(plane: Plane) -> None:
    before = plane.snapshot
    steps = await plane.adoption.adopt(ROOT, None)
    assert {(one.kind, one.alias) for one in steps if one.action == "adopt"} == ALL
    assert [one.alias for one in steps if one.reason] == ["rules", "later"]
    assert plane.snapshot.hash == before.hash
    assert list(plane.snapshot.contexts) == list(before.contexts)
    assert plane.snapshot.resources["house/guide"].text == "Be brief."
    again = await plane.adoption.adopt(ROOT, None)
    assert [one.action for one in again] == ["unchanged", "unchanged"]


async def test_what_is_adopted_can_be_changed_and_names_the_entry_that_it_shadows(plane: Plane) -> None:
    await plane.adoption.adopt(ROOT, {("contexts", "house")})
    body = {"name": "Home", "resources": {"voice": {"type": "text", "data": {"content": "Loudly."}}}}
    changed = (await plane.objects.save(ANNA, "contexts", "house", body)).object
    assert (changed.version, changed.shadows) == (2, "files.yaml:9")
    assert plane.snapshot.resources["house/voice"].text == "Loudly."


async def test_what_is_adopted_outlives_its_file(plane: Plane, tmp_path: Path) -> None:
    await plane.adoption.adopt(ROOT, {("prompts", "teaser")})
    write(tmp_path / "files", FILES | {"prompts": {}})
    assert await plane.policies.reload()
    assert "teaser" in plane.snapshot.prompts
    assert plane.objects.get("default", "prompts", "teaser").shadows is None


async def test_a_release_gives_it_back_and_tells_what_that_changes(plane: Plane) -> None:
    before = plane.snapshot.hash
    await plane.adoption.adopt(ROOT, {("agents", "editor"), ("profiles", "writing")})
    await plane.objects.save(ANNA, "agents", "editor", {"profile": "writing", "instructions": "Hurry."})
    tried = await plane.adoption.release(ROOT, {("agents", "editor")}, dry_run=True)
    assert [one["pointer"] for one in tried[0].changes] == ["/instructions"]
    assert plane.snapshot.agents["editor"].instructions == "Hurry."
    steps = await plane.adoption.release(ROOT, None)
    assert [(one.kind, one.action) for one in steps] == [("profiles", "release"), ("agents", "release")]
    assert (plane.snapshot.hash, plane.policies.list_adopted("default")) == (before, frozenset())
    assert plane.policies.entries("default")["agents"]["editor"].record is None
    await plane.adoption.adopt(ROOT, {("agents", "editor")})  # and again, with the versions going on
    assert plane.snapshot.hash == before


async def test_other_workspaces_keep_the_files(plane: Plane) -> None:
    await plane.adoption.adopt(ROOT, {("agents", "editor")})
    await plane.objects.save(ANNA, "agents", "editor", {"instructions": "Hurry."})
    assert plane.policies.get_snapshot("other").agents["editor"].instructions != "Hurry."


async def test_what_a_file_makes_mandatory_stays_the_files(plane: Plane, tmp_path: Path) -> None:
    for alias in ("rules", "later"):
        with pytest.raises(Conflict, match="mandatory"):
            await plane.adoption.adopt(ROOT, {("contexts", alias)})
    # … also if that is said after it was adopted.
    await plane.adoption.adopt(ROOT, {("contexts", "house")})
    await plane.objects.save(ANNA, "contexts", "house", {"resources": {}})
    files = FILES | {"contexts": FILES["contexts"] | {"house": FILES["contexts"]["house"] | {"mandatory": True}}}
    write(tmp_path / "files", files)
    assert await plane.policies.reload()
    assert plane.snapshot.resources["house/voice"].text == "Plainly."


async def test_unknown_and_stored_names_are_told_apart(plane: Plane) -> None:
    with pytest.raises(NotFound):
        await plane.adoption.adopt(ROOT, {("agents", "nobody")})
    with pytest.raises(NotFound, match="not adopted"):
        await plane.adoption.release(ROOT, {("agents", "editor")})
    await plane.objects.create(ANNA, "agents", {"alias": "mine"})
    (step,) = await plane.adoption.adopt(ROOT, {("agents", "mine")})
    assert step.action == "unchanged"


async def test_an_adopted_object_is_released_and_not_deleted(plane: Plane) -> None:
    await plane.adoption.adopt(ROOT, {("prompts", "teaser")})
    with pytest.raises(Conflict, match="release"):
        await plane.objects.delete(ANNA, "prompts", "teaser")


async def test_an_adopted_node_has_its_contexts_changed_and_stays_where_it_is(plane: Plane) -> None:
    await plane.adoption.adopt(ROOT, {("content", "site/blog")})
    await plane.content.assign(ANNA, "site/blog", ["house"], "merge")
    node = plane.snapshot.tree.nodes["site/blog"]
    assert (node.contexts, node.merge, list(plane.snapshot.tree.nodes)) == (
        ("house",),
        True,
        ["site", "site/blog", "site/blog/post"],
    )
    with pytest.raises(InvalidObject, match="Validation"):
        await plane.content.replace(ANNA, "site/blog", {"key": "log"})


async def test_where_it_is_switched_off_nothing_is_adopted(plane: Plane) -> None:
    writer = PolicyWriter(plane.policies, MemoryEphemeralStore())
    with pytest.raises(Forbidden, match="adopt: false"):
        await Adoption(plane.policies, writer, plane.documents, allowed=False).adopt(ROOT, None)


async def test_a_file_still_wins_over_what_was_stored_before_it(plane: Plane, tmp_path: Path) -> None:
    await plane.objects.create(ANNA, "agents", {"alias": "mine", "instructions": "Stored."})
    write(tmp_path / "files", FILES | {"agents": FILES["agents"] | {"mine": {"instructions": "File."}}})
    assert await plane.policies.reload()
    assert plane.snapshot.agents["mine"].instructions == "File."
    await plane.adoption.adopt(ROOT, {("agents", "mine")})  # the file's text, over what it had hidden
    assert plane.snapshot.agents["mine"].instructions == "File."


async def test_an_import_adopts_what_it_changes_if_an_admin_imports(plane: Plane) -> None:
    bundle = {"agents": {"editor": {"profile": "writing", "instructions": "Hurry."}, "fresh": {}}}
    with pytest.raises(Forbidden, match="agents/editor"):
        await plane.take(bundle)
    steps = await plane.take(bundle, by=ROOT)
    assert [(one.alias, one.action) for one in steps] == [("editor", "adopt"), ("fresh", "create")]
    assert [one["pointer"] for one in steps[0].changes] == ["/instructions"]
    assert plane.snapshot.agents["editor"].instructions == "Hurry."
    assert plane.policies.list_adopted("default") == {("agents", "editor")}
    replaced = await plane.take({"agents": {"fresh": {}}}, by=ROOT, replace=True)
    assert [one.action for one in replaced if one.alias == "editor"] == ["delete"]
    assert (plane.policies.list_adopted("default"), plane.snapshot.agents["editor"].instructions) == (frozenset(), "")
