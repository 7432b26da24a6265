"""Links and uploads of a real gateway: what is made through the API reaches the next chat."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.support.gateway import POLICIES, Client, ClientReply, Thread, running_gateway
from tests.support.management_client import manage
from tests.support.upstream import Upstream, say
from tests.support.web_pages import Pages, serving_pages

KEYS = [
    {"name": name, "sha256": sha256(name.encode()).hexdigest(), "role": role, "workspace": workspace}
    for name, role, workspace in (
        ("editor", "editor", "default"),
        ("chatter", "chat", "default"),
        ("stranger", "admin", "elsewhere"),
    )
]
GUIDE = b"# Pairing\n\nHold the button for five seconds."


@pytest.fixture(scope="module")
def pages() -> Iterator[Pages]:
    with serving_pages() as served:
        yield served


def running_linked(thread: Thread, directory: Path, base_url: str, pages: Pages) -> AbstractContextManager[Client]:
    page = {"type": "external-link", "data": {"url": f"{pages.address}/file"}}
    files = {
        "contexts": {**POLICIES["contexts"], "linked": {"resources": {"page": page}}},
        "agents": {**POLICIES["agents"], "linker": {"contexts": ["linked"]}},
    }
    return running_gateway(
        thread,
        directory,
        base_url,
        files,
        auth={"keys": KEYS},
        links={"allow": ["127.0.0.1"]},
        store=f"sqlite:///{directory}/gateway.db",
    )


@pytest.fixture(scope="module")
def linked(
    thread: Thread, scripted: Upstream, pages: Pages, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Client]:
    with running_linked(thread, tmp_path_factory.mktemp("linked"), scripted.base_url, pages) as client:
        yield client


@pytest.fixture
def unfetched(thread: Thread, scripted: Upstream, tmp_path: Path) -> Iterator[tuple[Client, Pages]]:
    """A gateway that has not seen its page yet, and the web that will have it."""
    with serving_pages() as pages, running_linked(thread, tmp_path, scripted.base_url, pages) as client:
        yield client, pages


async def call(
    client: Client, method: str, path: str, body: Any = None, key: str = "editor", **more: str
) -> ClientReply:
    return await manage(client, method, path, body, authorization=f"Bearer {key}", **more)


async def chat(client: Client, upstream: Upstream, agent: str) -> tuple[str, str]:
    """The system message that the upstream gets, and what the client is told is missing."""
    upstream.will(say("Done."))
    answer = await client.chat(agent=agent, key="chatter")
    assert answer.status == 200, answer.raw
    first = upstream.requests[-1]["messages"][0]
    return str(first["content"]) if first["role"] == "system" else "", answer.headers.get("x-context-degraded", "")


async def test_a_refresh_on_demand_is_in_use_when_it_answers(
    unfetched: tuple[Client, Pages], upstream: Upstream
) -> None:
    linked, pages = unfetched
    assert (await chat(linked, upstream, "linker"))[1] == "links"
    pages["/file"] = "Say please."
    told = await call(linked, "POST", "/contexts/linked/resources/page/refresh")
    assert (told.status, told.json["error"], told.json["failures"], told.json["size"]) == (200, None, 0, 11)
    assert told.json["used_by"] == ["linked/page"]
    assert told.json["fetched_at"] is not None
    system, degraded = await chat(linked, upstream, "linker")
    assert ("Say please." in system, degraded) == (True, "")
    pages["/file"] = "Say thanks."
    await call(linked, "POST", "/contexts/linked/resources/page/refresh")
    assert "Say thanks." in (await chat(linked, upstream, "linker"))[0]


async def test_a_page_that_is_gone_keeps_its_copy_and_the_status_says_why(
    linked: Client, pages: Pages, upstream: Upstream
) -> None:
    pages["/file"] = "Still here."
    await call(linked, "POST", "/contexts/linked/resources/page/refresh")
    pages["/file"] = 503
    told = (await call(linked, "POST", "/contexts/linked/resources/page/refresh")).json
    assert (told["failures"], "503" in told["error"], told["size"]) == (1, True, 11)
    assert told["due_at"] > told["tried_at"] > told["fetched_at"]
    assert "Still here." in (await chat(linked, upstream, "linker"))[0]
    shown = (await call(linked, "GET", "/contexts/linked/resources/page")).json["link"]
    assert (shown["failures"], shown["size"]) == (1, 11)


async def test_links_made_through_the_api_are_listed_for_their_workspace_only(
    linked: Client, pages: Pages, upstream: Upstream
) -> None:
    url = f"{pages.address}/stored"
    pages[url.removeprefix(pages.address)] = "Stored words."
    page = {"id": "page", "type": "external-link", "data": {"url": url, "interval": 60}}
    assert (await call(linked, "POST", "/contexts", {"alias": "web", "resources": [page]})).status == 201
    await call(linked, "POST", "/agents", {"alias": "webber", "contexts": ["web"]})
    assert (await call(linked, "POST", "/contexts/web/resources/page/refresh")).status == 200
    assert "Stored words." in (await chat(linked, upstream, "webber"))[0]
    listed = (await call(linked, "GET", "/links")).json
    assert [one["used_by"] for one in listed["items"]] == [["linked/page"], ["web/page"]]
    assert (await call(linked, "GET", "/links?filter=web&take=1")).json["items"][0]["url"] == url
    theirs = (await call(linked, "GET", "/links", key="stranger")).json
    assert [one["used_by"] for one in theirs["items"]] == [["linked/page"]]
    hidden = await call(linked, "POST", "/contexts/web/resources/page/refresh", key="stranger")
    assert hidden.status == 404


async def test_what_is_no_link_cannot_be_refreshed(linked: Client) -> None:
    assert (await call(linked, "POST", "/contexts/house/resources/voice/refresh")).status == 422
    assert (await call(linked, "POST", "/contexts/house/resources/nothing/refresh")).status == 404
    assert (await call(linked, "POST", "/contexts/nothing/resources/voice/refresh")).status == 404
    assert (await call(linked, "POST", "/contexts/linked/resources/page/refresh", key="chatter")).status == 403


async def test_an_uploaded_document_reaches_the_next_chat(linked: Client, upstream: Upstream) -> None:
    sent = await call(linked, "POST", "/documents?name=pairing.md", GUIDE, content_type="text/markdown")
    assert sent.status == 201
    digest = sent.json["sha256"]
    guide = {"id": "guide", "type": "document", "data": {"sha256": digest}}
    assert (await call(linked, "POST", "/contexts", {"alias": "lamps", "resources": [guide]})).status == 201
    await call(linked, "POST", "/agents", {"alias": "lamp", "contexts": ["lamps"]})
    assert "Hold the button for five seconds." in (await chat(linked, upstream, "lamp"))[0]
    assert (await call(linked, "DELETE", f"/documents/{digest}")).status == 409
    content = await call(linked, "GET", f"/documents/{digest}/content")
    assert (content.raw, content.headers["content-disposition"][:10]) == (GUIDE, "attachment")
    assert (await call(linked, "GET", f"/documents/{digest}", key="stranger")).status == 404


async def test_a_stored_document_cannot_name_a_path_of_the_server(linked: Client) -> None:
    secret = Path(linked.app.settings.policies) / "secret.md"
    secret.write_text("The server's own.")
    spy = {"id": "spy", "type": "document", "data": {"path": "secret.md"}}
    refused = await call(linked, "POST", "/contexts", {"alias": "spying", "resources": [spy]})
    assert refused.status == 422
    assert "upload the document" in refused.json["errors"][0]["message"]
