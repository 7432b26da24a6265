"""`item_reference`: what a request names by its id comes from the caller's own responses, or is refused."""

from typing import Any

import orjson
import pytest

from tests.support.gateway import STYLE_RESULT, Client, ClientReply, Start
from tests.support.spoken import CHAT, CHAT_MODEL, RESPONSES, Entry
from tests.support.upstream import Upstream, mixed, say
from tests.wire.test_stored_responses import KEYS, OSLO, OWN, call, understood

HI = {"role": "user", "content": "Hi"}
MORE = {"role": "user", "content": "More"}


async def ask(client: Client, items: list[Any], agent: str = "editor", key: str = "", **options: Any) -> ClientReply:
    body = {"model": "m-large", "input": items, **options}
    headers = {"authorization": f"Bearer {key}"} if key else {}
    return await client.post(orjson.dumps(body), path="/responses", x_context_agent=agent, **headers)


def refer(item: dict[str, Any], typed: bool = True) -> dict[str, Any]:
    return {"type": "item_reference", "id": item["id"]} if typed else {"id": item["id"]}


def list_output(reply: ClientReply) -> list[dict[str, Any]]:
    """The items of a response as it was in the end."""
    assert understood(reply).complete
    found = reply.json if not reply.streamed else reply.raw.split(b"data: ")[-1]
    return list((found if isinstance(found, dict) else orjson.loads(found)["response"])["output"])


@pytest.mark.parametrize("typed", [True, False])
async def test_an_item_that_the_gateway_keeps_is_put_in(gateway: Client, upstream: Upstream, stream: bool, typed: bool):
    upstream.will(say("First.", reasoning_content="Why."), say("Second."), say("Third."))
    output = list_output(await ask(gateway, [HI], stream=stream, model=CHAT_MODEL))
    assert [item["type"] for item in output] == ["reasoning", "message"]
    items = [HI, *(refer(item, typed) for item in output), MORE]
    second = await ask(gateway, items, stream=stream, model=CHAT_MODEL)
    told = [Entry("user", "Hi"), Entry("reasoning", "Why."), Entry("assistant", "First."), Entry("user", "More")]
    assert CHAT.read_request(upstream.requests[1]) == told
    third = await ask(gateway, [HI], model=CHAT_MODEL, previous_response_id=understood(second).id)
    assert third.status == 200  # what was referred to belongs to the conversation
    assert CHAT.read_request(upstream.requests[2])[: len(told)] == told


async def test_hidden_turns_come_back_beside_a_reference(gateway: Client, upstream: Upstream, stream: bool):
    for model, known in ((CHAT_MODEL, CHAT), ("m-large", RESPONSES)):
        upstream.reset()
        upstream.will(mixed(OWN, OSLO), say("Sunny."))
        options: dict[str, Any] = {"tools": RESPONSES.write([], tools=["get_weather"])["tools"], "model": model}
        output = list_output(await ask(gateway, [HI], stream=stream, **options))
        result = {"type": "function_call_output", "call_id": "oslo", "output": "sunny"}
        assert (await ask(gateway, [HI, refer(output[0]), result], stream=stream, **options)).status == 200
        said = known.read_request(upstream.requests[1])
        assert [one.id for one in said if one.kind == "call"] == ["own", "oslo"]
        assert Entry("result", STYLE_RESULT, "own") in said


async def test_a_reference_to_what_the_upstream_keeps_is_relayed(gateway: Client, upstream: Upstream):
    upstream.will(say("First."), say("Second."))
    (item,) = list_output(await ask(gateway, [HI], agent="bare"))
    body = [HI, refer(item), MORE]
    assert (await ask(gateway, body, agent="bare")).status == 200
    assert upstream.requests[1]["input"] == body
    elsewhere = await ask(gateway, body, model=CHAT_MODEL)
    assert (elsewhere.status, elsewhere.error["param"]) == (400, "input[1].id")
    assert item["id"] in elsewhere.error["message"]


@pytest.mark.parametrize("identity", ["msg_unknown", "", "é" * 2000, "x" * 1_000_000])
@pytest.mark.parametrize("model", ["m-large", CHAT_MODEL])
async def test_an_unknown_item_is_refused_by_its_name(gateway: Client, upstream: Upstream, identity: str, model: str):
    written = orjson.dumps(identity)
    body = b'{"model":"%b","input":[{"type":"item_reference","id":%b}]}' % (model.encode(), written)
    reply = await gateway.post(body, path="/responses", x_context_agent="editor")
    assert (reply.status, reply.error["param"]) == (400, "input[0].id")
    assert identity[:20].encode(errors="replace")[:8] in reply.raw
    assert len(reply.raw) < 2000


@pytest.mark.parametrize("role", [b"", b'"role":"user",'])
async def test_a_reference_in_disguise_is_one(gateway: Client, upstream: Upstream, role: bytes):
    item = rb'{%b"type":"item\u005freference","id":"msg_foreign"}' % role
    body = b'{"model":"m-large","input":[%b]}' % item
    reply = await gateway.post(body, path="/responses", x_context_agent="editor")
    assert (reply.status, reply.error["param"]) == (400, "input[0].id")
    assert not upstream.requests


@pytest.mark.parametrize("image", [{}, {"result": None}, {"result": "", "status": "completed"}])
async def test_an_image_that_is_only_named_is_a_reference(gateway: Client, upstream: Upstream, image: dict[str, Any]):
    reply = await ask(gateway, [HI, {"type": "image_generation_call", "id": "ig_foreign", **image}], agent="bare")
    assert (reply.status, reply.error["param"]) == (400, "input[1].id")
    assert not upstream.requests
    upstream.will(say("Fine."))
    sent = {"type": "image_generation_call", "id": "ig_foreign", "result": "aGk=", "status": "completed"}
    assert (await ask(gateway, [HI, sent], agent="bare")).status == 200
    assert upstream.requests[0]["input"][1] == sent


async def test_items_of_another_key_or_a_deleted_response_do_not_exist(start: Start, upstream: Upstream):
    for settings in ({"responses": True}, {}):
        client = start(auth={"keys": KEYS}, upstream_settings=settings)
        upstream.will(say("First."), say("Second."), *([say("Deleted.")] if settings else []))
        reply = await ask(client, [HI], key="one")
        (item,) = list_output(reply)
        refused = await ask(client, [refer(item), MORE], key="two")
        assert (refused.status, refused.error["param"]) == (400, "input[0].id")
        assert (await ask(client, [refer(item), MORE], key="one")).status == 200
        await call(client, "DELETE", understood(reply).id, authorization="Bearer one")
        assert (await ask(client, [refer(item), MORE], key="one")).status == 400


async def test_an_item_of_a_response_that_is_not_stored_cannot_be_named(gateway: Client, upstream: Upstream):
    upstream.will(say("First.").but(top={"id": "resp_unkept"}))
    (item,) = list_output(await ask(gateway, [HI], model=CHAT_MODEL, store=False))
    assert (await ask(gateway, [refer(item)], model=CHAT_MODEL)).status == 400


async def test_the_caller_s_own_account_knows_its_items(start: Start, upstream: Upstream):
    client = start(upstream_settings={"responses": True, "pass_bearer": True, "api_key": None})
    upstream.will(say("Fine."))
    items = [{"type": "item_reference", "id": "msg_elsewhere"}]
    assert (await ask(client, items, agent="bare")).status == 200
    assert upstream.requests[0]["input"] == items


async def test_more_references_than_anybody_needs_are_refused(gateway: Client, upstream: Upstream):
    reply = await ask(gateway, [{"type": "item_reference", "id": f"msg_{n}"} for n in range(1001)])
    assert (reply.status, reply.error["param"]) == (400, "input")
