"""Receipts replayed: what was sent is built again, under the policies of then or under others."""

import asyncio
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.support.gateway import WEATHER, Client, ClientReply, Start
from tests.support.management_client import manage
from tests.support.upstream import Upstream, call, mixed, say, tool_call
from tests.wire.test_receipts import recording, wait_finished

ADMIN, BOUND, OTHER, HR = "an admin's key", "a bound key", "another workspace's key", "a key of hr"
TOOLLESS, TEAMS = "a key without tools", "a key with a tier"
KEYS = [
    {"name": "admin", "sha256": sha256(ADMIN.encode()).hexdigest(), "role": "admin", "rights": ["act_as_user"]},
    {"name": "bound", "sha256": sha256(BOUND.encode()).hexdigest(), "agent": "guard"},
    {"name": "theirs", "sha256": sha256(OTHER.encode()).hexdigest(), "role": "admin", "workspace": "other"},
    {"name": "hr", "sha256": sha256(HR.encode()).hexdigest(), "groups": ["hr"]},
    {"name": "toolless", "sha256": sha256(TOOLLESS.encode()).hexdigest(), "tools": []},
    {"name": "teams", "sha256": sha256(TEAMS.encode()).hexdigest(), "tier": "teams"},
]


def text(content: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "data": {"content": content}, **more}


PAY_TOOL = {
    "type": "http-tool",
    "description": "Raise the Salaries",
    "readers": ["group:hr"],
    "data": {"url": "https://pay.example/raise"},
}

POLICIES: dict[str, Any] = {
    "contexts": {
        "house": {
            "resources": {
                "voice": text("Write plainly."),
                "german": text("Auf Deutsch.", languages=["de"]),
                "extra": text("By hand.", mode="manual"),
                "style": text("Use commas.", mode="on_demand"),
                "pay": text("Salaries are secret.", readers=["group:hr"]),
                "annas": text("For Anna.", readers=["user:anna"]),
            }
        },
        "more": {"resources": {"one": text("One more thing.")}},
        "blog": {"resources": {"tone": text("As a blog.")}},
        "legal": {"resources": {"claims": text("No claims.", mandatory=True)}},
        "payroll": {"resources": {"raise": PAY_TOOL}},
        "web": {
            "resources": {"ping": {"type": "http-tool", "description": "Ping", "data": {"url": "https://a.example"}}}
        },
    },
    "profiles": {"calm": {"temperature": 0.1}},
    "agents": {
        "editor": {"contexts": ["house"], "instructions": "Edit.", "temperature": 0.4},
        "guard": {"contexts": ["house"]},
        "clerk": {"contexts": ["payroll"]},
        "caller": {"contexts": ["web"]},
    },
    "prompts": {"short": {"template": "Shorten for {vars.who}: {input}\n\n{context}", "contexts": ["legal"]}},
    "content": {"site": {"title": "Site", "contexts": ["blog"]}},
    "knowledge": {"entities": {"comma": {"type": "Term", "name": "Oxford comma"}}},
}


@pytest.fixture
def gateway(start: Start, tmp_path: Path) -> Iterator[Client]:
    store = f"sqlite:///{tmp_path / 'store.db'}"
    with recording(start(policies=POLICIES, auth={"keys": KEYS}, receipts={"text": True}, store=store)) as client:
        yield client


async def ask(client: Client, path: str, body: Any = None, method: str = "POST", key: str = ADMIN) -> ClientReply:
    return await manage(client, method, path, body, authorization=f"Bearer {key}")


async def chat(client: Client, upstream: Upstream, count: int = 1, **said: Any) -> str:
    """The receipt of a request, once so many are finished."""
    if not upstream.script:
        upstream.will(say("Done."))
    reply = await client.chat(said.pop("asked", "Tidy this"), **{"agent": "editor", "key": ADMIN, **said})
    assert reply.status == 200, reply.text
    wait_finished(client, count)
    return reply.headers["x-context-receipt"]


async def replay(client: Client, receipt: str, key: str = ADMIN, **body: Any) -> dict[str, Any]:
    reply = await ask(client, f"/receipts/{receipt}/replay", body, key=key)
    assert reply.status == 200, reply.text
    return reply.json


REQUESTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "agent by model": {"agent": None, "model": "agent:editor"},
    "no agent": {"agent": None, "context": {"contexts": ["more"]}},
    "language": {"context": {"language": "de-AT"}},
    "names": {"context": {"include": ["house/extra"], "exclude": ["house/voice"], "contexts": ["more"]}},
    "budget": {"context": {"budget": 3}},
    "off": {"context": {"inject": "off"}},
    "profile": {"context": {"profile": "calm"}},
    "content": {"context": {"content": "site/unknown/page"}},
    "template": {"context": {"prompt": "short", "vars": {"who": "Ann"}, "items": [{"name": "Note", "text": "Hi."}]}},
    "tools": {"tools": [WEATHER], "tool_choice": "auto", "seed": 7, "temperature": 1.5},
    "no tools": {"tools": [WEATHER], "tool_choice": "none"},
    "user": {"context": {"user": "anna"}},
    "selection": {"context": {"selection": {"preset": "conservative", "kinds": {"tool": {"top_n": 1}}}}},
    "session": {"session": "s", "context": {"pin": ["house/extra"], "unpin": ["house/voice"], "content": "site"}},
    "bound": {"agent": None, "key": BOUND, "context": {"inject": "off", "exclude": ["house/voice"]}},
    "a tool": {"agent": "caller"},
    "a tool that the key may not use": {"agent": "caller", "key": TOOLLESS},
    "knowledge": {"asked": "What is an Oxford comma?", "key": TEAMS},
    "parts": {"asked": [{"role": "user", "content": [{"type": "text", "text": "Ünïcode"}]}]},
}


@pytest.mark.parametrize("name", REQUESTS)
async def test_a_receipt_is_replayed_exactly(gateway: Client, upstream: Upstream, name: str) -> None:
    receipt = await chat(gateway, upstream, **REQUESTS[name])
    again = await replay(gateway, receipt)
    assert again["request"] == upstream.requests[-1]
    said = again["receipt"]
    assert (said["same_policies"], said["same_context"], said["omitted"]) == (True, True, [])


async def test_the_session_is_the_one_of_then(gateway: Client, upstream: Upstream) -> None:
    settings = {"settings": {"placement": "turn", "temperature": 0.9, "announce": True}, "content": "site"}
    assert (await ask(gateway, "/sessions/s", settings, "PUT")).status == 200
    assert (await ask(gateway, "/sessions/s/items", {"id": "house/extra"})).status == 201
    upstream.will(call("get_context_resource", resource_id="house/style"), say("Done."))
    await chat(gateway, upstream, session="s", count=1)
    for _ in range(1000):  # a busy machine may store it after the answer
        if "house/style" in (await ask(gateway, "/sessions/s/items", method="GET")).raw.decode():
            break
        await asyncio.sleep(0.01)
    receipt = await chat(gateway, upstream, session="s", count=2)
    sent = upstream.requests[-1]
    assert b"Use commas." in orjson.dumps(sent)  # what the model fetched is retained
    assert sent["temperature"] == 0.9
    assert (await ask(gateway, "/sessions/s", None, "DELETE")).status == 204
    assert (await replay(gateway, receipt))["request"] == sent


async def store_context(gateway: Client, *contents: str) -> None:
    body = {"alias": "mine", "default": True, "resources": {"rule": text(contents[0])}}
    assert (await ask(gateway, "/contexts", body)).status == 201
    for content in contents[1:]:
        await update_context(gateway, content)


async def update_context(gateway: Client, content: str, path: str = "/contexts/mine") -> None:
    reply = await ask(gateway, path, {"default": True, "resources": {"rule": text(content)}}, "PUT")
    assert reply.status == 200, reply.text


async def test_then_now_versions_and_drafts(gateway: Client, upstream: Upstream) -> None:
    await store_context(gateway, "First.", "Second.")
    receipt = await chat(gateway, upstream, agent=None)
    sent = upstream.requests[-1]
    await update_context(gateway, "Third.")
    await update_context(gateway, "Fourth.", "/contexts/mine/draft")
    built = {
        "now": await replay(gateway, receipt),
        "then": await replay(gateway, receipt, as_of="receipt"),
        "one": await replay(gateway, receipt, versions={"contexts/mine": 1}),
        "two": await replay(gateway, receipt, versions={"contexts/mine": 2}),
        "draft": await replay(gateway, receipt, drafts=["contexts/mine"]),
        "draft over then": await replay(gateway, receipt, as_of="receipt", drafts=True),
    }
    words = ("First.", "Second.", "Third.", "Fourth.")
    shown = {name: [word for word in words if word in one["block"]] for name, one in built.items()}
    assert shown == {
        "now": ["Third."],
        "then": ["Second."],
        "one": ["First."],
        "two": ["Second."],
        "draft": ["Fourth."],
        "draft over then": ["Fourth."],
    }
    assert built["then"]["request"] == built["two"]["request"] == sent
    assert [one["receipt"]["same_policies"] for one in built.values()] == [False, True, False, True, False, False]
    (item,) = built["two"]["selection"]["injected"]
    assert item["version"] == 2
    (changed,) = built["now"]["receipt"]["items"]["changed"]
    assert (changed["from"]["version"], changed["to"]["version"]) == (2, 3)
    # Nothing of it serves: a chat gets what it got before.
    await chat(gateway, upstream, agent=None, count=2)
    assert "Third." in orjson.dumps(upstream.requests[-1]).decode()


async def test_what_was_deleted_since_then_is_there_again(gateway: Client, upstream: Upstream) -> None:
    await store_context(gateway, "First.")
    receipt = await chat(gateway, upstream, agent=None)
    sent = upstream.requests[-1]
    assert (await ask(gateway, "/contexts/mine", None, "DELETE")).status == 204
    assert (
        await ask(gateway, "/contexts", {"alias": "new", "default": True, "resources": {"r": text("New.")}})
    ).status == 201
    then = await replay(gateway, receipt, as_of="receipt")
    assert then["request"] == sent
    assert "New." in (await replay(gateway, receipt))["block"]


async def test_a_diff_shows_what_changed_since_then(gateway: Client, upstream: Upstream) -> None:
    await store_context(gateway, "First rule.")
    receipt = await chat(gateway, upstream, agent=None)
    await update_context(gateway, "Second rule.")
    both = {"from": {"receipt": receipt, "as_of": "receipt"}, "to": {}}
    shown = (await ask(gateway, "/diff", both)).json
    assert shown["same"] is False
    assert [(one["id"], one["fields"]) for one in shown["items"]["changed"]] == [("mine/rule", ["version", "text"])]
    lines = shown["messages"].split("\n")
    assert ("-First rule." in lines, "+Second rule." in lines) == (True, True)
    same = (await ask(gateway, "/diff", {"from": {"receipt": receipt}, "to": {"receipt": receipt}})).json
    assert (same["same"], same["messages"], same["items"]["changed"]) == (True, "", [])


async def test_without_text_the_request_is_needed(start: Start, upstream: Upstream, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'store.db'}"
    with recording(start(policies=POLICIES, auth={"keys": KEYS}, store=store)) as gateway:
        receipt = await chat(gateway, upstream, context={"include": ["house/extra"]})
        refused = await ask(gateway, f"/receipts/{receipt}/replay", {})
        assert (refused.status, refused.json["errors"][0]["pointer"]) == (422, "/request")
        assert "receipts.text" in refused.json["errors"][0]["message"]
        again = await replay(gateway, receipt, query="Tidy this")
        assert again["request"] == upstream.requests[-1]
        whole = {"messages": [{"role": "user", "content": "Tidy this"}], "model": "m-small"}
        assert (await replay(gateway, receipt, request=whole))["model"] == "m-small"


async def test_a_request_that_failed_early_cannot_be_replayed(gateway: Client) -> None:
    reply = await gateway.chat("Hi", agent="nobody", key=ADMIN)
    assert reply.status == 400
    wait_finished(gateway)
    refused = await ask(gateway, f"/receipts/{reply.headers['x-context-receipt']}/replay", {})
    assert (refused.status, refused.json["code"]) == (409, "conflict")


async def test_a_request_that_is_too_deep_to_be_shown_cannot_be_replayed(gateway: Client, upstream: Upstream) -> None:
    upstream.will(say("Done."))
    body = b'{"messages":[],"model":"m","metadata":' + b"[" * 300 + b"]" * 300 + b"}"
    sent = await gateway.post(body, authorization=f"Bearer {ADMIN}")
    assert sent.status == 200, sent.text
    wait_finished(gateway, 1)
    receipt = sent.headers["x-context-receipt"]
    for path, asked in ((f"/receipts/{receipt}/replay", {}), ("/diff", {"from": {"receipt": receipt}, "to": {}})):
        refused = await ask(gateway, path, asked)
        assert (refused.status, b"128 levels" in refused.raw) == (409, True)


async def test_what_was_redacted_is_said(gateway: Client, upstream: Upstream) -> None:
    receipt = await chat(gateway, upstream, asked="My password: hunter2hunter2 does not work")
    again = await replay(gateway, receipt)
    assert again["receipt"]["omitted"] == ["credentials"]
    assert "hunter2" not in orjson.dumps(again).decode()


async def test_receipts_of_others_do_not_exist(gateway: Client, upstream: Upstream) -> None:
    receipt = await chat(gateway, upstream)
    for path, body in (
        (f"/receipts/{receipt}/replay", {}),
        ("/diff", {"from": {"receipt": receipt}, "to": {}}),
        ("/diff", {"from": {"query": "?"}, "to": {"receipt": receipt}}),
    ):
        assert (await ask(gateway, path, body, key=OTHER)).status == 404
        assert (await ask(gateway, path, body, key=HR)).status == 403


@pytest.mark.parametrize("agent", ["editor", "clerk"], ids=["a text", "a tool"])
async def test_what_the_caller_may_not_read_is_not_shown(gateway: Client, upstream: Upstream, agent: str) -> None:
    receipt = await chat(gateway, upstream, key=HR, agent=agent)
    assert "Salaries" in orjson.dumps(upstream.requests[-1]).decode()
    for path, body in (
        (f"/receipts/{receipt}/replay", {}),
        (f"/receipts/{receipt}/replay", {"query": "Hi", "as_of": "receipt"}),
        ("/diff", {"from": {"receipt": receipt}, "to": {}}),
        ("/diff", {"from": {"query": "?"}, "to": {"receipt": receipt}}),
    ):
        refused = await ask(gateway, path, body)
        assert (refused.status, refused.json["code"]) == (403, "forbidden")
        assert b"Salaries" not in refused.raw
        assert b"house/pay" not in refused.raw
        assert b"payroll/raise" not in refused.raw


async def test_hidden_turns_stay_the_senders_own(gateway: Client, upstream: Upstream) -> None:
    own = tool_call("get_context_resource", "own", resource_id="house/style")
    upstream.will(mixed(own, tool_call("get_weather", "oslo", city="Oslo")))
    said: dict[str, Any] = {"agent": "guard", "key": BOUND, "tools": [WEATHER]}
    asked = {"role": "user", "content": "Tidy this"}
    first = await gateway.chat([asked], **said)
    seen = {"role": "assistant", "content": None, "tool_calls": first.message["tool_calls"]}
    history = [asked, seen, {"role": "tool", "tool_call_id": "oslo", "content": "rain"}]
    receipt = await chat(gateway, upstream, 2, asked=history, **said)
    assert b"Use commas." in orjson.dumps(upstream.requests[-1])
    again = await replay(gateway, receipt)
    assert again["request"]["messages"][1:] == history
    assert b"Use commas." not in orjson.dumps(again)


async def test_a_replay_has_the_eyes_of_whoever_asked(gateway: Client, upstream: Upstream) -> None:
    """An admin who may act for users sees what Anna saw, and not what it could read besides."""
    receipt = await chat(gateway, upstream, context={"user": "anna"})
    assert "For Anna." in (await replay(gateway, receipt))["block"]
    plain = await chat(gateway, upstream, count=2)
    assert "For Anna." not in (await replay(gateway, plain))["block"]


@pytest.mark.parametrize(
    ("body", "status", "pointer"),
    [
        ({"versions": {"contexts/house": 1}}, 422, "/versions/contexts~1house"),
        ({"versions": {"contexts/none": 1}}, 422, "/versions/contexts~1none"),
        ({"versions": {"keys/admin": 1}}, 422, "/versions/keys~1admin"),
        ({"versions": {"contexts": 1}}, 422, "/versions/contexts"),
        ({"versions": {"contexts/house": 0}}, 422, "/versions/contexts~1house"),
        ({"drafts": ["contexts/none"]}, 422, "/drafts/0"),
        ({"context": {"session": "other"}}, 422, "/context/session"),
        ({"context": {"pin": ["house/extra"]}}, 422, "/context/pin"),
        ({"request": {"messages": [], "context": {}}}, 422, "/request/context"),
        ({"as_of": "never"}, 422, "/as_of"),
        ({"as_of": "2001-01-01"}, 409, None),
        ({"unknown": 1}, 422, "/unknown"),
    ],
)
async def test_bad_input_gets_a_clear_error(
    gateway: Client, upstream: Upstream, body: dict[str, Any], status: int, pointer: str | None
) -> None:
    receipt = await chat(gateway, upstream)
    refused = await ask(gateway, f"/receipts/{receipt}/replay", body)
    assert refused.status == status, refused.text
    if pointer is not None:
        assert any(one["pointer"].startswith(pointer) for one in refused.json["errors"]), refused.text


async def test_a_time_needs_a_receipt_or_a_moment(gateway: Client) -> None:
    refused = await ask(gateway, "/diff", {"from": {"query": "?"}, "to": {"as_of": "receipt"}})
    assert (refused.status, refused.json["errors"][0]["pointer"]) == (422, "/to/as_of")


async def test_chat_keys_compare_under_the_current_policies_only(gateway: Client) -> None:
    one, other = {"query": "?", "context": {"agent": "editor"}}, {"query": "?", "context": {"agent": "guard"}}
    shown = await ask(gateway, "/diff", {"from": one, "to": other}, key=HR)
    assert shown.status == 200
    assert [change["pointer"] for change in shown.json["fields"]] == ["/temperature"]
    for policies in ({"drafts": True}, {"versions": {"contexts/mine": 1}}, {"as_of": "2030-01-01T00:00:00Z"}):
        refused = await ask(gateway, "/diff", {"from": one, "to": {**other, **policies}}, key=HR)
        assert (refused.status, refused.json["code"]) == (403, "forbidden")
