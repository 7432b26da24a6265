"""`/knowledge`: items of three kinds, from files and the store, with ETags, filters, pages and faults."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.knowledge_graph import POLICIES
from tests.support.managed_gateway import ADMIN, CHAT, ManagedGateway, running_management

TIDE = {"id": "tide", "type": "Term", "name": "Spring tide", "aliases": ["Syzygy"], "properties": {"days": 14.7}}


@pytest.fixture
async def managed(tmp_path: Path) -> AsyncIterator[ManagedGateway]:
    async with running_management(tmp_path, POLICIES) as gateway:
        yield gateway


async def test_an_entity_is_created_read_replaced_and_deleted(managed: ManagedGateway) -> None:
    made = await managed.ask("POST", "/knowledge/entities", TIDE)
    assert (made.status, made.headers["location"]) == (201, "/api/v1/knowledge/entities/tide")
    assert made.json | {"updated_at": None} == {
        **TIDE,
        "readers": [],
        "source": "store",
        "file": None,
        "version": 1,
        "updated_at": None,
        "updated_by": "anna",
    }
    again = await managed.ask("GET", "/knowledge/entities/tide", if_none_match=made.headers["etag"])
    assert again.status == 304
    changed = await managed.ask("PUT", "/knowledge/entities/tide", {**made.json, "name": "Neap tide"})
    assert (changed.json["name"], changed.json["version"]) == ("Neap tide", 2)
    stale = await managed.ask("PUT", "/knowledge/entities/tide", TIDE, if_match=made.headers["etag"])
    assert stale.status == 412
    assert (await managed.ask("PUT", "/knowledge/entities/tide", TIDE, if_none_match="*")).status == 412
    fresh = await managed.ask("DELETE", "/knowledge/entities/tide", if_match=changed.headers["etag"])
    assert fresh.status == 204
    assert (await managed.ask("GET", "/knowledge/entities/tide")).status == 404


async def test_lists_have_pages_filters_and_the_items_of_files(managed: ManagedGateway) -> None:
    await managed.ask("POST", "/knowledge/entities", TIDE)
    every = (await managed.ask("GET", "/knowledge/entities")).json
    assert [one["name"] for one in every["items"]] == [
        "Limit", "Lumo lamp", "Lumo margin", "Orders endpoint", "Refund", "Spring tide",
    ]  # fmt: skip
    page = (await managed.ask("GET", "/knowledge/entities?skip=1&take=2")).json
    assert ([one["id"] for one in page["items"]], page["total"]) == (["lamp", "margin"], 6)
    assert (await managed.ask("GET", "/knowledge/entities?type=product")).json["total"] == 2
    assert (await managed.ask("GET", "/knowledge/entities?filter=syzy")).json["total"] == 1
    ties = (await managed.ask("GET", "/knowledge/relationships?entity=limit")).json["items"]
    assert [(one["from"], one["type"], one["to"]) for one in ties] == [("orders", "accepts", "limit")]
    axioms = (await managed.ask("GET", "/knowledge/axioms?type=product")).json["items"]
    assert [(one["id"], one["source"]) for one in axioms] == [("prices", "file")]


async def test_items_of_files_are_read_only(managed: ManagedGateway) -> None:
    for method in ("PUT", "DELETE"):
        body = {"type": "Term", "name": "X"} if method == "PUT" else None
        refused = await managed.ask(method, "/knowledge/entities/orders", body)
        assert refused.status == 409
        assert "files.yaml:" in refused.json["detail"]
    taken = await managed.ask("POST", "/knowledge/entities", {**TIDE, "id": "orders"})
    assert taken.status == 409


async def test_relationships_need_both_ends_and_go_with_an_entity(managed: ManagedGateway) -> None:
    tie = {"from": "tide", "type": "lifts", "to": "lamp"}
    missing = await managed.ask("POST", "/knowledge/relationships", tie)
    assert (missing.status, missing.json["errors"][0]["pointer"]) == (422, "/from")
    await managed.ask("POST", "/knowledge/entities", TIDE)
    made = await managed.ask("POST", "/knowledge/relationships", tie)
    assert made.status == 201
    assert (await managed.ask("POST", "/knowledge/relationships", tie)).status == 409
    path = f"/knowledge/relationships/{made.json['id']}"
    changed = await managed.ask("PUT", path, {**tie, "properties": {"metres": 2}})
    assert changed.json["properties"] == {"metres": 2}
    assert (await managed.ask("DELETE", "/knowledge/entities/tide")).status == 204
    assert (await managed.ask("GET", path)).status == 404


@pytest.mark.parametrize(
    ("kind", "body", "pointer"),
    [
        ("entities", {"id": "a b", "type": "T", "name": "N"}, "/id"),
        ("entities", {"id": "a", "type": "", "name": "N"}, "/type"),
        ("entities", {"id": "a", "type": "T", "name": "N", "readers": ["staff"]}, "/readers"),
        ("entities", {"id": "a", "type": "T", "name": "N", "colour": 1}, "/colour"),
        ("entities", {"id": "a", "type": "T", "name": "N" * 201}, "/name"),
        ("axioms", {"id": "a", "types": [], "text": "T"}, "/types"),
        ("relationships", {"source": "a", "type": "T", "to": "b"}, "/from"),
    ],
)
async def test_faults_are_told_with_their_place(
    managed: ManagedGateway, kind: str, body: dict[str, object], pointer: str
) -> None:
    refused = await managed.ask("POST", f"/knowledge/{kind}", body)
    assert refused.status == 422
    assert pointer in [one["pointer"] for one in refused.json["errors"]]


async def test_chat_keys_may_not_and_quotas_count_it(managed: ManagedGateway) -> None:
    assert (await managed.ask("GET", "/knowledge/entities", by=CHAT)).status == 403
    await managed.ask("POST", "/knowledge/entities", TIDE)
    quotas = (await managed.ask("GET", "/quotas", by=ADMIN)).json["items"]
    assert {one["name"]: one["used"] for one in quotas}["entities"] == 1


async def test_an_id_cannot_be_changed(managed: ManagedGateway) -> None:
    await managed.ask("POST", "/knowledge/entities", TIDE)
    refused = await managed.ask("PUT", "/knowledge/entities/tide", {**TIDE, "id": "other"})
    assert (refused.status, refused.json["errors"][0]["pointer"]) == (422, "/id")
