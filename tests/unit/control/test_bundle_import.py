"""A bundle is taken over as a whole or not at all, and gives what it was exported from."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.control.bundle_import import ImportOptions
from gateway.control.yaml_writer import format_yaml
from gateway.errors import Conflict, Forbidden, InvalidObject
from gateway.stores.protocols import AuditFilter
from gateway.strict_yaml import parse_yaml
from tests.support.control_plane import ANNA, ControlPlane, actions

SHA = "ab" * 32
BUNDLE: dict[str, Any] = {
    "contexts": {
        "zebra": {"mandatory": True, "resources": {"z": {"type": "text", "data": {"content": "Z"}}}},
        "house": {
            "default": True,
            "resources": {
                "voice": {"type": "text", "data": {"content": "Plainly."}},
                "guide": {"type": "document", "mode": "on_demand", "data": {"sha256": SHA}},
            },
        },
        "also": {"mandatory": True},
    },
    "profiles": {"writing": {"contexts": "house", "budget": 3000}},
    "agents": {"editor": {"profile": "writing", "contexts": ["zebra"]}},
    "prompts": {"teaser": {"template": "Tease {content}"}},
    "content": {
        "site": {
            "id": "root",
            "contexts": ["house"],
            "children": {
                "blog": {"children": {"post": {"id": "7", "title": "Post: one", "body": "Text\n"}}},
                "empty": None,
            },
        }
    },
    "documents": {SHA: {"name": "guide.md", "media_type": "text/markdown", "size": 3, "text": "Be brief."}},
}


def pointers(caught: pytest.ExceptionInfo[InvalidObject]) -> list[str | None]:
    return [fault.pointer for fault in caught.value.faults]


@pytest.fixture
async def empty(tmp_path: Path) -> ControlPlane:
    return await ControlPlane.start(tmp_path / "empty")


async def test_everything_is_created_and_serves(empty: ControlPlane) -> None:
    steps = await empty.take(BUNDLE)
    assert set(actions(steps).values()) == {"create"}
    assert [step.alias for step in steps if step.kind == "content"] == ["root", "site/blog", "site/empty", "7"]
    assert empty.snapshot.resources["house/guide"].text == "Be brief."
    assert empty.snapshot.mandatory == ("zebra", "also")
    assert empty.snapshot.tree.ids["7"] == "site/blog/post"


async def test_the_same_again_changes_nothing(empty: ControlPlane) -> None:
    await empty.take(BUNDLE)
    before = empty.policies.generation
    assert set(actions(await empty.take(BUNDLE)).values()) == {"unchanged"}
    assert set(actions(await empty.take(await empty.exported())).values()) == {"unchanged"}
    assert empty.policies.generation == before


async def test_a_dry_run_tells_the_same_and_changes_nothing(empty: ControlPlane) -> None:
    told = await empty.take(BUNDLE, dry_run=True)
    assert empty.snapshot.contexts == {}
    assert (await empty.records.load()).records == ()
    assert actions(told) == actions(await empty.take(BUNDLE))


async def test_a_change_is_told_field_by_field(empty: ControlPlane) -> None:
    await empty.take(BUNDLE)
    changed = {"agents": {"editor": {"profile": "writing", "contexts": ["zebra", "also"], "temperature": 0.5}}}
    [step] = await empty.take(changed)
    assert step.action == "update"
    assert [(one["pointer"], one["from"], one["to"]) for one in step.changes] == [
        ("/contexts/1", None, "also"),
        ("/temperature", None, 0.5),
    ]
    assert empty.snapshot.agents["editor"].defaults.temperature == 0.5


async def test_an_order_of_resources_is_a_change(empty: ControlPlane) -> None:
    await empty.take(BUNDLE)
    house = BUNDLE["contexts"]["house"]
    turned = house | {"resources": dict(reversed(house["resources"].items()))}
    [step] = await empty.take({"contexts": {"house": turned}})
    assert step.action == "update"
    assert [resource.id for resource in empty.snapshot.contexts["house"].resources] == ["house/guide", "house/voice"]


async def test_merge_keeps_what_the_bundle_lacks_and_replace_deletes_it(empty: ControlPlane) -> None:
    await empty.take(BUNDLE)
    rest = {"contexts": {"house": {}, "zebra": BUNDLE["contexts"]["zebra"]}}
    assert actions(await empty.take(rest)) == {"contexts/house": "update", "contexts/zebra": "unchanged"}
    told = actions(await empty.take(rest, replace=True))
    assert {name for name, action in told.items() if action == "delete"} == {
        *("contexts/also", "profiles/writing", "agents/editor", "prompts/teaser", f"documents/{SHA}"),
        *("content/root", "content/site/blog", "content/site/empty", "content/7"),
    }
    assert empty.snapshot.tree.nodes == {}
    assert list(empty.snapshot.contexts) == ["zebra", "house"]


async def test_one_fault_refuses_all_and_every_fault_is_told_with_its_place(empty: ControlPlane) -> None:
    bundle = {
        "contexts": {"good": {}, "Bad Alias": {}, "typo": {"resources": {"x": {"type": "txt"}}}},
        "agents": {"a": {"contexts": ["good", "missing"], "temperature": 9}},
        "content": {"s": {"children": {"t": {"contexts": ["missing"]}, "U": {}}}},
    }
    with pytest.raises(InvalidObject) as caught:
        await empty.take(bundle)
    assert set(pointers(caught)) == {
        *("/contexts/Bad Alias", "/contexts/typo/resources/x/type", "/agents/a/contexts/1", "/agents/a/temperature"),
        *("/content/s/children/t/contexts/0", "/content/s/children/U"),
    }
    assert (await empty.records.load()).records == ()


@pytest.mark.parametrize(
    ("bundle", "pointer"),
    [
        ([], ""),
        ({"context": {}}, "/context"),
        ({"contexts": []}, "/contexts"),
        ({"contexts": {"a": None}}, "/contexts/a"),
        ({"content": {"a": "text"}}, "/content/a"),
        ({"content": {"a": {"id": 7}}}, "/content/a/id"),
        ({"content": {"a": {"parent": "b"}}}, "/content/a/parent"),
        ({"content": {"a": {"id": "x"}, "b": {"id": "x"}}}, "/content/b/id"),
        ({"documents": {"abc": {"text": "x"}}}, "/documents/abc"),
        ({"documents": {SHA: {"name": "x"}}}, f"/documents/{SHA}/text"),
        ({"contexts": {"a": {"resources": {"d": {"type": "document", "data": {"path": "/etc/passwd"}}}}}}, None),
    ],
)
async def test_what_is_no_bundle_is_refused(empty: ControlPlane, bundle: Any, pointer: str | None) -> None:
    with pytest.raises(InvalidObject) as caught:
        await empty.take(bundle)
    assert pointers(caught) == [pointer if pointer is not None else "/contexts/a/resources/d/data"]


async def test_a_fault_of_yaml_names_the_line(empty: ControlPlane) -> None:
    document = parse_yaml("contexts:\n  a: {}\n  b:\n    nme: x\n", "bundle")
    with pytest.raises(InvalidObject) as caught:
        await empty.importer.run(ANNA, document, ImportOptions())
    assert pointers(caught) == ["/contexts/b/nme"]
    assert "(line 4)" in caught.value.faults[0].message


async def test_what_files_own_may_be_repeated_by_editors_but_not_changed(tmp_path: Path) -> None:
    files = {key: value for key, value in BUNDLE.items() if key != "documents"}
    house = await ControlPlane.start(tmp_path, files | {"documents": BUNDLE["documents"]})
    assert set(actions(await house.take(BUNDLE)).values()) == {"unchanged"}
    with pytest.raises(Forbidden, match=r"agents/editor \(.*files\.yaml:\d+\)"):
        await house.take({"agents": {"editor": {}}, "contexts": {"mine": {}}})
    with pytest.raises(Conflict, match=r"contexts/zebra \(.*files\.yaml:\d+\).* cannot be adopted"):
        await house.take({"contexts": {"zebra": {}}})  # it is mandatory
    assert "mine" not in house.snapshot.contexts
    assert actions(await house.take({"contexts": {"mine": {}}}, replace=True)) == {"contexts/mine": "create"}


async def test_stored_nodes_below_files_are_exported_with_the_nodes_above_them(tmp_path: Path) -> None:
    house = await ControlPlane.start(
        tmp_path, {"content": {"site": {"title": "A site", "children": {"a": {}, "b": {}}}}}
    )
    await house.take(
        {"content": {"site": {"title": "A site", "children": {"a": {"children": {"new": {"body": "N"}}}}}}}
    )
    assert (await house.exported(stored=True)) == {
        "content": {"site": {"title": "A site", "children": {"a": {"children": {"new": {"body": "N"}}}}}}
    }
    assert set(actions(await house.take(await house.exported(stored=True))).values()) == {"unchanged"}


async def test_a_node_without_an_id_is_the_one_that_stands_there(empty: ControlPlane) -> None:
    await empty.take({"content": {"a": {"id": "x", "title": "Old"}}})
    assert actions(await empty.take({"content": {"a": {"title": "New"}}})) == {"content/x": "update"}
    assert actions(await empty.take({"content": {"b": {"id": "x", "title": "New"}}})) == {"content/x": "update"}
    assert empty.snapshot.tree.ids == {"x": "b"}


async def test_an_import_is_one_entry_of_the_history_for_each_object(empty: ControlPlane) -> None:
    await empty.take(BUNDLE)
    lines, total = await empty.records.list_audit("default", AuditFilter(kind="agents"), 0, 10)
    assert total == 1
    assert (lines[0].by, lines[0].action, lines[0].version) == ("anna", "import", 1)


async def test_documents_of_files_are_exported_with_their_text(tmp_path: Path) -> None:
    policies = tmp_path / "policies"
    files = {"contexts": {"a": {"resources": {"d": {"type": "document", "data": {"path": "docs/d.md"}}}}}}
    (policies / "docs").mkdir(parents=True)
    (policies / "docs" / "d.md").write_text("# Guide\n\nBe brief.\n")
    house = await ControlPlane.start(policies, files)
    bundle, before = (await house.exported()), house.snapshot.hash
    [[sha, document]] = bundle["documents"].items()
    assert bundle["contexts"]["a"]["resources"]["d"]["data"] == {"sha256": sha}
    assert document == {"name": "d.md", "media_type": "text/markdown", "size": 19, "text": "# Guide\n\nBe brief.\n"}
    assert set(actions(await house.take(bundle)).values()) == {"unchanged"}
    # Somebody else who uses the same document needs it in the store.
    other = {"contexts": {"b": bundle["contexts"]["a"]}, "documents": bundle["documents"]}
    assert actions(await house.take(other)) == {"contexts/b": "create", f"documents/{sha}": "create"}
    empty = await ControlPlane.start(tmp_path / "empty")
    await empty.take(bundle)
    assert empty.snapshot.hash == before


WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20).filter(lambda text: "\0" not in text)
ALIASES = st.from_regex(r"[a-z0-9]{1,6}", fullmatch=True)
TEXTS = st.fixed_dictionaries(
    {"type": st.just("text"), "data": st.fixed_dictionaries({"content": WORDS.map(lambda text: f"{text}.")})},
    optional={"name": WORDS, "mode": st.sampled_from(["always", "on_demand"]), "priority": st.integers(0, 999)},
)


def branch(node: dict[str, Any], below: dict[str, Any]) -> dict[str, Any]:
    return node | {"children": below}


@st.composite
def bundles(draw: st.DrawFn) -> dict[str, Any]:
    """Valid policies of any shape."""
    resources = st.dictionaries(ALIASES, TEXTS, max_size=3)
    made = draw(st.dictionaries(ALIASES, st.fixed_dictionaries({"resources": resources}), min_size=1, max_size=4))
    names = st.lists(st.sampled_from(sorted(made)), max_size=3, unique=True)
    contexts = {alias: context | {"mandatory": draw(st.booleans())} for alias, context in made.items()}
    agent = st.fixed_dictionaries(
        {}, optional={"contexts": names, "instructions": WORDS, "temperature": st.floats(0, 2)}
    )
    said = {"title": WORDS, "body": WORDS, "contexts": names, "links": names}
    said |= {"id": st.uuids().map(str), "inherit": st.sampled_from(["merge", "nearest"])}
    node = st.fixed_dictionaries({}, optional=said)
    trees = st.recursive(node, lambda inner: st.builds(branch, node, st.dictionaries(ALIASES, inner)), max_leaves=6)
    return {
        "contexts": contexts,
        "agents": draw(st.dictionaries(ALIASES, agent, max_size=3)),
        "content": draw(st.dictionaries(ALIASES, trees, max_size=3)),
    }


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(bundles())
async def test_an_export_gives_the_same_policies_elsewhere(tmp_path_factory: Any, bundle: dict[str, Any]) -> None:
    files = await ControlPlane.start(tmp_path_factory.mktemp("files"), bundle)
    stored = await ControlPlane.start(tmp_path_factory.mktemp("stored"))
    written = parse_yaml(format_yaml(await files.exported()), "bundle").data
    await stored.take(written)
    assert stored.snapshot.hash == files.snapshot.hash
    again = await over_again(tmp_path_factory, stored)
    assert format_yaml(await stored.exported()) == format_yaml(await again.exported())


async def over_again(factory: Any, stored: ControlPlane) -> ControlPlane:
    again = await ControlPlane.start(factory.mktemp("again"))
    await again.take(await stored.exported())
    return again
