"""The management API of a real gateway: what is changed there reaches the very next chat, and nobody else's."""

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.support.gateway import POLICIES, Client, ClientReply, Start, Thread, running_gateway
from tests.support.management_client import manage
from tests.support.upstream import Upstream, say

KEYS = [
    {"name": name, "sha256": sha256(name.encode()).hexdigest(), "role": role, "workspace": workspace}
    for name, role, workspace in (
        ("boss", "admin", "default"),
        ("editor", "editor", "default"),
        ("chatter", "chat", "default"),
        ("stranger", "admin", "elsewhere"),
    )
]
TONE = {"type": "text", "name": "Tone", "data": {"content": "Never say synergy."}}


@pytest.fixture(scope="module")
def kept(thread: Thread, scripted: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    directory = tmp_path_factory.mktemp("managed")
    with running_gateway(
        thread,
        directory,
        scripted.base_url,
        POLICIES,
        auth={"keys": KEYS},
        store=f"sqlite:///{directory}/gateway.db",
    ) as client:
        yield client


async def call(
    client: Client, method: str, path: str, body: Any = None, key: str = "editor", **more: str
) -> ClientReply:
    return await manage(client, method, path, body, authorization=f"Bearer {key}", **more)


async def chat(client: Client, upstream: Upstream, agent: str, key: str = "chatter") -> str:
    """The system message that the upstream gets."""
    upstream.will(say("Done."))
    answer = await client.chat(agent=agent, key=key)
    assert answer.status == 200, answer.raw
    first = upstream.requests[-1]["messages"][0]
    return str(first["content"]) if first["role"] == "system" else ""


async def test_a_put_creates_what_is_not_there(kept: Client, upstream: Upstream) -> None:
    made = await call(kept, "PUT", "/contexts/upserted", {"resources": [{"id": "tone", **TONE}]})
    assert (made.status, made.headers["location"]) == (201, "/api/v1/contexts/upserted")
    assert (made.json["alias"], made.json["version"], made.headers["etag"].strip('"')[:2]) == ("upserted", 1, "1-")
    again = await call(kept, "PUT", "/contexts/upserted", {"alias": "upserted", "resources": [{"id": "tone", **TONE}]})
    assert (again.status, again.json["version"]) == (200, 1), "what changes nothing makes no version"
    added = await call(kept, "PUT", "/contexts/upserted/resources/motto", {**TONE, "data": {"content": "Be kind."}})
    assert (added.status, added.headers["location"]) == (201, "/api/v1/contexts/upserted/resources/motto")
    for kind, body in (("profiles", {}), ("agents", {"contexts": ["upserted"]}), ("prompts", {"template": "{input}"})):
        assert [(await call(kept, "PUT", f"/{kind}/upserter", body)).status for _ in range(2)] == [201, 200]
    system = await chat(kept, upstream, "upserter")
    assert "Never say synergy." in system
    assert "Be kind." in system
    audit = (await call(kept, "GET", "/audit?kind=contexts&alias=upserted", key="boss")).json["items"]
    assert sorted(one["action"] for one in audit) == ["create", "update"]


async def test_a_put_creates_nothing_where_something_was_expected(kept: Client) -> None:
    made = await call(kept, "PUT", "/contexts/shortlived", {})
    assert (await call(kept, "DELETE", "/contexts/shortlived")).status == 204
    for tag in (made.headers["etag"], "*"):
        assert (await call(kept, "PUT", "/contexts/shortlived", {}, if_match=tag)).status == 404
    assert (await call(kept, "PUT", f"/contexts/{made.json['id']}", {})).status == 404, "an id is not an alias"
    other = await call(kept, "PUT", "/contexts/shortlived", {"alias": "other"})
    assert (other.status, other.json["errors"][0]["pointer"]) == (422, "/alias")
    faulty = await call(kept, "PUT", "/contexts/Short_Lived", {})
    assert (faulty.status, faulty.json["errors"][0]["pointer"]) == (422, "/alias")
    assert (await call(kept, "PUT", "/contexts/shortlived/resources/tone", TONE)).status == 404, "it has no context"
    assert (await call(kept, "GET", "/contexts/shortlived")).status == 404


async def test_what_is_saved_reaches_the_next_chat(kept: Client, upstream: Upstream) -> None:
    await call(kept, "POST", "/contexts", {"alias": "brand", "resources": [{"id": "tone", **TONE}]})
    made = await call(kept, "POST", "/agents", {"alias": "writer", "contexts": ["brand"]})
    assert (made.status, made.json["updated_by"]) == (201, "editor")
    assert "Never say synergy." in await chat(kept, upstream, "writer")
    louder = {**TONE, "data": {"content": "Never say leverage."}}
    assert (await call(kept, "PUT", "/contexts/brand/resources/tone", louder)).status == 200
    assert "Never say leverage." in await chat(kept, upstream, "writer")
    await call(kept, "POST", "/contexts/brand/rollback", {"version": 1})
    assert "Never say synergy." in await chat(kept, upstream, "writer")
    await call(kept, "PUT", "/contexts/brand/draft", {"resources": [{"id": "tone", **louder}]})
    assert "Never say synergy." in await chat(kept, upstream, "writer")
    assert (await call(kept, "POST", "/contexts/brand/publish")).json["version"] == 4
    assert "Never say leverage." in await chat(kept, upstream, "writer")
    assert (await call(kept, "DELETE", "/contexts/brand")).status == 409
    assert (await call(kept, "DELETE", "/agents/writer")).status == 204
    assert (await kept.chat(agent="writer", key="chatter")).error["code"] == "unknown_agent"
    assert (await call(kept, "DELETE", "/contexts/brand")).status == 204


async def test_whoever_saves_a_context_that_is_larger_than_a_budget_is_told(kept: Client) -> None:
    await call(kept, "POST", "/contexts", {"alias": "sized", "resources": {"a": TONE}})
    made = await call(kept, "POST", "/agents", {"alias": "tight", "contexts": ["sized"], "budget": 50})
    assert (made.status, "x-context-warning" in made.headers) == (201, False)
    long = {**TONE, "data": {"content": "Never say synergy. " * 40}}
    saved = await call(kept, "PUT", "/contexts/sized/resources/a", long)
    told = saved.headers["x-context-warning"]
    assert (saved.status, told) == (
        200,
        "agent tight: its contexts always place 161 tokens (sized 161), its budget is 50",
    )
    whole = await call(kept, "PUT", "/contexts/sized", {"resources": {"a": long}})
    raised = await call(kept, "PUT", "/agents/tight", {"contexts": ["sized"], "budget": 500})
    assert ("x-context-warning" in whole.headers, "x-context-warning" in raised.headers) == (True, False)


async def test_another_workspace_sees_and_gets_nothing_of_it(kept: Client, upstream: Upstream) -> None:
    made = await call(kept, "POST", "/agents", {"alias": "secret", "instructions": "Hush."})
    for name in ("secret", made.json["id"]):
        assert (await call(kept, "GET", f"/agents/{name}", key="stranger")).status == 404
        assert (await call(kept, "DELETE", f"/agents/{name}", key="stranger")).status == 404
    assert "Hush." in await chat(kept, upstream, "secret")
    assert (await kept.chat(agent="secret", key="stranger")).error["code"] == "unknown_agent"
    assert (await call(kept, "DELETE", "/agents/secret")).status == 204


async def test_files_are_shared_and_named_when_somebody_wants_to_change_them(kept: Client) -> None:
    for key in ("editor", "stranger"):
        shown = await call(kept, "GET", "/contexts/house", key=key)
        assert (shown.json["source"], shown.json["file"]) == ("file", "all.yaml:2")
        refused = await call(kept, "PUT", "/contexts/house", {}, key=key)
        assert (refused.status, "all.yaml:2" in refused.json["detail"]) == (409, True)


async def test_refusals_before_the_api_are_problems_too(kept: Client) -> None:
    unknown = await manage(kept, "GET", "/agents")
    assert (unknown.status, unknown.json["code"]) == (401, "invalid_api_key")
    assert (unknown.headers["content-type"], unknown.headers["www-authenticate"]) == (
        "application/problem+json",
        "Bearer",
    )
    twice = await call(kept, "GET", "/nothing")
    assert (twice.status, twice.json["code"], twice.json["title"]) == (404, "unknown_endpoint", "Not Found")


async def test_a_chat_key_may_only_read_the_description(kept: Client) -> None:
    described = await call(kept, "GET", "/openapi.json", key="chatter")
    assert (described.status, described.json["openapi"]) == (200, "3.1.0")
    for path in ("/contexts", "/agents", "/prompts", "/profiles", "/drafts", "/resource-types"):
        assert path in described.json["paths"]
        refused = await call(kept, "GET", path, key="chatter")
        assert (refused.status, refused.json["code"]) == (403, "forbidden")


async def test_head_and_options_work_over_a_socket(kept: Client) -> None:
    head = await call(kept, "HEAD", "/contexts/house")
    assert (head.status, head.raw, int(head.headers["content-length"]) > 100) == (200, b"", True)
    options = await call(kept, "OPTIONS", "/contexts/house")
    assert (options.status, options.headers["allow"]) == (204, "DELETE, GET, HEAD, OPTIONS, PUT")


async def test_a_web_page_of_another_origin_is_refused_where_no_key_is_needed(gateway: Client) -> None:
    refused = await manage(gateway, "POST", "/agents", {"alias": "x"}, origin="http://evil.example")
    assert (refused.status, refused.json["code"]) == (403, "forbidden_host")
    assert refused.headers["content-type"] == "application/problem+json"


async def test_what_is_stored_outlives_the_gateway(
    thread: Thread, scripted: Upstream, upstream: Upstream, tmp_path: Path
) -> None:
    store = f"sqlite:///{tmp_path}/gateway.db"
    with running_gateway(thread, tmp_path, scripted.base_url, store=store) as first:
        await manage(first, "POST", "/contexts", {"alias": "brand", "resources": {"tone": TONE}})
        made = await manage(first, "POST", "/agents", {"alias": "writer", "contexts": ["brand"]})
    with running_gateway(thread, tmp_path, scripted.base_url, store=store) as second:
        read = await manage(second, "GET", "/agents/writer", if_none_match=made.headers["etag"])
        assert read.status == 304
        upstream.will(say("Done."))
        await second.chat(agent="writer")
        assert "Never say synergy." in upstream.requests[-1]["messages"][0]["content"]


async def test_a_gateway_without_keys_is_managed_by_whoever_is_on_the_machine(start: Start) -> None:
    client = start()
    made = await manage(client, "POST", "/prompts", {"alias": "meta", "template": "About {input}"})
    assert (made.status, made.json["updated_by"]) == (201, "anonymous")
    faulty = await manage(client, "PUT", "/prompts/meta", {"template": "About {inptu}"})
    assert [fault["pointer"] for fault in faulty.json["errors"]] == ["/template"]
