"""Sessions: what a conversation adds, removes and keeps, seen in the outgoing request."""

import asyncio
import hashlib
import sqlite3
import time
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest

from gateway.domain.exchange import Exchange
from gateway.domain.principal import ANONYMOUS
from gateway.errors import StoreError
from gateway.sessions.sessions import find_session_change
from gateway.stores import sqlite_connection
from tests.support.gateway import Client, Start
from tests.support.management_client import manage
from tests.support.upstream import Upstream, call, say

RULES = {
    "rule-a": {"type": "text", "mode": "always", "data": {"content": "Rule A holds."}},
    "rule-b": {"type": "text", "mode": "manual", "data": {"content": "Rule B holds."}},
    "rule-c": {"type": "text", "mode": "on_demand", "data": {"content": "Rule C holds."}},
    "must": {"type": "text", "mode": "always", "mandatory": True, "data": {"content": "This must hold."}},
    "hers": {"type": "text", "mode": "manual", "readers": ["user:ann"], "data": {"content": "For Ann only."}},
}
POLICIES: dict[str, Any] = {
    "contexts": {
        "rules": {"resources": RULES},
        "blog": {"resources": {"style": {"type": "text", "mode": "always", "data": {"content": "Write as a blog."}}}},
    },
    "agents": {"editor": {"contexts": ["rules"], "temperature": 0.1}},
    "content": {"site": {"title": "Site", "children": {"blog": {"title": "Blog", "contexts": ["blog"]}}}},
}
TEXTS = {
    "A": "Rule A holds",
    "B": "Rule B holds",
    "C": "Rule C holds",
    "must": "must hold",
    "blog": "as a blog",
    "hers": "For Ann only",
}
BASE = {"A", "must"}


@pytest.fixture
def gateway(start: Start) -> Client:
    return start(policies=POLICIES)


def told(request: dict[str, Any]) -> set[str]:
    """Which of the texts the model was told."""
    texts = orjson.dumps(request["messages"]).decode()
    return {name for name, text in TEXTS.items() if text in texts}


async def ask(gateway: Client, upstream: Upstream, **said: Any) -> set[str]:
    """What the model is told in the session `talk`, unless another is named."""
    upstream.will(say("Done."))
    answered = await gateway.chat(**{"session": "talk", "agent": "editor", **said})
    assert answered.status == 200, answered.text
    return told(upstream.requests[-1])


async def test_the_flow_of_two_requests(gateway: Client, upstream: Upstream) -> None:
    assert await ask(gateway, upstream) == BASE
    added = await manage(gateway, "POST", "/sessions/talk/items", {"id": "rules/rule-b"})
    assert (added.status, added.headers["location"]) == (201, "/api/v1/sessions/talk/items/rules/rule-b")
    assert await ask(gateway, upstream, context={"include": ["rules/rule-c"]}) == {*BASE, "B", "C"}
    assert await ask(gateway, upstream) == {*BASE, "B"}
    assert await ask(gateway, upstream, session="another") == BASE


async def test_pins_last_and_includes_do_not(gateway: Client, upstream: Upstream) -> None:
    assert await ask(gateway, upstream, context={"pin": ["rules/rule-b"]}) == {*BASE, "B"}
    assert await ask(gateway, upstream) == {*BASE, "B"}
    assert await ask(gateway, upstream, context={"exclude": ["rules/rule-b"]}) == BASE
    assert await ask(gateway, upstream) == {*BASE, "B"}
    assert await ask(gateway, upstream, context={"unpin": ["rules/rule-b"]}) == BASE
    assert await ask(gateway, upstream) == BASE


async def test_what_was_removed_stays_removed_unless_it_is_mandatory(gateway: Client, upstream: Upstream) -> None:
    assert await ask(gateway, upstream, context={"unpin": ["rules/rule-a", "rules/must"]}) == {"must"}
    assert await ask(gateway, upstream) == {"must"}
    assert await ask(gateway, upstream, context={"include": ["rules/rule-a"]}) == BASE
    assert await ask(gateway, upstream) == {"must"}
    both = {"include": ["rules/rule-a"], "exclude": ["rules/rule-a"]}
    assert await ask(gateway, upstream, context=both) == {"must"}
    restored = await manage(gateway, "POST", "/sessions/talk/items/rules/rule-a/restore")
    assert restored.status == 200
    assert await ask(gateway, upstream) == BASE


async def test_the_content_is_kept_until_another_is_named(gateway: Client, upstream: Upstream) -> None:
    assert await ask(gateway, upstream, context={"content": "site/blog"}) == {*BASE, "blog"}
    assert await ask(gateway, upstream) == {*BASE, "blog"}
    first = orjson.loads((await manage(gateway, "GET", "/sessions/talk")).raw)
    assert await ask(gateway, upstream, context={"content": "site/blog"}) == {*BASE, "blog"}
    again = orjson.loads((await manage(gateway, "GET", "/sessions/talk")).raw)
    assert (first["content"], first["version"]) == ("site/blog", again["version"])
    assert await ask(gateway, upstream, context={"content": "site"}) == BASE
    assert await ask(gateway, upstream) == BASE


async def test_the_reply_names_the_content_that_was_used(gateway: Client, upstream: Upstream) -> None:
    for content in ("site/blog/unknown", None):
        upstream.will(say("Done."))
        answered = await gateway.chat(session="talk", agent="editor", context={"content": content} if content else {})
        assert answered.headers["x-context-content"] == "site/blog"
    upstream.will(say("Done."))
    assert "x-context-content" not in (await gateway.chat(agent="editor")).headers


async def test_the_model_is_told_of_a_change_if_the_session_wants_it(gateway: Client, upstream: Upstream) -> None:
    settings = {"settings": {"announce": True}, "content": "site"}
    assert (await manage(gateway, "PUT", "/sessions/talk", settings)).status == 200
    await ask(gateway, upstream, context={"content": "site/blog"})
    assert "now about Blog (site/blog)" in orjson.dumps(upstream.requests[-1]).decode()
    await ask(gateway, upstream)
    assert "now about" not in orjson.dumps(upstream.requests[-1]).decode()


async def test_settings_hold_where_the_request_says_nothing(gateway: Client, upstream: Upstream) -> None:
    settings = {"settings": {"temperature": 0.7, "max_tokens": 9, "inject": False}}
    assert (await manage(gateway, "PUT", "/sessions/talk", settings)).status == 200
    assert await ask(gateway, upstream) == {"must"}
    assert (upstream.requests[-1]["temperature"], upstream.requests[-1]["max_tokens"]) == (0.7, 9)
    assert await ask(gateway, upstream, context={"inject": "on"}, temperature=0.2) == BASE
    assert upstream.requests[-1]["temperature"] == 0.2
    await ask(gateway, upstream, session="another")
    assert upstream.requests[-1]["temperature"] == 0.1


async def test_what_the_model_fetched_stays_in_the_session(gateway: Client, upstream: Upstream) -> None:
    upstream.will(call("get_context_resource", resource_id="rules/rule-c"), say("Done."))
    assert (await gateway.chat(session="talk", agent="editor")).status == 200
    assert await ask(gateway, upstream) == {*BASE, "C"}
    assert await ask(gateway, upstream, session="another") == BASE
    items = orjson.loads((await manage(gateway, "GET", "/sessions/talk/items")).raw)
    assert [(one["id"], one["state"]) for one in items["items"]] == [("rules/rule-c", "retained")]
    assert await ask(gateway, upstream, context={"unpin": ["rules/rule-c"]}) == BASE


async def test_changes_at_once_are_all_kept(gateway: Client, upstream: Upstream) -> None:
    names = ["rules/rule-a", "rules/rule-b", "rules/rule-c", "blog/style"]
    answers = await asyncio.gather(*(manage(gateway, "POST", "/sessions/talk/items", {"id": name}) for name in names))
    assert {one.status for one in answers} == {201}
    shown = orjson.loads((await manage(gateway, "GET", "/sessions/talk")).raw)
    assert sorted(shown["added"]) == sorted(names)


@pytest.mark.parametrize("name", ["pin", "unpin"])
async def test_a_change_needs_a_session(gateway: Client, name: str) -> None:
    refused = await gateway.chat(agent="editor", context={name: ["rules/rule-b"]})
    assert (refused.status, refused.error["code"]) == (400, "session_required")


async def test_only_what_the_caller_may_read_can_be_added(gateway: Client) -> None:
    for name in ("rules/hers", "rules/none"):
        refused = await gateway.chat(session="talk", agent="editor", context={"pin": [name]})
        assert (refused.status, refused.error["code"], refused.error["param"]) == (
            400,
            "unknown_resource",
            "context.pin",
        )
        assert (await manage(gateway, "POST", "/sessions/talk/items", {"id": name})).status == 404


async def test_a_key_that_may_not_act_for_users_learns_nothing_of_their_resources(
    start: Start, upstream: Upstream
) -> None:
    keys = [{"name": "one", "sha256": hashlib.sha256(b"one").hexdigest()}]
    gateway = start(policies=POLICIES, auth={"keys": keys})
    for name in ("rules/hers", "rules/herz"):
        refused = await gateway.chat(session="talk", agent="editor", key="one", context={"user": "ann", "pin": [name]})
        assert (refused.status, refused.error["code"]) == (403, "user_not_allowed")
        assert "hers" not in refused.error["message"]


async def test_another_agent_does_not_get_what_the_model_fetched_for_one(start: Start, upstream: Upstream) -> None:
    agents = {"editor": {"contexts": ["rules"]}, "blogger": {"contexts": ["blog"]}}
    gateway = start(policies={**POLICIES, "agents": agents})
    upstream.will(call("get_context_resource", resource_id="rules/rule-c"), say("Done."))
    assert (await gateway.chat(session="talk", agent="editor")).status == 200
    assert await ask(gateway, upstream, agent="blogger") == {"blog"}
    assert await ask(gateway, upstream) == {*BASE, "C"}


async def test_a_bound_key_keeps_the_turns_and_the_placement_of_its_agent(start: Start, upstream: Upstream) -> None:
    keys = [{"name": "one", "sha256": hashlib.sha256(b"one").hexdigest(), "agent": "editor"}]
    agents = {"editor": {"contexts": ["rules"], "max_turns": 1}}
    gateway = start(policies={**POLICIES, "agents": agents}, auth={"keys": keys})
    settings = {"settings": {"max_turns": 9, "placement": "turn_user"}}
    put = await manage(gateway, "PUT", "/sessions/talk", settings, authorization="Bearer one")
    assert put.status == 200
    upstream.will(say("Done."))
    assert (await gateway.chat(session="talk", key="one", context={"include": ["rules/rule-b"]})).status == 200
    sent = upstream.requests[-1]
    assert sent["tool_choice"] == "none"  # the only turn
    assert "Rule B holds" in sent["messages"][0]["content"]


async def test_two_requests_at_once_do_not_undo_each_other(gateway: Client) -> None:
    pipeline = gateway.app.pipeline
    exchange = [Exchange(str(number), ANONYMOUS, gateway.app.policies.get_snapshot("default")) for number in range(2)]
    pinning: dict[str, Any] = {"context": {"session": "talk", "agent": "editor", "pin": ["rules/rule-b"]}}
    moving: dict[str, Any] = {"context": {"session": "talk", "agent": "editor", "content": "site/blog"}}
    body: dict[str, Any] = {"model": "m-large", "messages": [{"role": "user", "content": "Hello"}]}
    await manage(gateway, "PUT", "/sessions/talk", {"content": "site"})
    prepared = [
        gateway.thread.run(pipeline.prepare(one, orjson.dumps(body | said)))
        for one, said in zip(exchange, (pinning, moving), strict=True)
    ]
    for one, ready in zip(reversed(exchange), reversed(prepared), strict=True):
        assert ready.session is not None
        apply = partial(find_session_change(ready.scope, ready.session).apply, snapshot=one.snapshot)
        gateway.thread.run(pipeline.sessions.save(ready.session, apply, set()))
    shown = orjson.loads((await manage(gateway, "GET", "/sessions/talk")).raw)
    assert (shown["content"], shown["added"]) == ("site/blog", ["rules/rule-b"])


async def test_a_request_that_is_refused_changes_nothing(gateway: Client, upstream: Upstream) -> None:
    refused = await gateway.chat(session="talk", agent="nobody", context={"pin": ["rules/rule-b"]})
    assert refused.status == 400
    assert (await manage(gateway, "GET", "/sessions/talk")).status == 404
    assert await ask(gateway, upstream) == BASE


async def test_a_session_belongs_to_workspace_key_and_user(start: Start, upstream: Upstream) -> None:
    keys = [
        {"name": name, "sha256": hashlib.sha256(name.encode()).hexdigest(), "workspace": workspace, "role": "chat"}
        for name, workspace in (("one", "default"), ("two", "default"), ("three", "other"))
    ]
    keys[0]["rights"] = ["act_as_user"]  # type: ignore[assignment]
    gateway = start(policies=POLICIES, auth={"keys": keys})
    assert await ask(gateway, upstream, key="one", context={"pin": ["rules/rule-b"]}) == {*BASE, "B"}
    assert await ask(gateway, upstream, key="one", context={"user": "ann", "pin": ["rules/hers"]}) == {*BASE, "hers"}
    assert await ask(gateway, upstream, key="one") == {*BASE, "B"}
    assert await ask(gateway, upstream, key="one", context={"user": "bob"}) == BASE
    assert await ask(gateway, upstream, key="two") == BASE
    assert await ask(gateway, upstream, key="three") == BASE
    for key in ("two", "three"):
        shown = await manage(gateway, "GET", "/sessions", authorization=f"Bearer {key}")
        assert [one["id"] for one in orjson.loads(shown.raw)["items"]] == ["talk"]
        foreign = await manage(gateway, "GET", "/sessions/talk?principal=one", authorization=f"Bearer {key}")
        assert foreign.status == 403


async def test_deleting_and_policy_changes(gateway: Client, upstream: Upstream) -> None:
    await ask(gateway, upstream, context={"pin": ["rules/rule-b"]})
    assert (await manage(gateway, "DELETE", "/sessions/talk")).status == 204
    assert (await manage(gateway, "DELETE", "/sessions/talk")).status == 404
    assert await ask(gateway, upstream) == BASE


async def test_an_unreachable_store_costs_the_session_and_not_the_chat(
    gateway: Client, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ask(gateway, upstream, context={"pin": ["rules/rule-b"]})
    store = gateway.app.stores.sessions

    async def fail(*_: object) -> None:
        raise StoreError("The store is down.")

    with monkeypatch.context() as broken:
        broken.setattr(store, "get", fail)
        upstream.will(say("Done."))
        answered = await gateway.chat(session="talk", agent="editor")
        assert (answered.status, answered.headers["x-context-degraded"]) == (200, "session")
        assert told(upstream.requests[-1]) == BASE
    assert await ask(gateway, upstream) == {*BASE, "B"}


async def test_a_lock_on_the_file_of_the_store_does_not_hold_up_the_chat(
    start: Start, upstream: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_connection, "BUSY_SECONDS", 20.0)
    client = start(store=f"sqlite:///{tmp_path}/data.db", policies=POLICIES)
    await ask(client, upstream)
    other = sqlite3.connect(tmp_path / "data.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        upstream.will(say("Done."))
        began = time.monotonic()
        answered = await client.chat(session="talk", agent="editor", context={"pin": ["rules/rule-b"]})
        assert time.monotonic() - began < 10  # a fifth of a second for the store, half of what the lock may take
        assert (answered.status, answered.headers["x-context-degraded"]) == (200, "session")
    finally:
        other.execute("ROLLBACK")
        other.close()
    for _ in range(60):
        if "B" in await ask(client, upstream):
            return
        await asyncio.sleep(0.05)
    pytest.fail("the change was lost")


async def test_a_workspace_has_so_many_sessions_and_no_more(start: Start, upstream: Upstream) -> None:
    gateway = start(policies=POLICIES, quotas={"sessions": 1})
    assert await ask(gateway, upstream, context={"pin": ["rules/rule-b"]}) == {*BASE, "B"}
    upstream.will(say("Done."))
    answered = await gateway.chat(session="more", agent="editor", context={"pin": ["rules/rule-b"]})
    assert (answered.status, answered.headers["x-context-degraded"]) == (200, "session")
    assert told(upstream.requests[-1]) == {*BASE, "B"}
    refused = await manage(gateway, "POST", "/sessions/more/items", {"id": "rules/rule-b"})
    assert (refused.status, orjson.loads(refused.raw)["code"]) == (403, "quota_exceeded")
    quotas = orjson.loads((await manage(gateway, "GET", "/quotas")).raw)["items"]
    assert {"name": "sessions", "limit": 1, "used": 1} in quotas
    assert await ask(gateway, upstream) == {*BASE, "B"}


async def test_a_key_has_one_limit_for_chats_and_management(start: Start, upstream: Upstream) -> None:
    secret = "a chat key"
    key = {"name": "app", "sha256": hashlib.sha256(secret.encode()).hexdigest(), "limits": {"requests": 5}}
    client = start(policies=POLICIES, auth={"keys": [key]})
    upstream.will(say("Done."))
    assert (await client.chat(session="talk", agent="editor", key=secret)).status == 200
    root = f"http://127.0.0.1:{client.port}/api/v1"
    headers = {"authorization": f"Bearer {secret}"}
    async with aiohttp.ClientSession(headers=headers) as session:
        statuses = []
        for path in (
            "/sessions",
            "/sessions/talk",
            "/sessions/nobody",
            "/sessions/talk/items",
            "/sessions",
            "/sessions/talk",
        ):
            async with session.get(root + path) as reply:
                statuses.append(reply.status)
                wait = reply.headers.get("retry-after")
    assert statuses == [200, 200, 404, 200, 429, 429]
    assert wait is not None
    assert int(wait) > 0
    assert (await client.chat(session="talk", agent="editor", key=secret)).status == 429


async def test_a_preview_changes_nothing(gateway: Client, upstream: Upstream) -> None:
    asked = {"context": {"agent": "editor", "session": "talk", "pin": ["rules/rule-b"]}, "query": "Hello"}
    shown = await manage(gateway, "POST", "/resolve", asked)
    assert shown.status == 200
    assert "Rule B holds" in orjson.loads(shown.raw)["block"]
    assert await ask(gateway, upstream) == BASE


async def test_an_id_that_is_too_long_is_refused_everywhere(gateway: Client) -> None:
    for method, body in (("GET", None), ("PUT", {}), ("DELETE", None)):
        refused = await manage(gateway, method, f"/sessions/{'x' * 257}", body)
        assert (refused.status, "256 characters" in refused.json["detail"]) == (400, True)
        assert (await manage(gateway, method, f"/sessions/{'x' * 256}", body)).status in (200, 204, 404)
    asked = await gateway.chat(session="x" * 257)
    assert (asked.status, asked.error["param"]) == (400, "x-context-session")


async def test_a_session_is_changed_only_by_those_who_know_its_state(gateway: Client) -> None:
    made = await manage(gateway, "PUT", "/sessions/letter", {"settings": {"budget": 100}}, if_none_match="*")
    tag = made.headers["etag"]
    assert made.status == 200
    assert (await manage(gateway, "GET", "/sessions/letter", if_none_match=tag)).status == 304

    added = await manage(gateway, "POST", "/sessions/letter/items", {"id": "rules/rule-b"}, if_match=tag)
    assert (added.status, added.headers["etag"] != tag) == (201, True)
    refused = [
        await manage(gateway, "PUT", "/sessions/letter", {"settings": {"budget": 5}}, if_match=tag),
        await manage(gateway, "PUT", "/sessions/letter", {"settings": {"budget": 5}}, if_none_match="*"),
        await manage(gateway, "POST", "/sessions/letter/items", {"id": "rules/rule-c"}, if_match=tag),
        await manage(gateway, "DELETE", "/sessions/letter/items/rules/rule-b", if_match=tag),
        await manage(gateway, "DELETE", "/sessions/letter", if_match=tag),
    ]
    assert [reply.status for reply in refused] == [412] * 5
    kept = await manage(gateway, "GET", "/sessions/letter")
    assert (kept.json["settings"]["budget"], kept.json["added"]) == (100, ["rules/rule-b"])
    assert (await manage(gateway, "DELETE", "/sessions/letter", if_match=kept.headers["etag"])).status == 204


async def test_a_state_that_is_gone_is_not_created_again(gateway: Client) -> None:
    made = await manage(gateway, "PUT", "/sessions/letter", {})
    await manage(gateway, "DELETE", "/sessions/letter")
    tag = made.headers["etag"]
    assert (await manage(gateway, "PUT", "/sessions/letter", {}, if_match=tag)).status == 404
    assert (await manage(gateway, "POST", "/sessions/letter/items", {"id": "rules/rule-b"}, if_match=tag)).status == 404
    assert (await manage(gateway, "GET", "/sessions/letter")).status == 404
