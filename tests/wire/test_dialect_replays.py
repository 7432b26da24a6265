"""Receipts replayed in every dialect: what the upstream got, in its own dialect, is built again."""

from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import orjson
import pytest

from tests.support.dialect_caller import OSLO, OWN
from tests.support.gateway import Client, ClientReply, Start
from tests.support.management_client import manage
from tests.support.spoken import CHAT_MODEL, DIALECTS, MESSAGES_MODEL, TRANSLATED, Entry, Spoken
from tests.support.upstream import Upstream, mixed, say
from tests.wire.test_receipts import recording, wait_finished

ADMIN, OTHER = "an admin's key", "another admin's key"
KEYS = [
    {"name": name, "sha256": sha256(name.encode()).hexdigest(), "role": "admin", "rights": ["act_as_user"]}
    for name in (ADMIN, OTHER)
]
ASKED = [Entry("user", "Tidy this")]
SPOKEN = {**DIALECTS, **TRANSLATED}
SHAPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "stream": {"stream": True},
    "no agent": {"agent": None, "context": {"contexts": ["house"]}},
    "relayed": {"agent": "bare"},
    "no tools": {"agent": "greeter"},
    "names": {"context": {"exclude": ["house/voice"], "contexts": ["plain"]}},
    "budget": {"context": {"budget": 3}},
    "off": {"context": {"inject": "off"}},
    "items": {"context": {"items": [{"name": "Note", "text": "Hi."}]}},
    "session": {"context": {"session": "s", "pin": ["house/style"]}},
    "user": {"context": {"user": "anna"}},
    "tools": {"tools": ["get_weather"], "tool_choice": "auto", "temperature": 0.5},
    "a named tool": {"tools": ["get_weather"], "named": "get_weather"},
    "JSON": {"json": True},
    "last turn": {"agent": "hurried"},
}


@pytest.fixture(params=SPOKEN)
def spoken(request: pytest.FixtureRequest) -> Spoken:
    return SPOKEN[request.param]


@pytest.fixture
def house(start: Start, upstream: Upstream) -> Iterator[Client]:
    account: dict[str, Any] = {"base_url": upstream.base_url, "api_key": "sk", "retries": 0}
    kinds: dict[str, dict[str, Any]] = {
        "r": {"kind": "openai", "responses": True},
        "c": {"kind": "openai"},
        "a": {"kind": "anthropic"},
    }
    named = {MESSAGES_MODEL: "a", CHAT_MODEL: "c", "*": "r"}
    client = start(
        auth={"keys": KEYS},
        receipts={"text": True},
        upstreams={name: {**kind, **account} for name, kind in kinds.items()},
        routes=[{"model": model, "upstream": name} for model, name in named.items()],
    )
    with recording(client):
        yield client


async def ask(client: Client, spoken: Spoken, *entries: Entry, **options: Any) -> ClientReply:
    agent = options.pop("agent", "editor")
    body = orjson.dumps(spoken.write(entries or ASKED, **options))
    headers = {"x_context_agent": agent} if agent else {}
    reply = await client.post(body, spoken.path, authorization=f"Bearer {ADMIN}", **headers)
    assert reply.status == 200, reply.raw
    return reply


async def replay(client: Client, reply: ClientReply, count: int = 1, key: str = ADMIN) -> dict[str, Any]:
    wait_finished(client, count)
    path = f"/receipts/{reply.headers['x-context-receipt']}/replay"
    again = await manage(client, "POST", path, {}, authorization=f"Bearer {key}")
    assert again.status == 200, again.raw
    return again.json


async def test_what_the_upstream_got_is_built_again(house: Client, upstream: Upstream, spoken: Spoken):
    for count, (name, options) in enumerate(SHAPES.items(), 1):
        upstream.will(say("Done."))
        reply = await ask(house, spoken, **options)
        again = await replay(house, reply, count)
        assert again["request"] == upstream.requests[-1], name
        assert (again["receipt"]["same_context"], again["receipt"]["omitted"]) == (True, []), name


async def test_the_sender_gets_hidden_turns_and_nobody_else(house: Client, upstream: Upstream, spoken: Spoken):
    upstream.will(mixed(OWN, OSLO), say("Sunny."))
    first = await ask(house, spoken, tools=["get_weather"])
    known = spoken.read_whole(first.raw)
    back = Entry("result", "sunny", "oslo")
    second = await ask(house, spoken, *ASKED, *known.entries, back, tools=["get_weather"])
    assert (await replay(house, second, 2))["request"] == upstream.requests[-1]
    others = await replay(house, second, 2, key=OTHER)
    assert b"serial comma" not in orjson.dumps(others)
    assert spoken.read_request(others["request"])[-1] == back


@pytest.mark.parametrize("name", ["responses", "responses over chat", "responses over messages"])
async def test_a_continued_response_is_the_senders_own(house: Client, upstream: Upstream, name: str):
    spoken = SPOKEN[name]
    upstream.will(mixed(OWN, OSLO, text="Hm."), say("Sunny."))
    first = spoken.read_whole((await ask(house, spoken, tools=["get_weather"])).raw)
    back = Entry("result", "sunny", "oslo")
    second = await ask(house, spoken, back, tools=["get_weather"], previous_response_id=first.id)
    again = await replay(house, second, 2)
    assert again["request"] == upstream.requests[-1]
    assert again["receipt"]["omitted"] == []
    others = await replay(house, second, 2, key=OTHER)
    assert others["receipt"]["omitted"] == ["previous_response"]
    assert b"serial comma" not in orjson.dumps(others)
    assert "previous_response_id" not in others["request"]


@pytest.mark.parametrize("name", ["responses", "responses over chat"])
async def test_items_that_a_request_names_are_the_senders_own(house: Client, upstream: Upstream, name: str):
    spoken = SPOKEN[name]
    upstream.will(say("First."), say("Second."))
    (item,) = (await ask(house, spoken)).json["output"]
    reference = {"type": "item_reference", "id": item["id"]}
    items = [*spoken.write(ASKED)["input"], reference, *spoken.write(ASKED)["input"]]
    second = await ask(house, spoken, input=items)
    assert (await replay(house, second, 2))["request"] == upstream.requests[-1]
    others = await replay(house, second, 2, key=OTHER)
    assert others["receipt"]["omitted"] == ["item_references"]
    assert b"First." not in orjson.dumps(others)
