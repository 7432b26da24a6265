"""Entities, relationships and axioms travel in a bundle, exactly, with the policies or not at all."""

from pathlib import Path
from typing import Any

import pytest

from gateway.control.yaml_writer import format_yaml
from gateway.domain.knowledge import ENTITIES
from gateway.errors import Conflict, InvalidObject, QuotaExceeded
from gateway.knowledge.repository import KnowledgeRepository
from gateway.settings import QuotaSettings
from gateway.stores.protocols import AuditFilter
from gateway.strict_yaml import parse_yaml
from tests.support.control_plane import ANNA, ControlPlane, actions

KNOWLEDGE: dict[str, Any] = {
    "entities": {
        "lamp": {
            "type": "Product",
            "name": 'Lamp: "Glow"',
            "aliases": ["Leuchte", "灯"],
            "properties": {"z": 1, "price": 49.5, "sold": True, "one": 1.0, "tags": ["a", None, "7"], "note": "x\ny"},
            "readers": ["group:staff"],
        },
        "socket": {"type": "Part", "name": "Socket"},
    },
    "relationships": {"r1": {"from": "lamp", "type": "needs", "to": "socket", "properties": {"count": 2}}},
    "axioms": {"vat": {"types": ["Product", "Part"], "text": "Prices include VAT.", "readers": ["user:anna"]}},
}
BUNDLE: dict[str, Any] = {
    "contexts": {"house": {"resources": {"voice": {"type": "text", "data": {"content": "Plainly."}}}}},
    "knowledge": KNOWLEDGE,
}
OWN = {"type": "Part", "name": "Cable"}


@pytest.fixture
async def empty(tmp_path: Path) -> ControlPlane:
    return await ControlPlane.start(tmp_path / "empty")


@pytest.fixture
async def house(tmp_path: Path) -> ControlPlane:
    """With a graph in its files."""
    return await ControlPlane.start(tmp_path / "house", BUNDLE)


async def test_what_is_exported_and_imported_is_exported_again(empty: ControlPlane, tmp_path: Path) -> None:
    assert set(actions(await empty.take(BUNDLE)).values()) == {"create"}
    exported = await empty.exported()
    assert exported["knowledge"] == KNOWLEDGE
    properties = exported["knowledge"]["entities"]["lamp"]["properties"]
    assert list(properties) == ["z", "price", "sold", "one", "tags", "note"], "in the order of their importance"
    assert [type(properties[name]) for name in ("z", "sold", "one")] == [int, bool, float]
    written = parse_yaml(format_yaml(exported).encode(), "bundle").data
    other = await ControlPlane.start(tmp_path / "other")
    await other.take(written)
    assert await other.exported() == exported
    assert set(actions(await other.take(written, replace=True)).values()) == {"unchanged"}


async def test_a_graph_in_files_is_exported_and_needs_no_import(house: ControlPlane) -> None:
    exported = await house.exported()
    assert exported["knowledge"] == KNOWLEDGE
    assert set(actions(await house.take(exported, replace=True)).values()) == {"unchanged"}
    assert "knowledge" not in await house.exported(stored=True)


async def test_stored_items_come_with_the_entities_of_files_that_they_relate(house: ControlPlane) -> None:
    tie = {"from": "cable", "type": "fits", "to": "socket"}
    await house.take({"knowledge": {"entities": {"cable": OWN}, "relationships": [tie]}})
    stored = (await house.exported(stored=True))["knowledge"]
    assert list(stored["entities"]) == ["cable", "socket"]
    assert [*stored["relationships"].values()] == [tie]
    assert "axioms" not in stored
    assert set(actions(await house.take({"knowledge": stored})).values()) == {"unchanged"}


async def test_a_dry_run_tells_what_would_change_and_changes_nothing(empty: ControlPlane) -> None:
    await empty.take(BUNDLE)
    before = await empty.exported()
    lamp = KNOWLEDGE["entities"]["lamp"]
    changed = {"lamp": lamp | {"name": "Lamp"}, "cable": OWN}
    steps = await empty.take({"knowledge": {"entities": changed}}, replace=True, dry_run=True)
    assert actions(steps) == {
        "contexts/house": "delete",
        "entities/lamp": "update",
        "entities/cable": "create",
        "relationships/r1": "delete",
        "axioms/vat": "delete",
        "entities/socket": "delete",
    }
    [update] = [one for one in steps if one.action == "update"]
    assert update.changes == [{"pointer": "/name", "from": 'Lamp: "Glow"', "to": "Lamp"}]
    assert await empty.exported() == before


async def test_another_order_of_properties_or_another_type_of_number_is_a_change(empty: ControlPlane) -> None:
    await empty.take({"knowledge": {"entities": {"a": OWN | {"properties": {"x": 1, "y": 2}}}}})
    for properties in ({"y": 2, "x": 1}, {"y": 2, "x": True}, {"y": 2, "x": 1.0}):
        bundle = {"knowledge": {"entities": {"a": OWN | {"properties": properties}}}}
        assert actions(await empty.take(bundle)) == {"entities/a": "update"}
        assert repr((await empty.exported())["knowledge"]["entities"]["a"]["properties"]) == repr(properties)


@pytest.mark.parametrize(
    ("knowledge", "pointer"),
    [
        ({"entities": {"a": {"name": "A"}}}, "/knowledge/entities/a/type"),
        ({"entities": {"a b": OWN}}, "/knowledge/entities/a b"),
        ({"entities": []}, "/knowledge/entities"),
        ({"entity": {}}, "/knowledge/entity"),
        ([], "/knowledge"),
        ({"axioms": {"x": {"types": [], "text": "T"}}}, "/knowledge/axioms/x/types"),
        ({"relationships": [{"from": "lamp", "type": "x", "to": "gone"}]}, "/knowledge/relationships/0/to"),
        ({"relationships": {"r": {"from": "gone", "type": "x", "to": "lamp"}}}, "/knowledge/relationships/r/from"),
    ],
)
async def test_a_fault_in_the_graph_imports_nothing(empty: ControlPlane, knowledge: Any, pointer: str) -> None:
    await empty.take({"knowledge": KNOWLEDGE})
    before = await empty.exported()
    with pytest.raises(InvalidObject) as caught:
        await empty.take({"contexts": BUNDLE["contexts"], "knowledge": knowledge})
    assert pointer in [fault.pointer for fault in caught.value.faults]
    assert await empty.exported() == before


async def test_a_fault_in_the_policies_imports_nothing_of_the_graph(empty: ControlPlane) -> None:
    with pytest.raises(InvalidObject):
        await empty.take({"agents": {"a": {"contexts": ["gone"]}}, "knowledge": KNOWLEDGE})
    assert await empty.exported() == {}


async def test_replacing_makes_relationships_of_deleted_entities_a_fault(empty: ControlPlane) -> None:
    await empty.take({"knowledge": KNOWLEDGE})
    ties = {"relationships": {"r2": {"from": "socket", "type": "x", "to": "lamp"}}}
    with pytest.raises(InvalidObject) as caught:
        await empty.take({"knowledge": ties}, replace=True)
    assert {fault.pointer for fault in caught.value.faults} == {
        "/knowledge/relationships/r2/from",
        "/knowledge/relationships/r2/to",
    }
    assert actions(await empty.take({"knowledge": ties})) == {"relationships/r2": "create"}


async def test_what_files_define_differently_is_a_conflict_with_its_place(house: ControlPlane) -> None:
    bundle = {"contexts": {"new": {}}, "knowledge": {"entities": {"socket": OWN, "cable": OWN}}}
    with pytest.raises(Conflict, match=r"entities/socket \(files\.yaml:\d+\)") as caught:
        await house.take(bundle)
    assert [fault.pointer for fault in caught.value.faults] == ["/knowledge/entities/socket"]
    assert "new" not in house.snapshot.contexts


async def test_an_import_beyond_the_quotas_changes_nothing(tmp_path: Path) -> None:
    small = await ControlPlane.start(tmp_path)
    small.importer._knowledge = small.knowledge = KnowledgeRepository(quotas=QuotaSettings(entities=1))
    await small.knowledge.start()
    with pytest.raises(QuotaExceeded):
        await small.take(BUNDLE)
    assert await small.exported() == {}


async def test_an_import_is_in_the_audit_item_by_item(empty: ControlPlane) -> None:
    await empty.take(BUNDLE)
    found = await empty.knowledge.list_audit("default", AuditFilter(kind=ENTITIES), 0, 10)
    assert sorted(one.key.alias for one in found.entries) == ["lamp", "socket"]
    assert {(one.by, one.action) for one in found.entries} == {("anna", "import")}
    assert ANNA.name == "anna"
