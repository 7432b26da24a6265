"""`previous_response_id`, `store` and `/v1/responses/{id}`: kept by the upstream, or by the gateway."""

import hashlib
from typing import Any

import aiohttp
import orjson
import pytest

from tests.support.gateway import STYLE, STYLE_RESULT, Client, ClientReply, Start, read
from tests.support.spoken import CHAT, RESPONSES, Entry
from tests.support.upstream import Canned, Response, Upstream, mixed, say, status, tool_call

GET = "get_context_resource"
OWN = tool_call(GET, "own", resource_id=STYLE)
OSLO = tool_call("get_weather", "oslo", city="Oslo")
SUNNY = Entry("result", "sunny", "oslo")
KEYS = [{"name": name, "sha256": hashlib.sha256(name.encode()).hexdigest()} for name in ("one", "two")]


async def ask(client: Client, *entries: Entry, key: str = "", agent: str = "editor", **options: Any) -> ClientReply:
    body = RESPONSES.write(entries or [Entry("user", "Hi")], **options)
    headers = {"authorization": f"Bearer {key}"} if key else {}
    return await client.post(orjson.dumps(body), path="/responses", x_context_agent=agent, **headers)


async def call(client: Client, method: str, path: str, **headers: str) -> ClientReply:
    url = f"{client.base_url}/responses/{path}"
    async with aiohttp.ClientSession() as session, session.request(method, url, headers=headers) as response:
        return await read(response)


def understood(reply: ClientReply) -> Any:
    assert reply.status == 200, reply.raw
    return (RESPONSES.read_stream if reply.streamed else RESPONSES.read_whole)(reply.raw)


def sent(upstream: Upstream) -> list[Entry]:
    return RESPONSES.read_request(upstream.requests[-1])


async def test_a_native_upstream_continues_its_own_response(gateway: Client, upstream: Upstream, stream: bool):
    upstream.will(say("First."), say("Second."))
    first = understood(await ask(gateway, agent="bare", stream=stream))
    second = await ask(gateway, Entry("user", "More"), agent="bare", stream=stream, previous_response_id=first.id)
    assert upstream.requests[1]["previous_response_id"] == "resp_1"
    assert understood(second).texts == ["Second."]


async def test_hidden_turns_are_continued_where_the_upstream_left_them(
    gateway: Client, upstream: Upstream, stream: bool
):
    """The client knows the id of the first turn, the upstream has to be told that of the last."""
    upstream.will(mixed(OWN), say("First."), say("Second."))
    first = understood(await ask(gateway, stream=stream))
    assert first.id == "resp_1"
    reply = await ask(gateway, Entry("user", "More"), stream=stream, previous_response_id=first.id)
    assert upstream.requests[2]["previous_response_id"] == "resp_2"
    assert sent(upstream) == [Entry("user", "More")]
    assert b'"previous_response_id":"resp_1"' in reply.raw


async def test_a_mixed_turn_comes_back_by_previous_response_id(gateway: Client, upstream: Upstream, stream: bool):
    upstream.will(mixed(OWN, OSLO), say("Sunny."))
    first = understood(await ask(gateway, stream=stream, tools=["get_weather"]))
    assert [one[0] for one in first.calls] == ["oslo"]
    await ask(gateway, SUNNY, stream=stream, tools=["get_weather"], previous_response_id=first.id)
    assert upstream.requests[1]["previous_response_id"] == "resp_1"
    assert sent(upstream) == [Entry("result", STYLE_RESULT, "own"), SUNNY]


@pytest.mark.parametrize("previous", ["resp_of_somebody", "", "é" * 3000])
async def test_what_is_not_the_caller_s_cannot_be_continued(gateway: Client, upstream: Upstream, previous: str):
    if not previous:
        upstream.will(say("Fine."))
    reply = await ask(gateway, previous_response_id=previous)
    if previous:
        assert (reply.status, reply.error["code"]) == (400, "previous_response_not_found")
        assert reply.error["param"] == "previous_response_id"


async def test_a_response_that_is_not_to_be_stored_cannot_be_continued(gateway: Client, upstream: Upstream):
    upstream.will(mixed(OWN).but(top={"id": "resp_unstored"}), say("First."))
    first = understood(await ask(gateway, store=False))
    assert upstream.requests[0]["include"] == ["reasoning.encrypted_content"]
    assert (await ask(gateway, previous_response_id=first.id)).status == 400
    assert (await call(gateway, "GET", first.id)).status == 404


async def test_background_and_shared_conversations_are_refused(gateway: Client, upstream: Upstream):
    for field, value in (("background", True), ("conversation", "conv_1")):
        options: dict[str, Any] = {field: value}
        reply = await ask(gateway, **options)
        assert (reply.status, reply.error["param"]) == (400, field)


async def test_a_response_is_read_as_the_client_saw_it(gateway: Client, upstream: Upstream, stream: bool):
    upstream.will(mixed(OWN, text="Hm."), say("First."))
    first = await ask(gateway, stream=stream)
    known = understood(first)
    again = await call(gateway, "GET", known.id)
    assert RESPONSES.read_whole(again.raw).entries == known.entries
    assert GET.encode() not in again.raw
    items = (await call(gateway, "GET", f"{known.id}/input_items")).json
    assert [item["content"][0]["text"] for item in items["data"]] == ["Hi"]
    assert not items["has_more"]


TOLD = {"id": "resp_1", "object": "response", "instructions": "Ours and yours.", "tools": [{"type": "x"}], "output": []}


def tell(body: bytes, media: str = "application/json") -> Canned:
    return Canned(Response(200, media, (body,)))


async def test_what_the_upstream_keeps_is_read_there_without_what_we_added(
    gateway: Client, upstream: Upstream, stream: bool
):
    """One turn needs no copy: only what the client sent of the fields that we changed is kept."""
    upstream.will(say("First."), tell(orjson.dumps(TOLD)), tell(b'{"data":[]}'))
    known = understood(await ask(gateway, stream=stream, instructions="Yours."))
    assert upstream.requests[0]["instructions"] != "Yours."
    read = (await call(gateway, "GET", known.id)).json
    assert read == TOLD | {"instructions": "Yours.", "tools": []}
    assert (await call(gateway, "GET", f"{known.id}/input_items")).json == {"data": []}
    assert [one.path for one in upstream.seen[1:]] == ["/v1/responses/resp_1", "/v1/responses/resp_1/input_items"]


@pytest.mark.parametrize("query", ["", "?stream=true"])
async def test_what_the_upstream_tells_in_another_form_is_not_shown(gateway: Client, upstream: Upstream, query: str):
    events = b"data: " + orjson.dumps(TOLD) + b"\n\n"
    upstream.will(say("First."), *([] if query else [tell(events, "text/event-stream")]))
    known = understood(await ask(gateway))
    reply = await call(gateway, "GET", known.id + query)
    assert reply.status == (400 if query else 502)
    assert b"Ours" not in reply.raw


async def test_a_relayed_response_is_read_at_the_upstream(gateway: Client, upstream: Upstream):
    kept = orjson.dumps({"id": "resp_1", "object": "response", "output": []})
    upstream.will(say("First."), Canned(Response(200, "application/json", (kept,))))
    known = understood(await ask(gateway, agent="bare"))
    reply = await call(gateway, "GET", f"{known.id}?include=x")
    assert reply.raw == kept
    assert (upstream.seen[1].method, upstream.seen[1].path) == ("GET", "/v1/responses/resp_1?include=x")


async def test_what_was_relayed_and_what_got_context_are_told_apart(gateway: Client, upstream: Upstream):
    """Although both are kept together, and no client has sent instructions."""
    upstream.will(*(say("Hi").but(top={"id": f"r{number}"}) for number in range(4)))
    for agent in ("bare", "greeter", "bare", "greeter"):  # the first one asks the store for the quota
        await ask(gateway, agent=agent)
    added = orjson.dumps({"object": "response", "instructions": "Added by the gateway", "tools": [], "output": []})
    upstream.will(tell(added), tell(added))
    assert b"Added" in (await call(gateway, "GET", "r2")).raw  # which the upstream says of itself
    assert b"Added" not in (await call(gateway, "GET", "r3")).raw


async def test_a_deleted_response_is_gone(gateway: Client, upstream: Upstream):
    upstream.will(say("First."), Canned(Response(200, "application/json", (b'{"deleted":true}',))))
    known = understood(await ask(gateway, agent="bare"))
    reply = await call(gateway, "DELETE", known.id)
    assert reply.json == {"id": known.id, "object": "response", "deleted": True}
    assert upstream.seen[1].method == "DELETE"
    assert (await call(gateway, "GET", known.id)).status == 404
    assert (await call(gateway, "DELETE", known.id)).status == 404


async def test_what_the_upstream_does_not_delete_stays(gateway: Client, upstream: Upstream):
    upstream.will(say("First."), status(500))
    known = understood(await ask(gateway, agent="bare"))
    assert (await call(gateway, "DELETE", known.id)).status == 500


async def test_nothing_can_be_cancelled(gateway: Client, upstream: Upstream):
    upstream.will(say("First."))
    known = understood(await ask(gateway))
    assert (await call(gateway, "POST", f"{known.id}/cancel")).status == 400
    assert (await call(gateway, "POST", "resp_x/cancel")).status == 404
    assert (await call(gateway, "PUT", known.id)).status == 405


async def test_the_responses_of_another_key_do_not_exist(start: Start, upstream: Upstream):
    client = start(auth={"keys": KEYS}, upstream_settings={"responses": True})
    upstream.will(mixed(OWN), say("First."), say("Second."))
    first = understood(await ask(client, key="one"))
    stranger, owner = {"authorization": "Bearer two"}, {"authorization": "Bearer one"}
    for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/input_items"), ("POST", "/cancel")):
        assert (await call(client, method, first.id + path, **stranger)).status == 404
    assert (await ask(client, key="two", previous_response_id=first.id)).status == 400
    assert (await call(client, "GET", first.id, **owner)).status == 200
    assert understood(await ask(client, key="one", previous_response_id=first.id)).texts == ["Second."]


async def test_an_upstream_of_the_caller_s_own_account_knows_its_responses_itself(start: Start, upstream: Upstream):
    settings = {"responses": True, "pass_bearer": True, "api_key": None}
    client = start(upstream_settings=settings)
    upstream.will(say("Fine."))
    assert (await ask(client, agent="bare", previous_response_id="resp_elsewhere")).status == 200
    assert upstream.requests[0]["previous_response_id"] == "resp_elsewhere"


@pytest.fixture
def translated(start: Start) -> Client:
    """A gateway whose upstream has no responses: the gateway keeps them itself."""
    return start()


async def test_the_gateway_keeps_what_the_upstream_cannot(translated: Client, upstream: Upstream, stream: bool):
    upstream.will(mixed(OWN, text="Hm."), say("First."), say("Second."), say("Third."))
    first = understood(await ask(translated, stream=stream))
    assert first.texts == ["Hm.", "First."]
    second = understood(await ask(translated, Entry("user", "More"), stream=stream, previous_response_id=first.id))
    await ask(translated, Entry("user", "And?"), stream=stream, previous_response_id=second.id)
    said = CHAT.read_request(upstream.requests[-1])
    assert [one.text for one in said if one.kind == "user"] == ["Hi", "More", "And?"]
    assert [one.text for one in said if one.kind == "assistant"] == ["Hm.", "First.", "Second."]
    assert Entry("result", STYLE_RESULT, "own") in said
    assert "previous_response_id" not in upstream.requests[-1]


async def test_a_mixed_turn_that_the_gateway_keeps_comes_back(translated: Client, upstream: Upstream, stream: bool):
    upstream.will(mixed(OWN, OSLO), say("Sunny."))
    first = understood(await ask(translated, stream=stream, tools=["get_weather"]))
    assert [one[0] for one in first.calls] == ["oslo"]
    second = await ask(translated, SUNNY, stream=stream, tools=["get_weather"], previous_response_id=first.id)
    assert understood(second).texts == ["Sunny."]
    said = CHAT.read_request(upstream.requests[-1])
    assert [one.id for one in said if one.kind == "call"] == ["own", "oslo"]
    assert {one for one in said if one.kind == "result"} == {Entry("result", STYLE_RESULT, "own"), SUNNY}


async def test_a_kept_response_is_read_and_deleted(translated: Client, upstream: Upstream):
    upstream.will(mixed(OWN), say("First."))
    known = understood(await ask(translated))
    assert RESPONSES.read_whole((await call(translated, "GET", known.id)).raw).entries == known.entries
    assert (await call(translated, "DELETE", known.id)).json["deleted"]
    assert (await ask(translated, previous_response_id=known.id)).error["code"] == "previous_response_not_found"


async def test_items_without_an_id_or_with_null_for_one_get_one(translated: Client, upstream: Upstream):
    upstream.will(say("Fine."))
    items = [{"role": "user", "content": "One", "id": None}, {"role": "user", "content": "Two"}]
    asked = await translated.post(orjson.dumps({"model": "m-large", "input": items}), path="/responses")
    listed = await call(translated, "GET", f"{asked.json['id']}/input_items?order=asc")
    assert [one["id"] for one in listed.json["data"]] == ["item_0", "item_1"]


FOREIGN = b'"type":"item_reference","id":"msg_foreign"'
MINE = b'"type":"message","role":"user","content":"x"'


@pytest.mark.parametrize(
    "said",
    [
        b'"input":"x","previous_response_id":"resp_foreign","previous_response_id":null',
        b'"input":"x","previous_response_id":"resp_foreign","previous_response_i\\u0064":null',
        b'"input":"x","conversation":"conv_foreign","conversation":null',
        b'"input":[{%b}],"input":"x"' % FOREIGN,
        b'"input":[{%b,%b}]' % (FOREIGN, MINE),
        b'"input":[{%b,%b}]' % (FOREIGN.replace(b"item_r", b"item_\\u0072"), MINE.replace(b"user", b"assistant")),
    ],
)
async def test_what_is_said_twice_goes_up_once_as_it_was_checked(gateway: Client, upstream: Upstream, said: bytes):
    """An upstream may take the first, and would find what belongs to others on the same account."""
    upstream.will(say("Fine."))
    reply = await gateway.post(b'{"model":"m-large",%b}' % said, path="/responses", x_context_agent="bare")
    assert reply.status == 200, reply.raw
    sent = upstream.bodies[-1]
    assert b"resp_foreign" not in sent
    assert b"conv_foreign" not in sent
    assert b"reference" not in sent.replace(b"\\u0072", b"r")
