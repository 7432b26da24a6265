"""What editors try before they save: the text of a resource, the questions that find it; and what pages look at."""

from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import pytest

from tests.support.contract_policies import text
from tests.support.gateway import Client, Start
from tests.support.management_client import manage
from tests.support.semantic_gateway import run_indexing, wait_until_indexed

PASSWORD = "Reset a forgotten password on the account settings page."
REFUND = "We refund a damaged parcel within thirty days."
ASKED = "How do I reset a forgotten password of my account?"
POLICIES: dict[str, Any] = {
    "contexts": {
        "guide": {
            "mandatory": True,
            "resources": {
                "refund": text(REFUND, name="Refund", mode="semantic"),
                "tone": text("Be kind.", name="Tone"),
            },
        }
    },
    "content": {"site": {"children": {f"page-{n:02}": {"title": f"Page {n}"} for n in range(30)}}, "other": None},
}


async def post(client: Client, path: str, body: Any) -> Any:
    reply = await manage(client, "POST", path, body)
    assert reply.status == 200, reply.raw
    return reply.json


@pytest.fixture
def client(start: Start) -> Client:
    return start(policies=POLICIES)


async def test_a_resource_is_shown_as_models_would_read_it_and_nothing_is_stored(client: Client) -> None:
    before = client.app.policies.generation
    voice = {"type": "brand-voice", "data": {"tone": "Warm", "avoid": "Jargon"}}
    shown = await post(client, "/contexts/guide/preview", {"resource": voice})
    assert shown["text"] == "Tone: Warm\nAvoid: Jargon"
    assert (shown["characters"], 4 <= shown["tokens"] <= 12) == (len(shown["text"]), True)
    assert client.app.policies.generation == before
    # … also for a context that is not saved yet.
    assert (await post(client, "/contexts/fresh/preview", {"resource": voice}))["text"] == shown["text"]


async def test_the_beginning_of_a_long_text_is_shown(client: Client) -> None:
    shown = await post(client, "/contexts/guide/preview", {"resource": text("word " * 10_000, name="Long")})
    assert (len(shown["text"]), shown["characters"] >= 49_999) == (20_000, True)


@pytest.mark.parametrize(
    ("resource", "pointer"),
    [
        ({"type": "text", "data": {}}, "/resource/data/content"),
        ({"type": "nothing", "data": {}}, "/resource/type"),
        ({"type": "text", "mode": "never", "data": {"content": "x"}}, "/resource/mode"),
        ({"id": "Not An Id", "type": "text", "data": {"content": "x"}}, "/resource"),
        ({"type": "document", "data": {"path": "/etc/passwd"}}, "/resource/data"),
    ],
)
async def test_faults_are_pointed_at(client: Client, resource: Any, pointer: str) -> None:
    for path in ("preview", "find"):
        body = {"resource": resource} | ({"questions": ["Why?"]} if path == "find" else {})
        reply = await manage(client, "POST", f"/contexts/guide/{path}", body)
        assert reply.status == 422, reply.raw
        assert reply.json["errors"][0]["pointer"].startswith(pointer)


async def test_without_search_it_is_said_why_nothing_was_searched(client: Client) -> None:
    for mode, found, why in (
        ("always", True, "always placed"),
        ("manual", False, "only where"),
        ("semantic", False, "switched off"),
    ):
        body = {"resource": text(PASSWORD, name="New", mode=mode), "questions": [ASKED]}
        (item,) = (await post(client, "/contexts/guide/find", body))["items"]
        assert (item["found"], item["score"], why in item["why"]) == (found, None, True)


@pytest.fixture
def searching(start: Start) -> Iterator[Client]:
    """A gateway with the installed model."""
    client = start(policies=POLICIES, semantic={"enabled": True, "milliseconds": 5000})
    with run_indexing(client):
        wait_until_indexed(client)
        yield client


async def test_a_question_finds_a_resource_that_is_not_saved(searching: Client) -> None:
    body = {"resource": text(PASSWORD, name="Password", mode="semantic"), "questions": [ASKED, "What is a zebra?"]}
    first, second = (await post(searching, "/contexts/guide/find", body))["items"]
    assert (first["found"], first["score"] > 0.7, first["threshold"]) == (True, True, 0.5)
    assert [one["id"] for one in first["others"]] == ["guide/refund"]
    assert first["others"][0]["score"] < 0.5
    assert (second["found"], second["score"] < 0.5) == (False, True)


async def test_an_edited_resource_is_found_by_what_it_says_now(searching: Client) -> None:
    edited = {"id": "refund"} | text(PASSWORD, name="Refund", mode="semantic")
    (item,) = (await post(searching, "/contexts/guide/find", {"resource": edited, "questions": [ASKED]}))["items"]
    assert (item["found"], item["others"]) == (True, [])  # not beside its own former text


@pytest.mark.parametrize("questions", [[], ["x"] * 21, [""], ["x" * 8001]])
async def test_questions_are_bounded(client: Client, questions: list[str]) -> None:
    body = {"resource": text("x", name="X"), "questions": questions}
    assert (await manage(client, "POST", "/contexts/guide/find", body)).status == 422


async def test_a_tree_is_opened_level_by_level(client: Client) -> None:
    roots = (await manage(client, "GET", "/content/children")).json
    assert [(one["id"], one["children"], one["source"]) for one in roots["items"]] == [
        ("site", 30, "file"),
        ("other", 0, "file"),
    ]
    page = (await manage(client, "GET", "/content/children?node=site&skip=10&take=5")).json
    assert (page["total"], [one["key"] for one in page["items"]]) == (30, [f"page-{n}" for n in range(10, 15)])
    found = (await manage(client, "GET", "/content/children?node=site&filter=page%207")).json
    assert [one["title"] for one in found["items"]] == ["Page 7"]
    assert (await manage(client, "GET", "/content/children?node=nowhere")).status == 404
    await manage(client, "POST", "/adopt", {"objects": ["content/other"]})
    roots = (await manage(client, "GET", "/content/children")).json
    assert [one["source"] for one in roots["items"]] == ["file", "store"]


async def test_health_tells_editors_what_fails_and_admins_why(start: Start) -> None:
    keys = [{"name": role, "sha256": sha256(role.encode()).hexdigest(), "role": role} for role in ("editor", "admin")]
    upstreams = {
        "scripted": {"kind": "openai", "base_url": "http://127.0.0.1:9/v1", "api_key": "k"},
        "idle": {"kind": "openai", "base_url": "http://127.0.0.1:9/v1", "api_key": ""},
    }
    client = start(auth={"keys": keys}, upstreams=upstreams, routes=[{"model": "*", "upstream": "scripted"}])
    client.app.policies._file_error = "brand.yaml:3: a secret"
    for _ in range(6):
        await client.chat("Hello", key="editor")
    shown = {
        role: (await manage(client, "GET", "/health", authorization=f"Bearer {role}")).json
        for role in ("editor", "admin")
    }
    states = {one["name"]: one["state"] for one in shown["editor"]["upstreams"]}
    assert states == {"scripted": "down", "idle": "disabled"}
    assert (shown["editor"]["policies"]["error"], shown["editor"]["store"]) == (None, {"ok": True})
    assert shown["admin"]["policies"]["error"] == "brand.yaml:3: a secret"


async def test_readiness_is_told_in_detail_to_an_admin_who_signed_in(start: Start) -> None:
    key = {"name": "admin", "sha256": sha256(b"admin").hexdigest(), "role": "admin"}
    client = start(auth={"keys": [key]})
    reply = await manage(client, "POST", "/sign-in", authorization="Bearer admin")
    cookie = reply.headers["set-cookie"].partition(";")[0]
    ready = [await client.get("/../readyz", cookie=one) for one in (cookie, "context-sign-in=x")]
    assert ["policies" in one.json for one in ready] == [True, False]
