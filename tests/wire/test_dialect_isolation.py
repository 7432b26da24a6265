"""What holds in chat holds wherever else a request can enter: other dialects, Azure's paths, count_tokens, MCP."""

from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import aiohttp
import orjson
import pytest

from tests.support.contract_policies import text
from tests.support.gateway import STYLE, Client, ClientReply, Start, Thread, read, running_gateway
from tests.support.management_client import manage
from tests.support.spoken import RESPONSES, Entry
from tests.support.upstream import Upstream, mixed, say, tool_call

FETCH = "get_context_resource"
OWN = tool_call(FETCH, "own", resource_id=STYLE)
OSLO = tool_call("get_weather", "oslo", city="Oslo")
SUNNY = Entry("result", "sunny", "oslo")
SECRET = "serial comma"  # in what OWN fetches
QUESTION = [{"role": "user", "content": "Hi"}]

# Every way in that ends in a prompt, with the body that asks a question.
ENTRANCES: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", {"messages": QUESTION}),
    "azure": ("/openai/deployments/m-large/chat/completions?api-version=1", {"messages": QUESTION}),
    "responses": ("/v1/responses", {"input": "Hi"}),
    "messages": ("/v1/messages", {"messages": QUESTION, "max_tokens": 9}),
}


def configured(secret: str, **said: Any) -> dict[str, Any]:
    return {"name": secret, "sha256": sha256(secret.encode()).hexdigest(), **said}


POLICIES: dict[str, Any] = {
    "contexts": {
        "legal": {"mandatory": True, "resources": {"law": text("Obey the law.", name="Law")}},
        "desk": {"resources": {"rule": text("Be exact.", name="Rule")}},
        "rival": {"resources": {"rule": text("Be vague.", name="No rule")}},
        "board": {"resources": {"plan": text("Buy them.", name="Plan", readers=["group:board"])}},
    },
    "agents": {
        "clerk": {"instructions": "You are the clerk.", "contexts": ["desk"]},
        "free": {"instructions": "You are free.", "contexts": ["rival"], "model": "m-free"},
        "hidden": {"contexts": ["board"]},
    },
    "content": {
        "site": {"title": "Site", "body": "Open."},
        "vault": {"title": "Vault", "body": "Closed.", "readers": ["group:board"]},
    },
}
AUTH = {
    "keys": [
        configured("bound", agent="clerk"),
        configured("some", agents=["clerk"]),
        configured("modest", models=["m-small"]),
        configured("plain"),
        configured("acting", rights=["act_as_user"]),
        configured("foreign", workspace="elsewhere"),
    ]
}


@pytest.fixture(scope="module")
def guarded(thread: Thread, scripted: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    directory = tmp_path_factory.mktemp("guarded")
    with running_gateway(thread, directory, scripted.base_url, POLICIES, auth=AUTH) as client:
        yield client


async def send(
    client: Client, path: str, body: Any, key: str = "", method: str = "POST", **context: str
) -> ClientReply:
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    headers |= {f"x-context-{name}": value for name, value in context.items()}
    if key:
        headers["authorization"] = f"Bearer {key}"
    url = f"http://127.0.0.1:{client.port}{path}"
    data = body if isinstance(body, bytes) else orjson.dumps(body)
    async with aiohttp.ClientSession() as session, session.request(method, url, data=data, headers=headers) as response:
        return await read(response)


@pytest.fixture(params=ENTRANCES)
def entrance(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    return ENTRANCES[request.param]


@pytest.mark.parametrize("said", [{}, {"agent": "free"}, {"inject": "off", "contexts": "rival", "budget": "0"}])
async def test_a_bound_key_gets_its_agent_by_every_entrance(
    guarded: Client, upstream: Upstream, entrance: tuple[str, dict[str, Any]], said: dict[str, str]
) -> None:
    upstream.will(say("Done."))
    path, body = entrance
    reply = await send(guarded, path, {"model": "m-large", **body}, "bound", **said)
    assert reply.status == 200, reply.raw
    sent = orjson.dumps(upstream.requests[0]).decode()
    assert all(part in sent for part in ("Obey the law.", "Be exact.", "You are the clerk."))
    assert "Be vague." not in sent
    assert "You are free." not in sent


async def test_mandatory_contexts_hold_by_every_entrance(
    guarded: Client, upstream: Upstream, entrance: tuple[str, dict[str, Any]]
) -> None:
    upstream.will(say("Done."))
    path, body = entrance
    said = {"inject": "off", "exclude": "legal/law", "language": "xx", "budget": "0"}
    assert (await send(guarded, path, {"model": "m-large", **body}, "plain", **said)).status == 200
    assert "Obey the law." in orjson.dumps(upstream.requests[0]).decode()


async def test_a_key_for_some_agents_and_models_is_held_to_them_by_every_entrance(
    guarded: Client, upstream: Upstream, entrance: tuple[str, dict[str, Any]]
) -> None:
    path, body = entrance
    unnamed = await send(guarded, path, {"model": "m-large", **body}, "some", inject="off")
    other = await send(guarded, path, {"model": "agent:free", **body}, "some")
    assert (unnamed.status, b"agent only" in unnamed.raw) == (400, True)
    if "azure" not in path and "deployments" not in path:
        assert other.status == 400
        assert b"unknown" in other.raw.lower()
        doubled = b'{"model": "m-large", ' + orjson.dumps(body)[1:-1] + b', "model": "m-small"}'
        assert (await send(guarded, path, doubled, "modest")).status == 400
    assert (await send(guarded, path, {"model": "m-large", **body}, "modest")).status == 403
    assert not upstream.seen


async def test_counting_tokens_adds_what_a_message_would_get(guarded: Client, upstream: Upstream) -> None:
    path, body = "/v1/messages/count_tokens", {"model": "m-large", "messages": QUESTION}
    bound = await send(guarded, path, body, "bound", inject="off", agent="free")
    plain = await send(guarded, path, body, "plain", inject="off")
    assert bound.json["input_tokens"] > plain.json["input_tokens"]  # that of the clerk besides the law
    assert (await send(guarded, path, body, "some")).status == 400
    assert (await send(guarded, path, {**body, "model": "m-other"}, "modest")).status == 403


def erase(reply: ClientReply, *names: str) -> tuple[int, dict[str, str], bytes]:
    """A reply without the name that it is about, and without what differs each time."""
    raw = reply.raw
    for name in names:
        raw = raw.replace(name.encode(), b"NAME")
    left_out = {"date", "x-context-receipt", "content-length"}
    return reply.status, {name: value for name, value in reply.headers.items() if name not in left_out}, raw


@pytest.mark.parametrize(
    ("header", "forbidden", "unknown"),
    [("content", "vault", "vxxlt"), ("contexts", "board", "bxxrd")],
)
async def test_what_is_forbidden_looks_like_what_does_not_exist(
    guarded: Client, entrance: tuple[str, dict[str, Any]], header: str, forbidden: str, unknown: str
) -> None:
    path, body = entrance
    said = [
        await send(guarded, path, {"model": "m-large", **body}, "plain", **{header: name})
        for name in (forbidden, unknown)
    ]
    assert erase(said[0], forbidden) == erase(said[1], unknown)
    assert said[0].status == 400


def ask_mcp(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("resources/read", lambda name: {"uri": f"context://board/{name}"}),
        ("tools/call", lambda name: {"name": FETCH, "arguments": {"resource_id": f"board/{name}"}}),
    ],
)
async def test_mcp_tells_no_difference_either(guarded: Client, method: str, params: Any) -> None:
    said = [
        await send(guarded, "/mcp", ask_mcp(method, **params(name)), "plain", agent="hidden")
        for name in ("plan", "plxn")
    ]
    assert erase(said[0], "plan") == erase(said[1], "plxn")
    assert b"Buy them." not in said[0].raw


@pytest.mark.parametrize("said", [{}, {"agent": "free"}, {"inject": "off"}])
async def test_a_bound_key_has_the_resources_of_its_agent_over_mcp(guarded: Client, said: dict[str, str]) -> None:
    listed = await send(guarded, "/mcp", ask_mcp("resources/list"), "bound", **said)
    assert listed.status == 200, listed.raw
    assert b"context://desk/rule" in listed.raw
    for foreign in ("rival", "board"):
        read = await send(guarded, "/mcp", ask_mcp("resources/read", uri=f"context://{foreign}/rule"), "bound", **said)
        assert (b"Be vague." in read.raw, b"Buy them." in read.raw) == (False, False)


async def test_responses_of_others_look_like_none(start: Start, upstream: Upstream) -> None:
    client = start(policies=POLICIES, auth=AUTH)
    upstream.will(say("First."))
    first = await send(client, "/v1/responses", {"model": "m-large", "input": "Hi"}, "acting", user="ada")
    known, unknown = first.json["id"], "resp_" + "0" * (len(first.json["id"]) - 5)
    strangers = [("plain", {}), ("foreign", {}), ("acting", {}), ("acting", {"user": "bob"})]
    for key, said in strangers:
        for method, below in (("GET", ""), ("DELETE", ""), ("GET", "/input_items"), ("POST", "/cancel")):
            replies = [
                await send(client, f"/v1/responses/{name}{below}", b"", key, method, **said)
                for name in (known, unknown)
            ]
            assert erase(replies[0], known) == erase(replies[1], unknown)
            assert replies[0].status == 404
        continuing = [
            await send(
                client,
                "/v1/responses",
                {"model": "m-large", "input": "More", "previous_response_id": name},
                key,
                **said,
            )
            for name in (known, unknown)
        ]
        assert erase(continuing[0], known) == erase(continuing[1], unknown)
        assert continuing[0].json["error"]["code"] == "previous_response_not_found"
    mine = await send(client, f"/v1/responses/{known}", b"", "acting", "GET", user="ada")
    assert mine.status == 200


async def ask(client: Client, *entries: Entry, agent: str, **options: Any) -> ClientReply:
    body = RESPONSES.write(entries or [Entry("user", "Hi")], **options)
    return await client.post(orjson.dumps(body), path="/responses", x_context_agent=agent)


async def test_what_is_continued_is_checked_again(start: Start, upstream: Upstream) -> None:
    """The results of our tools belong to the agent that fetched them; another one may not read as much."""
    client = start()  # the gateway keeps the response
    upstream.will(mixed(OWN), say("First."), say("Second."), say("Third."))
    first = (await ask(client, agent="editor")).json["id"]
    other = await ask(client, Entry("user", "More"), agent="greeter", previous_response_id=first)
    assert other.status == 200, other.raw
    assert SECRET not in orjson.dumps(upstream.requests[-1]).decode()
    assert "not available any more" in orjson.dumps(upstream.requests[-1]).decode()
    again = await ask(client, Entry("user", "And?"), agent="editor", previous_response_id=other.json["id"])
    assert again.status == 200
    assert SECRET in orjson.dumps(upstream.requests[-1]).decode()


async def test_results_that_still_wait_are_checked_again(start: Start, upstream: Upstream) -> None:
    client = start(upstream_settings={"responses": True})
    upstream.will(mixed(OWN, OSLO), say("Sunny."))
    first = (await ask(client, agent="editor", tools=["get_weather"])).json["id"]
    await ask(client, SUNNY, agent="greeter", tools=["get_weather"], previous_response_id=first)
    assert SECRET not in orjson.dumps(upstream.requests[-1]).decode()
    assert [one.id for one in RESPONSES.read_request(upstream.requests[-1])] == ["own", "oslo"]


async def test_a_conversation_that_the_upstream_keeps_is_not_continued_by_who_may_not_read_it(
    start: Start, upstream: Upstream
) -> None:
    client = start(upstream_settings={"responses": True})
    upstream.will(mixed(OWN), say("First."), say("Second."))
    first = (await ask(client, agent="editor")).json["id"]
    refused = await ask(client, Entry("user", "More"), agent="greeter", previous_response_id=first)
    assert (refused.status, refused.error["code"]) == (400, "previous_response_not_found")
    assert len(upstream.requests) == 2
    second = await ask(client, Entry("user", "More"), agent="editor", previous_response_id=first)
    assert second.status == 200
    late = await ask(client, agent="greeter", previous_response_id=second.json["id"])
    assert late.status == 400  # what was known before is known for good


async def test_a_key_named_like_a_user_does_not_see_what_that_user_did(start: Start, upstream: Upstream) -> None:
    keys = [configured("ada"), configured("proxy", rights=["act_as_user"]), configured("root", role="admin")]
    client = start(policies=POLICIES, auth={"keys": keys})
    upstream.will(say("Fine."), say("Fine."))
    path, body = ENTRANCES["chat"]

    async def list_done(query: str) -> list[str]:
        said = await manage(client, "GET", f"/activity{query}", authorization="Bearer root")
        return [one["node"] for one in said.json["items"]]

    await send(client, path, {"model": "m-large", **body}, "ada", content="site")
    assert await list_done("?user=ada") == []
    await send(client, path, {"model": "m-large", **body}, "proxy", content="site", user="ada")
    assert (await list_done("?user=ada"), await list_done("")) == (["site"], [])
