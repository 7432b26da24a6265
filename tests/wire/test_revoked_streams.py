"""A stream whose key is revoked while it is open ends with an error that clients understand."""

import asyncio
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import aiohttp
import orjson
import pytest

from tests.support.gateway import Client, ClientReply, Thread, read, running_gateway
from tests.support.management_client import manage
from tests.support.upstream import Canned, Gate, Response, Upstream, sse, wait_for

ROOT = {"name": "root", "sha256": sha256(b"root").hexdigest(), "role": "admin"}
HI = [{"role": "user", "content": "Hi"}]
CHAT_EVENT = sse({"id": "c", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": "On"}}]})
RESPONSE: dict[str, Any] = {"id": "resp_1", "object": "response", "status": "in_progress", "output": []}
RESPONSES_EVENT = sse({"type": "response.created", "sequence_number": 0, "response": RESPONSE})
STARTED = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": "m", "usage": {}}
MESSAGES_EVENT = sse({"type": "message_start", "message": STARTED})

# The path, the body, and what an upstream's stream begins with.
STREAMS: dict[str, tuple[str, dict[str, Any], bytes]] = {
    "chat": ("/chat/completions", {"messages": HI}, CHAT_EVENT),
    "responses": ("/responses", {"input": "Hi"}, RESPONSES_EVENT),
    "messages": ("/messages", {"messages": HI, "max_tokens": 9}, MESSAGES_EVENT),
    "passthrough": ("/completions", {"prompt": "Hi"}, sse({"choices": [{"text": "On", "index": 0}]})),
}
UPSTREAMS = {"chat": "m-large", "responses": "m-large", "messages": "claude", "passthrough": "m-large"}


@pytest.fixture(scope="module")
def keyed(thread: Thread, scripted: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    account = {"base_url": scripted.base_url, "api_key": "sk-upstream", "retries": 0}
    upstreams = {
        "scripted": {"kind": "openai", "responses": True, **account},
        "claude": {"kind": "anthropic", **account},
    }
    routes = [{"model": "claude", "upstream": "claude"}, {"model": "*", "upstream": "scripted"}]
    directory = tmp_path_factory.mktemp("revoked")
    settings: dict[str, Any] = {"auth": {"keys": [ROOT]}, "upstreams": upstreams, "routes": routes}
    with running_gateway(thread, directory, scripted.base_url, **settings) as client:
        yield client


async def make_key(client: Client) -> dict[str, Any]:
    made = await manage(client, "POST", "/keys", {}, authorization="Bearer root")
    assert made.status == 201, made.raw
    return made.json


async def revoke(client: Client, key: dict[str, Any]) -> None:
    gone = await manage(client, "DELETE", f"/keys/{key['id']}", None, authorization="Bearer root")
    assert gone.status == 204


async def read_revoked(client: Client, upstream: Upstream, name: str, agent: str) -> ClientReply:
    """What a client gets of a stream that would never end, when its key is revoked in the middle."""
    path, body, event = STREAMS[name]
    gate = Gate()
    upstream.will(Canned(Response(200, "text/event-stream", (event, gate))))
    key = await make_key(client)
    data = orjson.dumps({"model": UPSTREAMS[name], "stream": True, **body})
    headers = {"authorization": f"Bearer {key['key']}", "content-type": "application/json", "x-context-agent": agent}
    if name == "passthrough":
        del headers["x-context-agent"]
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(20)) as session,
            session.post(client.base_url + path, data=data, headers=headers) as response,
        ):
            await asyncio.to_thread(wait_for, lambda: len(client.app.access.streams) == 1)
            await revoke(client, key)
            return await read(response)
    finally:
        gate.open()


@pytest.mark.parametrize("agent", ["bare", "editor"])  # relayed, and watched for our calls
@pytest.mark.parametrize("name", STREAMS)
async def test_a_stream_ends_with_its_key(keyed: Client, upstream: Upstream, name: str, agent: str) -> None:
    reply = await read_revoked(keyed, upstream, name, agent)
    assert (reply.status, reply.broken, reply.done) == (200, False, False)
    last = orjson.loads(reply.raw.strip().split(b"data: ")[-1])
    told = last["error"]
    assert told["message"] == "The API key was revoked."
    if name == "responses":
        assert (last["type"], last["code"]) == ("error", "invalid_api_key")
    elif name == "messages":
        assert (last["type"], told["type"]) == ("error", "authentication_error")
    else:
        assert told["code"] == "invalid_api_key"
    await asyncio.to_thread(wait_for, lambda: len(keyed.app.access.streams) == 0)


async def test_streams_of_other_keys_go_on(keyed: Client, upstream: Upstream) -> None:
    gate, other = Gate(), await make_key(keyed)
    end = sse({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}) + sse(b"[DONE]")
    upstream.will(Canned(Response(200, "text/event-stream", (CHAT_EVENT, gate, end))))
    mine = await make_key(keyed)
    async with keyed.asking("Hi", agent="bare", stream=True, key=mine["key"]) as response:
        await asyncio.to_thread(wait_for, lambda: len(keyed.app.access.streams) == 1)
        await revoke(keyed, other)
        changed = await manage(keyed, "PUT", f"/keys/{mine['id']}", {"name": "mine"}, authorization="Bearer root")
        assert changed.status == 200, changed.raw
        gate.open()
        assert (await read(response)).done
