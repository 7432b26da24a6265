"""`POST /v1/messages`, over an upstream that speaks Messages and over one that speaks chat completions."""

import hashlib
from typing import Any

import orjson
import pytest

from tests.support.anthropic_upstream import call_tools, fail, say_blocks, say_text, text_block, thought, tool_use
from tests.support.dialect_streams import merge_message_events
from tests.support.gateway import STYLE, STYLE_RESULT, Client, ClientReply, Start
from tests.support.upstream import Canned, Response, Upstream, mixed, raw_events, say, status, tool_call

GET = "get_context_resource"
THOUGHT = thought("I need the style guide.")
OWN = tool_use(GET, "toolu_own", resource_id=STYLE)
OSLO = tool_use("get_weather", "toolu_oslo", city="Oslo")
WEATHER = {"name": "get_weather", "description": "The weather", "input_schema": {"type": "object"}}
MARK = {"type": "ephemeral"}


async def ask(gateway: Client, content: Any = "Tidy this", agent: str = "editor", **fields: Any) -> ClientReply:
    messages = content if isinstance(content, list) else [{"role": "user", "content": content}]
    body = {"model": "claude-x", "max_tokens": 100, "messages": messages, **fields}
    return await gateway.post(orjson.dumps(body), "/messages", x_context_agent=agent)


def read_message(reply: ClientReply) -> dict[str, Any]:
    """The message, put together as a client would do it."""
    assert reply.status == 200, reply.raw
    if not reply.streamed:
        return reply.json
    message = merge_message_events(reply.raw)
    assert message.pop("stopped")
    return message


@pytest.fixture
def claude(start: Start, upstream: Upstream) -> Client:
    return start(upstream_settings={"kind": "anthropic", "api_key": "sk-ant-key"})


async def test_our_calls_are_run_and_never_shown(claude: Client, upstream: Upstream, stream: bool) -> None:
    upstream.will(call_tools(THOUGHT, text_block("Let me look."), OWN), say_text("Done."))
    message = read_message(await ask(claude, stream=stream))
    assert message["content"] == [THOUGHT, text_block("Let me look."), text_block("\n\nDone.")]
    assert (message["id"], message["stop_reason"]) == ("msg_1", "end_turn")
    assistant, results = upstream.requests[1]["messages"][-2:]
    assert assistant == {"role": "assistant", "content": [THOUGHT, text_block("Let me look."), OWN]}
    assert results["content"] == [{"type": "tool_result", "tool_use_id": "toolu_own", "content": STYLE_RESULT}]


async def test_usage_is_that_of_all_turns(claude: Client, upstream: Upstream, stream: bool) -> None:
    upstream.will(call_tools(OWN), say_text("Done."))
    usage = read_message(await ask(claude, stream=stream))["usage"]
    assert (usage["input_tokens"], usage["cache_read_input_tokens"], usage["output_tokens"]) == (10, 6, 4)


async def test_the_clients_calls_pass_and_mixed_turns_come_back(
    claude: Client, upstream: Upstream, stream: bool
) -> None:
    upstream.will(call_tools(THOUGHT, OWN, OSLO), say_text("Rain, and commas."))
    first = read_message(await ask(claude, "Weather?", stream=stream, tools=[WEATHER]))
    assert (first["content"], first["stop_reason"]) == ([THOUGHT, OSLO], "tool_use")
    result = {"type": "tool_result", "tool_use_id": "toolu_oslo", "content": "Rain"}
    history = [
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": first["content"]},
        {"role": "user", "content": [result, text_block("And?")]},
    ]
    second = read_message(await ask(claude, history, stream=stream, tools=[WEATHER]))
    assert second["content"] == [text_block("Rain, and commas.")]
    assistant, results = upstream.requests[1]["messages"][-2:]
    assert assistant["content"] == [THOUGHT, OWN, OSLO]
    assert results["content"] == [
        {"type": "tool_result", "tool_use_id": "toolu_own", "content": STYLE_RESULT},
        result,
        text_block("And?"),
    ]


async def test_a_hidden_turn_before_the_clients_call_comes_back_too(
    claude: Client, upstream: Upstream, stream: bool
) -> None:
    upstream.will(call_tools(text_block("First."), OWN), call_tools(text_block("Now."), OSLO), say_text("Rain."))
    first = read_message(await ask(claude, "Weather?", stream=stream, tools=[WEATHER]))
    assert first["content"] == [text_block("First."), text_block("\n\nNow."), OSLO]
    history = [
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": first["content"]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_oslo", "content": "Rain"}]},
    ]
    await ask(claude, history, tools=[WEATHER])
    sent = upstream.requests[2]["messages"]
    assert [message["role"] for message in sent] == ["user", "assistant", "user", "assistant", "user"]
    assert sent[1]["content"] == [text_block("First."), OWN]
    assert sent[3]["content"] == [text_block("Now."), OSLO]


async def test_context_goes_into_system_with_the_marker_at_the_end_of_the_stable_block(
    claude: Client, upstream: Upstream
) -> None:
    upstream.will(say_text("a"), say_text("b"), say_text("c"))
    await ask(claude, system="Be brief.")
    client_blocks = [{**text_block("One"), "cache_control": MARK}, text_block("Two")]
    await ask(claude, system=client_blocks)
    await ask(claude)
    (joined,) = upstream.requests[0]["system"]
    assert joined["text"].startswith("Be brief.\n\n--- Context [")
    assert joined["cache_control"] == MARK
    *kept, own = upstream.requests[1]["system"]
    assert kept == client_blocks
    assert own["cache_control"] == MARK
    assert upstream.requests[2]["system"][0]["text"].startswith("--- Context [")
    assert [tool["name"] for tool in upstream.requests[0]["tools"]] == [GET, "list_context_resources"]


async def test_no_more_markers_than_anthropic_takes(claude: Client, upstream: Upstream) -> None:
    upstream.will(say_text("a"))
    marked = [{**text_block(str(number)), "cache_control": MARK} for number in range(4)]
    await ask(claude, [{"role": "user", "content": marked}])
    assert upstream.bodies[0].count(b"cache_control") == 4


async def test_what_is_not_changed_keeps_its_bytes(claude: Client, upstream: Upstream, stream: bool) -> None:
    upstream.will(say_blocks(text_block("Hi"), stop_details=None))
    body = (
        b'{"model": "claude-x", "max_tokens":5,"messages":[ {"role":"user","content":"\\u00e9"}],"x":1.50,"stream":%b}'
    )
    sent = body % (b"true" if stream else b"false")
    reply = await claude.post(sent, "/messages", x_context_agent="bare", anthropic_beta="thing-1")
    assert upstream.bodies == [sent]
    assert reply.raw == upstream_bytes(stream)
    assert upstream.headers[0]["anthropic-beta"] == "thing-1"
    assert reply.headers["request-id"] == "req_1"


def upstream_bytes(stream: bool) -> bytes:
    piece = say_blocks(text_block("Hi"), stop_details=None).respond({"stream": stream}, 1).pieces[0]
    assert isinstance(piece, bytes)
    return piece


async def test_a_named_tool_leaves_ours_out(claude: Client, upstream: Upstream) -> None:
    upstream.will(say_text("a"), say_text("b"))
    await ask(claude, tools=[WEATHER], tool_choice={"type": "tool", "name": "get_weather"})
    await ask(claude, tools=[WEATHER], tool_choice={"type": "any"})
    assert [len(request["tools"]) for request in upstream.requests] == [1, 3]


async def test_the_last_turn_goes_without_our_tools(claude: Client, upstream: Upstream, stream: bool) -> None:
    upstream.will(call_tools(OWN), call_tools(text_block("So far."), OWN))
    message = read_message(await ask(claude, agent="hasty", stream=stream))
    assert upstream.requests[1]["tool_choice"] == {"type": "none"}
    assert (message["content"], message["stop_reason"]) == ([text_block("So far.")], "end_turn")
    upstream.will(call_tools(OWN))
    failed = await ask(claude, agent="hurried", stream=stream)
    told = failed.json if not failed.streamed else failed.raw
    assert b"loop_limit" in failed.raw, told


async def test_with_a_schema_only_the_last_text_is_shown(claude: Client, upstream: Upstream, stream: bool) -> None:
    upstream.will(call_tools(text_block("Let me see."), OWN), say_text('{"a":1}'))
    config = {"format": {"type": "json_schema", "schema": {"type": "object"}}}
    message = read_message(await ask(claude, stream=stream, output_config=config))
    assert message["content"] == [text_block('{"a":1}')]


@pytest.mark.parametrize("kind", ["chat", "messages"])
async def test_a_stream_cut_anywhere_never_seems_complete(start: Start, upstream: Upstream, kind: str) -> None:
    settings = {"kind": "anthropic", "api_key": "k"} if kind == "messages" else {}
    gateway = start(upstream_settings=settings)
    turn: Any = call_tools(text_block("A."), OSLO) if kind == "messages" else mixed(tool_call("get_weather"), text="A.")
    asked = {"stream": True, "stream_options": {"include_usage": True}}
    whole = b"".join(piece for piece in turn.respond(asked, 1).pieces if isinstance(piece, bytes))
    end = whole.index(b"event: message_delta" if kind == "messages" else b'"finish_reason":"')
    for cut in range(1, end, 173):
        for agent in ("editor", "bare"):
            upstream.will(Canned(Response(200, "text/event-stream", (whole[:cut],))))
            reply = await ask(gateway, agent=agent, stream=True, tools=[WEATHER])
            assert b"message_stop" not in reply.raw
            assert reply.status == 502 or reply.raw.endswith(b"\n\n")
            assert b"upstream_invalid" in reply.raw


async def test_errors_have_anthropics_shape(claude: Client, upstream: Upstream, stream: bool) -> None:
    unknown = await ask(claude, agent="nobody", stream=stream)
    assert unknown.status == 400
    assert unknown.json["type"] == "error"
    assert unknown.json["error"]["type"] == "invalid_request_error"
    assert unknown.json["error"]["details"]["error_code"] == "unknown_agent"
    upstream.will(fail(529, "overloaded_error", "Overloaded", retry_after="3"))
    busy = await ask(claude, stream=stream)
    assert (busy.status, busy.json["error"]["type"], busy.headers["retry-after"]) == (529, "overloaded_error", "3")
    upstream.will(fail(401, "authentication_error", "no"))
    assert (await ask(claude, stream=stream)).json["error"]["details"]["error_code"] == "upstream_auth"


async def test_an_error_in_a_later_turn_is_the_last_event(claude: Client, upstream: Upstream) -> None:
    upstream.will(call_tools(OWN), fail(400, "invalid_request_error", "Too long"))
    reply = await ask(claude, stream=True)
    assert reply.raw.rpartition(b"event: ")[2].startswith(b"error\ndata: ")
    assert b"message_stop" not in reply.raw


async def test_a_key_may_come_as_x_api_key(start: Start, upstream: Upstream) -> None:
    keys = [{"name": "app", "sha256": hashlib.sha256(b"secret").hexdigest()}]
    gateway = start(auth={"keys": keys})
    body = orjson.dumps({"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "x"}]})
    refused = await gateway.post(body, "/messages", x_api_key="wrong")
    assert (refused.status, refused.json["error"]["type"]) == (401, "authentication_error")
    upstream.will(say("Yes."))
    assert (await gateway.post(body, "/messages", x_api_key="secret")).status == 200


async def test_a_chat_upstream_serves_messages(gateway: Client, upstream: Upstream, stream: bool) -> None:
    upstream.will(
        mixed(tool_call(GET, "own_1", resource_id=STYLE), text="Let me look.", reasoning_content="Hm."), say("Done.")
    )
    message = read_message(await ask(gateway, stream=stream, system="Be brief."))
    assert message["content"] == [
        {"type": "thinking", "thinking": "Hm.", "signature": "chat:reasoning_content"},
        text_block("Let me look."),
        text_block("\n\nDone."),
    ]
    first, second = upstream.requests
    assert first["messages"][0]["content"].startswith("Be brief.\n\n--- Context [")
    assert second["messages"][-2]["reasoning_content"] == "Hm."
    assert second["messages"][-1] == {"role": "tool", "tool_call_id": "own_1", "content": STYLE_RESULT}
    assert message["usage"]["input_tokens"] == 20


async def test_mixed_turns_come_back_over_a_chat_upstream(gateway: Client, upstream: Upstream, stream: bool) -> None:
    own, oslo = tool_call(GET, "own_1", resource_id=STYLE), tool_call("get_weather", "oslo", city="Oslo")
    upstream.will(mixed(own, oslo), say("Rain."))
    first = read_message(await ask(gateway, "Weather?", stream=stream, tools=[WEATHER]))
    assert [block["name"] for block in first["content"]] == ["get_weather"]
    history = [
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": first["content"]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "oslo", "content": "Rain"}]},
    ]
    await ask(gateway, history, stream=stream, tools=[WEATHER])
    sent = upstream.requests[1]["messages"][-3:]
    assert [one["id"] for one in sent[0]["tool_calls"]] == ["own_1", "oslo"]
    assert [one["tool_call_id"] for one in sent[1:]] == ["own_1", "oslo"]


async def test_what_a_chat_upstream_cannot_do_is_refused_by_name(gateway: Client, upstream: Upstream) -> None:
    refused = await ask(gateway, top_k=5)
    assert refused.status == 400
    assert refused.json["error"]["details"]["param"] == "top_k"
    assert upstream.seen == []


async def test_errors_of_a_chat_upstream_get_anthropics_shape(gateway: Client, upstream: Upstream) -> None:
    upstream.will(status(429, retry_after="2"))
    limited = await ask(gateway)
    assert (limited.status, limited.json["error"]["type"]) == (429, "rate_limit_error")
    upstream.will(raw_events([{"error": {"message": "broken", "type": "server_error"}}]))
    assert b"event: error\n" in (await ask(gateway, stream=True)).raw


async def test_chat_and_messages_get_the_same_context(gateway: Client, upstream: Upstream) -> None:
    upstream.will(say("a"), say("b"))
    chat = await gateway.chat("Tidy this", agent="editor")
    messages = await ask(gateway, model="m-large")
    for name in ("x-context-injected", "x-context-tokens", "x-context-snapshot"):
        assert chat.headers[name] == messages.headers[name]
    first, second = upstream.requests
    assert first["messages"] == second["messages"]
    assert first["tools"] == second["tools"]


THREAD = {"type": "create"}


async def test_a_thread_is_refused_where_we_change_the_conversation(claude: Client, upstream: Upstream) -> None:
    """The upstream would keep our part of it, and takes neither `system` nor `tools` when it is continued."""
    for thread in (THREAD, {"type": "continue", "previous_message_id": "msg_1"}):
        reply = await ask(claude, thread=thread)
        assert (reply.status, reply.error["details"]) == (
            400,
            {"error_code": "thread_unsupported_request", "param": "thread"},
        )
    upstream.will(say_text("Done."), say_text("Done."))
    assert (await ask(claude, agent="bare", thread=THREAD)).status == 200
    assert upstream.requests[0]["thread"] == THREAD
    assert (await ask(claude, thread=None)).status == 200


async def test_a_chat_upstream_has_no_threads(gateway: Client, upstream: Upstream) -> None:
    for agent in ("editor", "bare"):
        reply = await ask(gateway, agent=agent, thread=THREAD)
        assert (reply.status, reply.error["details"]["error_code"]) == (400, "thread_unsupported_request")
    assert upstream.seen == []


async def test_an_own_call_alone_is_silent_but_for_pings(claude: Client, upstream: Upstream) -> None:
    upstream.will(call_tools(OWN), say_text("Done."))
    reply = await ask(claude, stream=True)
    kinds = [line[7:] for line in reply.raw.split(b"\n") if line.startswith(b"event: ")]
    assert kinds.count(b"message_start") == kinds.count(b"message_delta") == kinds.count(b"message_stop") == 1
    assert kinds.count(b"content_block_start") == kinds.count(b"content_block_stop") == 1
