"""Adoption over the wire: what models are told stays the same, byte for byte, until somebody edits what was adopted."""

from hashlib import sha256
from typing import Any

import pytest

from tests.support.gateway import POLICIES, Client, Start
from tests.support.management_client import manage
from tests.support.upstream import Upstream, say

KEYS: list[dict[str, Any]] = [
    {"name": name, "sha256": sha256(name.encode()).hexdigest(), "role": role, "workspace": workspace}
    for name, role, workspace in (("root", "admin", "ours"), ("anna", "editor", "ours"), ("eve", "admin", "theirs"))
]


@pytest.fixture
def client(start: Start) -> Client:
    return start(auth={"keys": KEYS})


async def ask(client: Client, method: str, path: str, body: Any = None, by: str = "root") -> Any:
    reply = await manage(client, method, path, body, authorization=f"Bearer {by}")
    assert reply.status < 300, reply.raw
    return reply.json


async def send(client: Client, upstream: Upstream, by: str) -> bytes:
    """The request that the upstream gets."""
    upstream.reset()
    upstream.will(say("Done."))
    await client.chat("Tidy this", agent="editor", key=by)
    (body,) = upstream.bodies
    return body


async def test_adopting_changes_nothing_upstream_and_editing_does(client: Client, upstream: Upstream) -> None:
    before = await send(client, upstream, "anna")
    adopted = await ask(client, "POST", "/adopt", {})
    assert {one["action"] for one in adopted["items"]} == {"adopt"}
    assert len(adopted["items"]) == len(POLICIES["contexts"]) + len(POLICIES["agents"])
    assert await send(client, upstream, "anna") == before
    context = await ask(client, "GET", "/contexts/house", by="anna")
    assert (context["source"], context["file"], context["shadows"]) == ("store", None, "all.yaml:2")
    context["resources"][0]["data"]["content"] = "Write boldly."
    await ask(client, "PUT", "/contexts/house", context, by="anna")
    assert b"Write boldly." in await send(client, upstream, "anna")
    theirs = await send(client, upstream, "eve")
    assert b"Write plainly." in theirs
    assert b"Write boldly." not in theirs
    listed = await ask(client, "GET", "/adopted", by="anna")
    assert {"kind": "contexts", "alias": "house", "file": "all.yaml:2"} in listed["items"]
    assert (await ask(client, "GET", "/adopted", by="eve"))["items"] == []
    released = await ask(client, "POST", "/release", {"objects": ["contexts/house"]})
    assert [one["pointer"] for one in released["items"][0]["changes"]] == ["/resources/voice/data/content"]
    assert await send(client, upstream, "anna") == before


async def test_who_may_not_adopt_is_told_so(client: Client, start: Start) -> None:
    assert (await manage(client, "POST", "/adopt", {}, authorization="Bearer anna")).status == 403
    refused = await manage(client, "PUT", "/agents/editor", {"contexts": []}, authorization="Bearer anna")
    assert (refused.status, "adopt it first" in refused.json["detail"]) == (409, True)
    closed = start(auth={"keys": KEYS}, adopt=False)
    reply = await manage(closed, "POST", "/adopt", {}, authorization="Bearer root")
    assert (reply.status, "adopt: false" in reply.json["detail"]) == (403, True)


@pytest.mark.parametrize(
    "body",
    [
        {"objects": ["house"]},
        {"objects": ["keys/x"]},
        {"all": True},
        {"objects": [1]},
        {"dry_run": 0},
        {"dry_run": "no"},
    ],
)
async def test_a_body_that_makes_no_sense_is_pointed_at(client: Client, body: Any) -> None:
    assert (await manage(client, "POST", "/adopt", body, authorization="Bearer root")).status == 422


async def test_the_audit_names_who_adopted(client: Client) -> None:
    await ask(client, "POST", "/adopt", {"objects": ["agents/editor"]})
    entries = (await ask(client, "GET", "/audit?kind=agents"))["items"]
    assert [(one["by"], one["action"], one["alias"]) for one in entries] == [("root", "adopt", "editor")]
