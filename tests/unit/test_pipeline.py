"""The walk of one request, with upstreams that are never called."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import orjson
import pytest
from msgspec.structs import replace

from gateway.builder.context_builder import ContextBuilder
from gateway.collectors.contexts import build_merge
from gateway.conversation.dialects.chat.dialect import CHAT
from gateway.conversation.dialects.chat.request import check_messages
from gateway.conversation.hidden_turn import HiddenMessage, HiddenTurn, OwnResult
from gateway.conversation.hidden_turns import ConversationOwner, HiddenTurns
from gateway.conversation.turn import FunctionCall, LoopPlan
from gateway.domain.exchange import Exchange
from gateway.domain.principal import ANONYMOUS, Principal
from gateway.domain.snapshot import Snapshot
from gateway.domain.upstream import Capabilities, UpstreamReply, UpstreamRequest
from gateway.errors import InvalidRequest, ModelNotFound, StoreError
from gateway.injection.blocks import compute_block_tag
from gateway.pipeline import Pipeline, PreparedRequest
from gateway.resources.registry import load_registry
from gateway.settings import Settings
from gateway.stores.memory_ephemeral import MemoryEphemeralStore
from gateway.upstreams.routes import Routes

POLICIES = """
contexts:
  house:
    default: true
    resources:
      voice: {type: text, name: Voice, data: {content: Write plainly.}}
      style: {type: text, name: House style, mode: on_demand, data: {content: Use commas.}}
      extra: {type: text, name: Extra, mode: manual, data: {content: By hand.}}
  greetings: {resources: {hello: {type: text, languages: [en], data: {content: Hello.}}}}
  linked: {resources: {page: {type: external-link, data: {url: "https://example.com"}}}}
profiles: {turning: {placement: turn}}
agents:
  bare: {instructions: Help.}
  reader: {contexts: [linked]}
  hasty: {contexts: [house], max_turns: 2}
  turner: {contexts: [house], placement: turn}
  profiled: {contexts: [house], profile: turning}
"""
BODY = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
CALL = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{}"}}


@dataclass(eq=False)
class Silent:
    """An upstream that is only looked at."""

    name: str
    capabilities: Capabilities
    passes_bearer: bool = False

    async def send(self, request: UpstreamRequest) -> UpstreamReply:
        raise AssertionError

    async def list_models(self, bearer: str | None = None) -> list[dict[str, Any]]:
        return []

    async def close(self) -> None: ...


class WordCounter:
    """Counts words, and how often it was asked."""

    asked = 0

    def count(self, text: str, model: str) -> int:
        self.asked += 1
        return len(text.split())

    def family(self, model: str) -> str:
        return model[:1]


class BrokenStore(MemoryEphemeralStore):
    async def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        raise StoreError("down")


class Walker:
    """A pipeline over one set of policies."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.counter = WordCounter()
        self.store: MemoryEphemeralStore = MemoryEphemeralStore()
        self.capabilities: dict[str, Capabilities] = {"main": Capabilities()}
        self.placement = "system"
        self.exchange = Exchange("id", ANONYMOUS, snapshot, [])

    @property
    def pipeline(self) -> Pipeline:
        first, *fallbacks = self.capabilities
        settings = Settings.model_validate(
            {
                "upstreams": {name: {"kind": "openai", "base_url": "http://localhost"} for name in self.capabilities},
                "routes": [{"model": "m*", "upstream": first, "fallbacks": fallbacks}],
                "defaults": {"placement": self.placement},
            }
        )
        routes = Routes(settings, {name: Silent(name, one) for name, one in self.capabilities.items()})
        builder = ContextBuilder(self.counter, build_merge(load_registry()), b"secret", settings.defaults.budget)
        return Pipeline(routes, builder, HiddenTurns(self.store), settings.defaults)

    async def prepare(self, who: Principal = ANONYMOUS, body: dict[str, Any] = BODY, **headers: str) -> PreparedRequest:
        named = [(f"x-context-{name}".encode(), value.encode()) for name, value in headers.items()]
        self.exchange = Exchange("id", who, self.snapshot, named)
        return await self.pipeline.prepare(self.exchange, orjson.dumps(body))

    async def sent(self, **said: Any) -> dict[str, Any]:
        """The body of the first upstream call."""
        return dict(msgspec.json.decode((await self.prepare(**said)).body))


@pytest.fixture
def walker(policies: Callable[[str], Snapshot]) -> Walker:
    return Walker(policies(POLICIES))


async def test_context_is_placed_the_catalogue_shown_and_the_tools_registered(walker: Walker) -> None:
    sent = await walker.sent()
    tag = compute_block_tag(b"secret", "default")
    assert sent["messages"][0]["content"].startswith(f"--- Context [{tag}] ---\n[Voice]\nWrite plainly.\n\n---")
    assert "- **House style** (ID: house/style)" in sent["messages"][0]["content"]
    assert [tool["function"]["name"] for tool in sent["tools"]] == ["get_context_resource", "list_context_resources"]
    assert (walker.exchange.injected, walker.exchange.tokens > 0) == (1, True)


async def test_the_account_says_who_answers_with_what(walker: Walker) -> None:
    await walker.prepare(agent="bare")
    assert (walker.exchange.agent, walker.exchange.model, walker.exchange.injected) == ("bare", "m", 0)


async def test_where_nothing_changes_the_clients_own_bytes_are_sent(walker: Walker) -> None:
    walker.exchange = Exchange("id", ANONYMOUS, walker.snapshot, [(b"x-context-inject", b"off")])
    body = b'{ "model":"m",\n "messages" : [ ], "big": 12345678901234567890123, "model": "m" }'
    prepared = await walker.pipeline.prepare(walker.exchange, body)
    assert prepared.body == body


async def test_an_agent_that_takes_no_part_still_gives_its_instructions(walker: Walker) -> None:
    sent = await walker.sent(agent="bare")
    assert sent == BODY | {"messages": [{"role": "system", "content": "Help."}, *BODY["messages"]]}


async def test_the_same_scope_is_worked_out_once_per_snapshot(walker: Walker) -> None:
    first = await walker.prepare()
    asked = walker.counter.asked
    assert (await walker.prepare()).injection is first.injection
    assert walker.counter.asked == asked


@pytest.mark.parametrize(
    "other",
    [
        {"agent": "hasty"},
        {"budget": "3"},
        {"exclude": "house/voice"},
        {"include": "house/extra"},
        {"language": "de"},
        {"inject": "off"},
        {"body": BODY | {"model": "mm", "n": 2}},
        {"who": Principal("anonymous", workspace="other")},
    ],
)
async def test_another_scope_is_worked_out_anew(walker: Walker, other: dict[str, Any]) -> None:
    assert (await walker.prepare(**other)).injection is not (await walker.prepare()).injection


async def test_callers_share_the_work_unless_a_reader_list_tells_them_apart(walker: Walker) -> None:
    somebody = Principal("somebody")
    assert (await walker.prepare(who=somebody)).injection is (await walker.prepare()).injection
    walker.snapshot = replace(walker.snapshot, readers=frozenset({"key:somebody"}))
    assert (await walker.prepare(who=somebody)).injection is not (await walker.prepare()).injection


async def test_an_upstream_without_tools_gets_no_catalogue(walker: Walker) -> None:
    walker.capabilities = {"main": Capabilities(tools=False)}
    prepared = await walker.prepare()
    assert prepared.injection.tools is None
    assert "Available Reference Materials" not in prepared.injection.stable
    assert [left.reason for left in prepared.injection.selection.dropped] == ["no_tools"]


async def test_every_fallback_must_know_tools(walker: Walker) -> None:
    walker.capabilities = {"main": Capabilities(), "spare": Capabilities(tools=False)}
    assert (await walker.prepare()).injection.tools is None


async def test_a_client_tool_with_our_name_renames_ours_and_the_hint(walker: Walker) -> None:
    tool = {"type": "function", "function": {"name": "get_context_resource"}}
    sent = await walker.sent(body=BODY | {"tools": [tool]})
    names = [tool["function"]["name"] for tool in sent["tools"]]
    assert names == ["get_context_resource", "get_context_resource_2", "list_context_resources"]
    assert "Use get_context_resource_2 with an ID." in sent["messages"][0]["content"]


async def test_items_of_the_caller_are_part_of_the_volatile_block(walker: Walker) -> None:
    body = BODY | {"context": {"items": [{"name": "Draft", "text": "Once upon"}]}}
    prepared = await walker.prepare(body=body)
    assert "[Draft]\nOnce upon" in prepared.injection.volatile
    assert walker.exchange.injected == 1  # a resource; items are not
    plain = await walker.prepare()
    assert plain.injection.volatile == ""
    assert prepared.injection.tokens > plain.injection.tokens


async def test_items_that_take_more_than_the_rest_of_the_budget_are_placed_with_a_warning(walker: Walker) -> None:
    body = BODY | {"context": {"budget": 3, "items": [{"name": "Draft", "text": "many words " * 5}]}}
    selection = (await walker.prepare(body=body)).injection.selection
    assert {warned.code for warned in selection.warnings} == {"over_budget"}
    assert [warned.category for warned in selection.warnings] == ["always", "tools", "items"]


@pytest.mark.parametrize("said", [{"inject": "off"}, {"agent": "bare"}])
async def test_items_are_not_placed_where_nothing_is(walker: Walker, said: dict[str, Any]) -> None:
    body = BODY | {"context": {"items": [{"name": "Draft", "text": "Once upon"}]}}
    assert (await walker.prepare(body=body, **said)).injection.volatile == ""


async def test_a_link_that_was_never_fetched_is_degraded(walker: Walker) -> None:
    await walker.prepare(agent="reader")
    assert walker.exchange.degraded == {"links"}
    await walker.prepare()
    assert walker.exchange.degraded == set()


@pytest.mark.parametrize("agent", ["turner", "profiled"])
async def test_placement_is_the_agents_else_the_profiles(walker: Walker, agent: str) -> None:
    sent = await walker.sent(agent=agent, include="house/extra")
    assert [message["role"] for message in sent["messages"]] == ["system", "system", "user"]


async def test_placement_else_comes_from_the_settings(walker: Walker) -> None:
    walker.placement = "turn_user"
    assert len((await walker.sent(include="house/extra"))["messages"][1]["content"]) == 2


async def test_an_upstream_without_system_messages_in_the_middle_gets_them_with_the_user(walker: Walker) -> None:
    walker.capabilities = {"main": Capabilities(system_anywhere=False)}
    sent = await walker.sent(agent="turner", include="house/extra")
    assert [message["role"] for message in sent["messages"]] == ["system", "user"]
    assert "By hand." in sent["messages"][1]["content"][0]["text"]


def planned(prepared: PreparedRequest) -> LoopPlan:
    assert prepared.plan is not None
    return prepared.plan


async def test_max_turns_are_the_agents_else_the_settings(walker: Walker) -> None:
    assert planned(await walker.prepare(agent="hasty")).limits.turns == 2
    assert planned(await walker.prepare()).limits.turns == 5


@pytest.mark.parametrize(
    ("fields", "forces"),
    [
        ({}, False),
        ({"stream": True}, True),
        ({"stream": True, "stream_options": {"include_usage": True}}, False),
        ({"stream": True, "stream_options": {"include_usage": False}}, True),
    ],
)
async def test_usage_is_asked_for_in_streams(walker: Walker, fields: dict[str, Any], forces: bool) -> None:
    assert planned(await walker.prepare(body=BODY | fields)).forces_usage == forces


async def test_usage_is_not_forced_on_an_upstream_that_does_not_know_it(walker: Walker) -> None:
    walker.capabilities = {"main": Capabilities(stream_usage=False)}
    assert planned(await walker.prepare(body=BODY | {"stream": True})).forces_usage is False


@pytest.mark.parametrize(("kind", "expected"), [("json_object", True), ("json_schema", True), ("text", False)])
async def test_a_json_answer_is_one_text(walker: Walker, kind: str, expected: bool) -> None:
    prepared = await walker.prepare(body=BODY | {"response_format": {"type": kind}})
    assert planned(prepared).last_text_only is expected


async def test_a_model_that_no_route_serves_is_unknown(walker: Walker) -> None:
    with pytest.raises(ModelNotFound) as caught:
        await walker.prepare(body=BODY | {"model": "x"})
    assert (caught.value.code, caught.value.param) == ("model_not_found", "model")


HISTORY = BODY | {
    "messages": [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "call_1", "content": "Seen."},
    ]
}


OWN_CALL = {"id": "own", "type": "function", "function": {"name": "get_context_resource", "arguments": "{}"}}
HIDDEN = {"role": "assistant", "content": None, "tool_calls": [OWN_CALL, CALL]}


async def keep(walker: Walker, owner: ConversationOwner, resource: str = "house/style") -> None:
    message = HiddenMessage(msgspec.Raw(orjson.dumps(HIDDEN)), (OwnResult(0, "kept", (resource,)),))
    hidden = HiddenTurn((FunctionCall("call_1", "look", "{}"),), "", (message,))
    request = CHAT.decode(orjson.dumps(BODY))
    await HiddenTurns(walker.store).keep(CHAT, owner, request, hidden, set())


async def test_hidden_turns_come_back_to_their_owner_only(walker: Walker) -> None:
    await keep(walker, ConversationOwner("default", "anonymous", session="s"))
    assert HIDDEN in (await walker.sent(body=HISTORY, session="s"))["messages"]
    actor = Principal("anonymous", rights=frozenset({"act_as_user"}))
    for said in (
        {},
        {"session": "t"},
        {"session": "s", "who": Principal("b")},
        {"session": "s", "who": actor, "user": "u"},
    ):
        assert HIDDEN not in (await walker.sent(body=HISTORY, **said))["messages"]


@pytest.mark.parametrize(
    ("said", "back"),
    [
        ({}, True),
        ({"agent": "hasty"}, True),
        ({"agent": "reader"}, False),  # its contexts do not have the resource
        ({"agent": "bare"}, False),
        ({"inject": "off"}, False),
        ({"exclude": "house/style"}, False),
        ({"body": HISTORY | {"tool_choice": "none", "tools": []}}, True),  # offered, although not through tools
    ],
)
async def test_hidden_results_are_for_whom_the_resource_is_offered(
    walker: Walker, said: dict[str, Any], back: bool
) -> None:
    await keep(walker, ConversationOwner("default", "anonymous"))
    sent = await walker.sent(**{"body": HISTORY} | said)
    assert ("kept" in [message.get("content") for message in sent["messages"]]) is back
    assert (HIDDEN in sent["messages"]) is back
    assert back or sent["messages"][-3:] == HISTORY["messages"]


async def test_hidden_results_are_for_those_who_may_still_read(
    walker: Walker, policies: Callable[[str], Snapshot]
) -> None:
    await keep(walker, ConversationOwner("default", "anonymous"))
    assert HIDDEN in (await walker.sent(body=HISTORY))["messages"]
    desk = Principal("desk")
    (ann,) = desk.readers("ann") - desk.readers("ben")
    walker.snapshot = policies(POLICIES.replace("mode: on_demand,", f'mode: on_demand, readers: ["{ann}"],'))
    sent = await walker.sent(body=HISTORY)
    assert sent["messages"][-3:] == HISTORY["messages"]
    assert "kept" not in [message.get("content") for message in sent["messages"]]


async def test_the_owner_is_found_out_once(walker: Walker) -> None:
    prepared = await walker.prepare(session="s")
    assert prepared.owner == ConversationOwner("default", "anonymous", session="s")


ODD_MESSAGES = [
    ([], "messages"),
    ([{"content": "Hi"}], "messages[0].role"),
    ([{"role": "user", "content": "Hi"}, {"role": None}], "messages[1].role"),
    ([{"content": "x", "role": ""}], "messages[0].role"),
    ([{"content": "role", "role": 1}], "messages[0].role"),
]


@pytest.mark.parametrize(("messages", "param"), ODD_MESSAGES)
async def test_nothing_is_injected_into_messages_that_no_upstream_accepts(
    walker: Walker, messages: list[Any], param: str
) -> None:
    for agent in ("hasty", "bare"):  # the second has instructions only
        with pytest.raises(InvalidRequest) as caught:
            await walker.prepare(body=BODY | {"messages": messages}, agent=agent)
        assert (caught.value.code, caught.value.param) == ("invalid_request", param)


@pytest.mark.parametrize(("messages", "param"), ODD_MESSAGES)
async def test_a_relay_leaves_messages_to_the_upstream(walker: Walker, messages: list[Any], param: str) -> None:
    body = BODY | {"messages": messages}
    assert (await walker.prepare(body=body, inject="off")).body == orjson.dumps(body)


@pytest.mark.parametrize("written", [b'{"role":"user"}', b'{"role": "user"}', b'{"content":null,"role":"user"}'])
def test_a_role_may_stand_anywhere(written: bytes) -> None:
    check_messages(CHAT.decode(b'{"messages":[' + written + b"]}"))


async def test_a_store_that_fails_degrades_and_the_clients_view_is_sent(walker: Walker) -> None:
    walker.store = BrokenStore()
    sent = await walker.sent(body=HISTORY)
    assert sent["messages"][-3:] == HISTORY["messages"]
    assert walker.exchange.degraded == {"store"}
