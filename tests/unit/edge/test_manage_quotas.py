"""What a workspace may store: refused by name, limit and use, and shown."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from gateway.domain.principal import Principal, Role
from tests.support.managed_gateway import ADMIN, ManagedGateway, running_management

QUOTAS = {
    "contexts": 3,
    "links": 2,
    "keys": 2,
    "drafts": 1,
    "documents": 2,
    "document_bytes": 1000,
    "object_bytes": 20_000,
    "list_items": 50,
    "workspaces": {"large": {"contexts": 5, "record_bytes": 400}},
}
OTHER = Principal("other", workspace="other", role=Role.ADMIN)
LARGE = Principal("large", workspace="large", role=Role.ADMIN)


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[ManagedGateway]:
    files: dict[str, Any] = {"contexts": {f"file-{number}": {} for number in range(9)}}
    async with running_management(tmp_path, files, quotas=QUOTAS) as running:
        yield running


def link(url: str) -> dict[str, Any]:
    return {"type": "external-link", "mode": "on_demand", "data": {"url": url}}


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "data": {"content": content}}


def require_refused(quota: str, limit: int, used: int, answer: Any) -> None:
    assert (answer.status, answer.json["code"]) == (403, "quota_exceeded")
    assert f"The quota {quota} of this workspace is {limit}; {used} are used" in answer.json["detail"]


async def test_objects_of_a_kind_are_counted_per_workspace(gateway: ManagedGateway) -> None:
    for number in range(3):
        assert (await gateway.ask("POST", "/contexts", {"alias": f"c{number}"})).status == 201
    require_refused("contexts", 3, 3, await gateway.ask("POST", "/contexts", {"alias": "one-more"}))
    assert (await gateway.ask("PUT", "/contexts/c1", {"name": "Another name"})).status == 200
    assert (await gateway.ask("POST", "/contexts", {"alias": "c1"}, by=OTHER)).status == 201
    assert (await gateway.ask("DELETE", "/contexts/c1")).status == 204
    assert (await gateway.ask("POST", "/contexts", {"alias": "one-more"})).status == 201


async def test_a_workspace_can_have_quotas_of_its_own(gateway: ManagedGateway) -> None:
    for number in range(4):
        assert (await gateway.ask("POST", "/contexts", {"alias": f"c{number}"}, by=LARGE)).status == 201
    answer = await gateway.ask("POST", "/contexts", {"alias": "big", "resources": {"t": text("x" * 400)}}, by=LARGE)
    assert "The quota record_bytes of this workspace is 400" in answer.json["detail"]


async def test_an_import_is_counted_as_a_whole(gateway: ManagedGateway) -> None:
    async def send(count: int, mode: str = "merge") -> Any:
        bundle: dict[str, Any] = {"contexts": {f"c{number}": {} for number in range(count)}}
        return await gateway.ask("POST", f"/import?mode={mode}", orjson.dumps(bundle), content_type="application/json")

    require_refused("contexts", 3, 0, await send(4))
    assert {"name": "contexts", "limit": 3, "used": 0} in (await gateway.ask("GET", "/quotas")).json["items"]
    assert (await send(3)).status == 200


async def test_links_are_counted_by_url(gateway: ManagedGateway) -> None:
    pages = {f"p{number}": link(f"https://example.com/{number % 2}") for number in range(4)}
    assert (await gateway.ask("POST", "/contexts", {"alias": "c", "resources": pages})).status == 201
    more = {**pages, "one-more": link("https://example.com/2")}
    answer = await gateway.ask("PUT", "/contexts/c", {"resources": more})
    require_refused("links", 2, 2, answer)


async def test_keys_drafts_and_documents_have_quotas(gateway: ManagedGateway) -> None:
    for number in range(2):
        assert (await gateway.ask("POST", "/keys", {"name": f"k{number}"}, by=ADMIN)).status == 201
    require_refused("keys", 2, 2, await gateway.ask("POST", "/keys", {"name": "k2"}, by=ADMIN))
    answer = await gateway.ask("POST", "/documents", b"x" * 1001, content_type="text/plain")
    require_refused("document_bytes", 1000, 0, answer)
    for content in (b"one", b"two"):
        assert (await gateway.ask("POST", "/documents", content, content_type="text/plain")).status == 201
    require_refused("documents", 2, 2, await gateway.ask("POST", "/documents", b"three", content_type="text/plain"))
    for alias in ("a", "b"):
        await gateway.ask("POST", "/contexts", {"alias": alias})
    assert (await gateway.ask("PUT", "/contexts/a/draft", {"name": "A"})).status in (200, 201)
    require_refused("drafts", 1, 1, await gateway.ask("PUT", "/contexts/b/draft", {"name": "B"}))


async def test_an_object_and_its_lists_are_bounded(gateway: ManagedGateway) -> None:
    answer = await gateway.ask("POST", "/contexts", {"alias": "big", "resources": {"t": text("x" * 20_001)}})
    assert "The quota object_bytes of this workspace is 20000" in answer.json["detail"]
    resource = {**text("x"), "readers": [f"user:{number}" for number in range(51)]}
    answer = await gateway.ask("POST", "/contexts", {"alias": "big", "resources": {"one": resource}})
    require_refused("list_items", 50, 0, answer)


async def test_what_is_used_is_shown(gateway: ManagedGateway) -> None:
    await gateway.ask("POST", "/contexts", {"alias": "c", "resources": {"p": link("https://example.com/")}})
    await gateway.ask("POST", "/documents", b"four", content_type="text/plain")
    used = {one["name"]: one["used"] for one in (await gateway.ask("GET", "/quotas")).json["items"]}
    assert (used["contexts"], used["links"], used["documents"], used["document_bytes"]) == (1, 1, 1, 4)
    assert used["record_bytes"] > 50
    others = {one["name"]: one["used"] for one in (await gateway.ask("GET", "/quotas", by=OTHER)).json["items"]}
    assert not any(others.values())
