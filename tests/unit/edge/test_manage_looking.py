"""Search, usage, audit, export and import: what they answer and whom."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from gateway.domain.principal import Principal, Role
from gateway.strict_yaml import parse_yaml
from tests.support.managed_gateway import ADMIN, CHAT, EDITOR, ManagedGateway, running_management

FILES = {
    "contexts": {
        "voice": {"default": True, "resources": {"tone": {"type": "text", "data": {"content": "Never shout."}}}},
        "later": {"valid_from": "2999-01-01", "resources": {"x": {"type": "text", "data": {"content": "X"}}}},
    },
    "agents": {"editor": {"contexts": ["voice", "later"]}},
    "content": {"site": {"contexts": ["voice"], "children": {"a": {}, "b": {}}}},
}
OTHER = Principal("bert", workspace="other", role=Role.ADMIN)


@pytest.fixture
async def api(tmp_path: Path) -> AsyncGenerator[ManagedGateway]:
    async with running_management(tmp_path, FILES) as gateway:
        yield gateway


async def test_search_finds_by_words_and_pages(api: ManagedGateway) -> None:
    found = (await api.ask("GET", "/search?q=shout")).json
    assert [(hit["kind"], hit["id"]) for hit in found["items"]] == [("resources", "voice/tone")]
    assert found["items"][0]["snippet"] == "Never shout."
    every = (await api.ask("GET", "/search?q=e")).json
    page = (await api.ask("GET", "/search?q=e&skip=1&take=1")).json
    assert (page["items"], page["total"]) == (every["items"][1:2], every["total"])
    assert (await api.ask("GET", "/search?q=voice&kind=agents")).json["total"] == 0
    for query in ("", "?q=", "?q=x&kind=keys", "?q=x&q=y"):
        assert (await api.ask("GET", f"/search{query}")).status == 422
    assert (await api.ask("GET", "/search?q=x", by=CHAT)).status == 403


async def test_usage_of_a_context_and_of_its_resources(api: ManagedGateway) -> None:
    for path in ("/contexts/voice/usage", "/contexts/voice/resources/tone/usage"):
        used = (await api.ask("GET", path)).json
        assert [(one["level"], one["entity"], one["inherited"]) for one in used["items"]] == [
            ("global", "", None),
            ("agent", "editor", None),
            ("content", "site", 2),
        ]
        assert (await api.ask("GET", f"{path}?take=1")).json["total"] == 3
    assert (await api.ask("GET", "/contexts/later/usage")).json["items"][0]["entity"] == "editor"
    assert (await api.ask("GET", "/contexts/gone/usage")).status == 404
    assert (await api.ask("GET", "/contexts/voice/resources/gone/usage")).status == 404


async def test_how_often_several_contexts_are_used(api: ManagedGateway) -> None:
    found = (await api.ask("GET", "/usage?contexts=later,voice,gone")).json["items"]
    assert [(one["context"], one["total"]) for one in found] == [("later", 1), ("voice", 3), ("gone", 0)]
    assert [(use["level"], use["name"]) for use in found[1]["first"]] == [
        ("global", "Requests that nothing else applies to"),
        ("agent", "Editor"),
        ("content", "Site"),
    ]
    for number in range(3):
        await api.ask("POST", "/agents", {"alias": f"a{number}", "contexts": ["voice"]})
    (voice,) = (await api.ask("GET", "/usage?contexts=voice,")).json["items"]
    assert (voice["total"], [use["entity"] for use in voice["first"]]) == (6, ["", "a0", "a1"])
    many = ",".join(f"c{number}" for number in range(150))
    assert len((await api.ask("GET", f"/usage?contexts={many}")).json["items"]) == 60
    assert (await api.ask("GET", "/usage")).status == 422
    assert (await api.ask("GET", "/usage?contexts=voice", by=CHAT)).status == 403


async def test_the_audit_tells_who_did_what(api: ManagedGateway) -> None:
    await api.ask("POST", "/content", {"key": "n", "id": "n", "title": "Old"})
    await api.ask("PUT", "/content/n", {"title": "New"})
    await api.ask("POST", "/agents", {"alias": "mine"})
    lines = (await api.ask("GET", "/audit", by=ADMIN)).json
    assert [(one["action"], one["kind"], one["alias"], one["by"]) for one in lines["items"]] == [
        ("create", "agents", "mine", "anna"),
        ("update", "content", "n", "anna"),
        ("create", "content", "n", "anna"),
    ]
    assert {"pointer": "/title", "from": "Old", "to": "New"} in lines["items"][1]["changes"]
    assert (await api.ask("GET", "/audit?kind=content&take=1", by=ADMIN)).json["total"] == 2
    assert (await api.ask("GET", "/audit?alias=mine&by=anna", by=ADMIN)).json["total"] == 1
    assert (await api.ask("GET", "/audit?by=nobody", by=ADMIN)).json["total"] == 0
    assert (await api.ask("GET", "/audit", by=OTHER)).json["total"] == 0
    assert (await api.ask("GET", "/audit", by=EDITOR)).status == 403


async def test_export_gives_files_and_store_or_the_store_alone(api: ManagedGateway) -> None:
    await api.ask("POST", "/agents", {"alias": "mine", "instructions": "Line one.\nLine two."})
    answer = await api.ask("GET", "/export")
    whole = parse_yaml(answer.raw, "bundle").data
    assert set(whole) == {"contexts", "agents", "content"}
    assert list(whole["agents"]) == ["editor", "mine"]
    stored = (await api.ask("GET", "/export?source=stored&format=json")).json
    assert stored == {"agents": {"mine": {"instructions": "Line one.\nLine two."}}}
    assert (await api.ask("GET", "/export?source=stored&format=json", by=OTHER)).json == {}
    assert (await api.ask("GET", "/export", by=CHAT)).status == 403


async def test_import_answers_what_it_did(api: ManagedGateway) -> None:
    made = (await api.ask("POST", "/import", {"agents": {"a": {}, "b": {"contexts": ["voice"]}}})).json
    assert [(one["alias"], one["action"]) for one in made["items"]] == [("a", "create"), ("b", "create")]
    assert len(made["snapshot"]) == 12
    again = await api.ask(
        "POST", "/import?mode=replace&dry_run=true", b"agents:\n  b: {inject: true}\n", content_type="application/yaml"
    )
    assert [(one["alias"], one["action"]) for one in again.json["items"]] == [("b", "update"), ("a", "delete")]
    assert again.json["items"][0]["changes"] == [
        {"pointer": "/contexts", "from": ["voice"], "to": None},
        {"pointer": "/inject", "from": None, "to": True},
    ]
    assert (await api.ask("GET", "/agents/a")).status == 200
    assert (await api.ask("GET", "/agents/a", by=OTHER)).status == 404
