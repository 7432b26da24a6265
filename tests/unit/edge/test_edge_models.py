"""The list of models."""

import asyncio
from dataclasses import dataclass
from typing import Any

import orjson
import pytest
from msgspec.structs import replace
from starlette.requests import Request

from gateway.domain.agent import Agent
from gateway.domain.principal import ANONYMOUS, Principal
from gateway.domain.snapshot import EMPTY_SNAPSHOT, Snapshot
from gateway.domain.upstream import Capabilities, UpstreamReply, UpstreamRequest
from gateway.edge import models
from gateway.edge.access import Caller
from gateway.edge.models import ModelsEndpoint
from gateway.edge.request import RequestHead
from gateway.errors import ModelNotFound, UpstreamUnreachable
from tests.support.fixed_policies import FixedPolicies

AGENTS = {alias: Agent(alias, alias) for alias in ("writer", "editor")}


LOADED = replace(EMPTY_SNAPSHOT, agents=AGENTS)


@dataclass
class FakePolicies(FixedPolicies):
    current: Snapshot = LOADED


DIALECTS = {"dialects": ["chat", "responses", "messages"]}
CHAT_ONLY = {"native_dialects": ["chat"]}


class FakeUpstream:
    """An upstream that lists what it is given, fails or never answers."""

    capabilities = Capabilities()
    passes_bearer = False

    def __init__(self, name: str, *cards: dict[str, Any]) -> None:
        self.name = name
        self.cards = list(cards)
        self.dead = self.silent = False
        self.asked = 0

    async def list_models(self, bearer: str | None = None) -> list[dict[str, Any]]:
        self.asked += 1
        if self.silent:
            await asyncio.sleep(60)
        if self.dead:
            raise UpstreamUnreachable("gone")
        return self.cards

    async def send(self, request: UpstreamRequest) -> UpstreamReply:
        raise AssertionError

    async def close(self) -> None: ...


class Asker:
    """A model list with a clock that the test moves."""

    def __init__(self, *upstreams: FakeUpstream, deadline: float = 2.0) -> None:
        self.now = 100.0
        listed = {one.name: one for one in upstreams}
        self.models = ModelsEndpoint(listed, FakePolicies(), lambda: self.now, deadline=deadline)

    async def ask(self, principal: Principal = ANONYMOUS, id: str | None = None) -> tuple[dict[bytes, bytes], Any]:
        caller = Caller(RequestHead(), principal, None)
        scope = {"type": "http", "state": {"caller": caller}, "path_params": {"model": id}}
        response = await (self.models.list if id is None else self.models.get)(Request(scope))
        return dict(response.raw_headers), orjson.loads(response.body)

    async def ids(self, principal: Principal = ANONYMOUS) -> list[str]:
        return [card["id"] for card in (await self.ask(principal))[1]["data"]]


async def test_upstream_models_come_first_and_agents_follow_as_models():
    asker = Asker(FakeUpstream("openai", {"id": "gpt", "object": "model", "created": 5, "owned_by": "openai"}))
    headers, body = await asker.ask()
    assert body == {
        "object": "list",
        "data": [
            {"id": "gpt", "object": "model", "created": 5, "owned_by": "openai", **DIALECTS, **CHAT_ONLY},
            {"id": "agent:writer", "object": "model", "created": 0, "owned_by": "context-gateway", **DIALECTS},
            {"id": "agent:editor", "object": "model", "created": 0, "owned_by": "context-gateway", **DIALECTS},
        ],
    }
    assert b"x-context-degraded" not in headers


async def test_a_card_with_gaps_is_completed_and_keeps_its_other_fields():
    asker = Asker(FakeUpstream("local", {"id": "m", "context_length": 8}))
    _, body = await asker.ask()
    card = {"id": "m", "object": "model", "created": 0, "owned_by": "local", "context_length": 8}
    assert body["data"][0] == card | DIALECTS | CHAT_ONLY


async def test_a_model_says_which_dialects_its_upstream_speaks_itself():
    upstream = FakeUpstream("both", {"id": "m", "dialects": ["klingon"]})
    upstream.capabilities = Capabilities(dialects=frozenset({"responses", "chat"}))
    card = (await Asker(upstream).ask(id="m"))[1]
    assert (card["dialects"], card["native_dialects"]) == (DIALECTS["dialects"], ["chat", "responses"])


async def test_a_key_sees_its_own_agents_only():
    asker = Asker()
    assert await asker.ids(Principal("k", agents=frozenset({"editor"}))) == ["agent:editor"]


async def test_a_model_of_two_upstreams_is_listed_once_and_none_may_pose_as_an_agent():
    asker = Asker(FakeUpstream("a", {"id": "m"}), FakeUpstream("b", {"id": "m"}, {"id": "agent:writer", "evil": 1}))
    assert await asker.ids() == ["m", "agent:writer", "agent:editor"]
    assert "evil" not in (await asker.ask(id="agent:writer"))[1]


async def test_a_dead_upstream_is_left_out_visibly_and_soon_asked_again():
    alive, dead = FakeUpstream("alive", {"id": "m"}), FakeUpstream("dead", {"id": "n"})
    dead.dead = True
    asker = Asker(dead, alive)
    headers, body = await asker.ask()
    assert headers[b"x-context-degraded"] == b"models"
    assert body["data"][0]["id"] == "m"
    dead.dead = False
    asker.now += models.RETRY_SECONDS
    assert (await asker.ids())[:2] == ["n", "m"]


async def test_a_silent_upstream_costs_no_more_than_the_deadline():
    silent = FakeUpstream("silent")
    silent.silent = True
    async with asyncio.timeout(5):
        headers, _ = await Asker(silent, deadline=0.05).ask()
    assert headers[b"x-context-degraded"] == b"models"


async def test_upstreams_are_asked_once_in_a_while_even_by_many_at_once():
    upstream = FakeUpstream("a", {"id": "m"})
    asker = Asker(upstream)
    await asyncio.gather(*(asker.ask() for _ in range(5)))
    asker.now += models.FRESH_SECONDS - 1
    await asker.ask()
    assert upstream.asked == 1
    asker.now += 1
    await asker.ask()
    assert upstream.asked == 2


@pytest.mark.parametrize("id", ["meta/llama", "meta%2Fllama", "meta%2fllama"])
async def test_one_model_is_found_by_its_id_escaped_or_not(id):
    asker = Asker(FakeUpstream("a", {"id": "meta/llama"}))
    assert (await asker.ask(id=id))[1]["id"] == "meta/llama"


async def test_an_unknown_or_forbidden_model_is_a_404_that_names_only_what_the_key_may_see():
    asker = Asker()
    with pytest.raises(ModelNotFound) as unknown:
        await asker.ask(Principal("k", agents=frozenset({"editor"})), "agent:writer")
    assert (unknown.value.status, unknown.value.code, unknown.value.param) == (404, "model_not_found", "model")
    assert "Did you mean 'agent:writer'" not in unknown.value.message
