"""What clients send although few documents mention it: cache markers, older names of fields, long chains of turns."""

from typing import Any

import orjson
import pytest

from tests.support.anthropic_upstream import MessageAnswer, call_tools, text_block, thought, tool_use
from tests.support.dialect_caller import ASKED, Caller, called, sent
from tests.support.dialect_streams import merge_message_events
from tests.support.gateway import STYLE, STYLE_RESULT, WEATHER, Client, ClientReply
from tests.support.spoken import CHAT_MODEL, DIALECTS, MESSAGES_MODEL, TRANSLATED, Entry, Spoken
from tests.support.upstream import Answer, Upstream, mixed, say, tool_call

MARKER, LONG_MARKER = {"type": "ephemeral"}, {"type": "ephemeral", "ttl": "1h"}
CHAT, RESPONSES_PATH, MESSAGES = "/chat/completions", "/responses", "/messages"
OWN = tool_call("get_context_resource", "own", resource_id=STYLE)
WEATHER_OF: dict[str, dict[str, Any]] = {
    CHAT: WEATHER,
    MESSAGES: {"name": "get_weather", "input_schema": {"type": "object"}},
}
SCHEMA = {"type": "json_schema", "schema": {"type": "object"}}


async def ask(gateway: Client, path: str, content: Any = "Tidy this", **fields: Any) -> ClientReply:
    body = {"model": MESSAGES_MODEL, "messages": [{"role": "user", "content": content}], **fields}
    if path == MESSAGES:
        body["max_tokens"] = 100
    return await gateway.post(orjson.dumps(body), path, x_context_agent="editor")


def mark(text: str, marker: dict[str, str]) -> dict[str, Any]:
    return {"type": "text", "text": text, "cache_control": marker}


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
async def test_no_more_cache_markers_go_up_than_anthropic_takes(gateway: Client, upstream: Upstream, path: str) -> None:
    upstream.will(say("a"), say("b"))
    # The marker of the request as a whole is one of the four.
    await ask(gateway, path, [mark(str(number), MARKER) for number in range(3)], cache_control=MARKER)
    await ask(gateway, path, [mark(str(number), MARKER) for number in range(4)])
    assert [body.count(b'"cache_control"') for body in upstream.bodies] == [4, 4]


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
async def test_our_cache_marker_lasts_as_long_as_those_behind_it(
    gateway: Client, upstream: Upstream, path: str
) -> None:
    upstream.will(say("a"), say("b"), say("c"), say("d"))
    await ask(gateway, path, [mark("One", LONG_MARKER), mark("Two", MARKER)])
    await ask(gateway, path, cache_control=LONG_MARKER)
    await ask(gateway, path, [mark("One", MARKER), {"type": "text", "text": 'It takes "1h"'}])
    await ask(gateway, path, [mark("One", MARKER)], tools=[{**WEATHER_OF[path], "cache_control": LONG_MARKER}])
    markers = [request["system"][-1]["cache_control"] for request in upstream.requests]
    assert markers == [LONG_MARKER, LONG_MARKER, MARKER, MARKER]


@pytest.mark.parametrize("model", [MESSAGES_MODEL, CHAT_MODEL])
async def test_a_format_by_its_older_name_is_a_format(gateway: Client, upstream: Upstream, model: str) -> None:
    upstream.will(mixed(OWN, text="Let me see."), say("{}"))
    reply = await ask(gateway, MESSAGES, model=model, output_format=SCHEMA)
    assert [block["text"] for block in reply.json["content"]] == ["{}"]
    if model == CHAT_MODEL:
        assert upstream.requests[0]["response_format"]["json_schema"]["schema"] == SCHEMA["schema"]
    else:
        assert upstream.requests[0]["output_format"] == SCHEMA


async def test_two_formats_are_one_too_many_for_chat(gateway: Client, upstream: Upstream) -> None:
    reply = await ask(gateway, MESSAGES, model=CHAT_MODEL, output_format=SCHEMA, output_config={"format": SCHEMA})
    assert (reply.status, reply.json["error"]["details"]["param"]) == (400, "output_format")


async def test_edits_that_change_nothing_are_no_reason_to_refuse(gateway: Client, upstream: Upstream) -> None:
    upstream.will(say("Done."))
    keep: dict[str, Any] = {"type": "clear_thinking_20251015", "keep": "all"}
    kept = await ask(gateway, MESSAGES, model=CHAT_MODEL, context_management={"edits": [keep]})
    assert kept.json["content"] == [{"type": "text", "text": "Done."}]
    cleared = await ask(gateway, MESSAGES, model=CHAT_MODEL, context_management={"edits": [{**keep, "keep": 1}]})
    assert (cleared.status, cleared.json["error"]["details"]["param"]) == (400, "context_management")


async def test_a_turn_that_pauses_is_shown_and_goes_on_as_the_client_saw_it(
    gateway: Client, upstream: Upstream, stream: bool
) -> None:
    search = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "Oslo"}}
    own = tool_use("get_context_resource", "own", resource_id=STYLE)
    upstream.will(call_tools(thought("Hm."), own), MessageAnswer((thought("So."), search), "pause_turn"))
    fields = {"stream": stream, "tools": [{"type": "web_search_20250305", "name": "web_search"}]}
    reply = await ask(gateway, MESSAGES, **fields)
    shown = merge_message_events(reply.raw) if stream else reply.json
    assert (shown["content"], shown["stop_reason"]) == ([thought("Hm."), thought("So."), search], "pause_turn")
    upstream.will(MessageAnswer((text_block("Sunny."),)))
    messages = [{"role": "user", "content": "Tidy this"}, {"role": "assistant", "content": shown["content"]}]
    await ask(gateway, MESSAGES, messages=messages, **fields)
    assert upstream.requests[-1]["messages"] == messages


@pytest.mark.parametrize("path", [CHAT, RESPONSES_PATH])
async def test_one_user_has_one_id(gateway: Client, upstream: Upstream, path: str) -> None:
    upstream.will(say("a"), say("b"))
    said = {"input": "Hi"} if path == RESPONSES_PATH else {"messages": [{"role": "user", "content": "Hi"}]}

    async def ask_for(**ids: str) -> ClientReply:
        return await gateway.post(orjson.dumps({"model": MESSAGES_MODEL, **said, **ids}), path)

    assert (await ask_for(user="ann", safety_identifier="ann")).status == 200
    assert (await ask_for(user="", safety_identifier="bob")).status == 200
    assert [request["metadata"] for request in upstream.requests] == [{"user_id": "ann"}, {"user_id": "bob"}]
    differing = await ask_for(user="ann", safety_identifier="bob")
    assert (differing.status, differing.error["param"]) == (400, "user")
    assert "`safety_identifier` is another" in differing.error["message"]


class Transcript:
    """A conversation of mixed turns: as the model wrote it, turn by turn."""

    def __init__(self) -> None:
        self.entries = [ASKED]

    def write_turn(self, number: int) -> Answer:
        """What the model says next."""
        own = tool_call("get_context_resource", f"own{number}", resource_id=STYLE)
        oslo = tool_call("get_weather", f"oslo{number}", city=f"Oslo {number}")
        text, thought = f"Step {number}.", f"Thought {number}."
        self.entries += [Entry("reasoning", thought), Entry("assistant", text), called(own), called(oslo)]
        self.entries += [Entry("result", STYLE_RESULT, f"own{number}"), self.find_result(number)]
        return mixed(own, oslo, text=text, reasoning_content=thought)

    def find_result(self, number: int) -> Entry:
        """What the client's tool returns."""
        return Entry("result", f"Sunny {number}.", f"oslo{number}")


async def test_five_mixed_turns_go_up_as_the_model_wrote_them(
    caller: Caller, spoken: Spoken, upstream: Upstream
) -> None:
    written, shown = Transcript(), [ASKED]
    for number in range(5):
        expected = list(written.entries)
        upstream.will(written.write_turn(number))
        understood = await caller.ask(*shown, tools=["get_weather"])
        assert sent(upstream, spoken) == expected
        shown += [*understood.entries, written.find_result(number)]


@pytest.mark.parametrize("name", ["responses", "responses over chat", "responses over messages"])
async def test_five_mixed_turns_are_continued_by_their_ids(
    gateway: Client, upstream: Upstream, stream: bool, name: str
) -> None:
    spoken = {**DIALECTS, **TRANSLATED}[name]
    caller, written = Caller(gateway, spoken, stream), Transcript()
    said, previous = ASKED, None
    for number in range(5):
        expected = list(written.entries)
        upstream.will(written.write_turn(number))
        understood = await caller.ask(said, tools=["get_weather"], previous_response_id=previous)
        # An upstream that keeps responses gets what is new: the results of the turn before.
        assert sent(upstream, spoken) == (expected[-2:] if name == "responses" else expected)
        said, previous = written.find_result(number), understood.id
