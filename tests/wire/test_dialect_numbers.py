"""Numbers of events, items and blocks have no gaps for the client, however an upstream counts them."""

from typing import Any

import orjson
import pytest

from tests.support.anthropic_upstream import text_block, tool_use
from tests.support.dialect_streams import write_message_events
from tests.support.gateway import STYLE, Client, Start
from tests.support.responses_answers import answer_with
from tests.support.upstream import Canned, Response, Upstream

USAGE = {"input_tokens": 3, "output_tokens": 1}


def say_item(text: str, id: str = "msg_1") -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"id": id, "type": "message", "role": "assistant", "status": "completed", "content": [part]}


OWN = {
    "id": "fc_1",
    "type": "function_call",
    "call_id": "own",
    "name": "get_context_resource",
    "arguments": orjson.dumps({"resource_id": STYLE}).decode(),
}


async def ask(gateway: Client, path: str, agent: str = "editor") -> list[dict[str, Any]]:
    """The events of a stream."""
    body = {"model": "m-large", "max_tokens": 9, "stream": True}
    said = {"input": "Hi"} if path == "/responses" else {"messages": [{"role": "user", "content": "Hi"}]}
    reply = await gateway.post(orjson.dumps({**body, **said}), path, x_context_agent=agent)
    return [orjson.loads(line[6:]) for line in reply.raw.split(b"\n") if line.startswith(b"data: ")]


@pytest.mark.parametrize(("number", "index"), [(0, 0), (1, 0), (7, 0), (0, 2), (1, 1)])
@pytest.mark.parametrize("hides", [False, True])
async def test_events_and_items_of_responses_count_from_zero(
    gateway: Client, upstream: Upstream, number: int, index: int, hides: bool
) -> None:
    odd: dict[str, Any] = {"stream": True, "number": number, "index": index}
    if hides:
        upstream.will(answer_with(say_item("One two three"), OWN, **odd))
    upstream.will(answer_with(say_item("Four five", "msg_2"), say_item("six", "msg_3"), **odd))
    events = await ask(gateway, "/responses")
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    places = {event["item"]["id"]: event["output_index"] for event in events if "item" in event}
    assert list(places.values()) == list(range(3 if hides else 2))
    for event in events:
        if "item_id" in event:
            assert event["output_index"] == places[event["item_id"]]
    assert [item["id"] for item in events[-1]["response"]["output"]] == list(places)


async def test_a_response_that_fails_in_a_later_turn_tells_the_usage_of_all(
    gateway: Client, upstream: Upstream
) -> None:
    upstream.will(
        answer_with(OWN, stream=True, usage=USAGE),
        answer_with(say_item("Half"), stream=True, usage=USAGE, status="failed", error={"code": "server_error"}),
    )
    last = (await ask(gateway, "/responses"))[-1]
    assert (last["type"], last["response"]["error"]["code"]) == ("response.failed", "server_error")
    assert last["response"]["usage"] == {"input_tokens": 6, "output_tokens": 2}


@pytest.mark.parametrize("first", [0, 1, 5])
@pytest.mark.parametrize("hides", [False, True])
async def test_blocks_of_messages_count_from_zero(start: Start, upstream: Upstream, first: int, hides: bool) -> None:
    claude = start(upstream_settings={"kind": "anthropic", "api_key": "sk-ant-key"})
    own = tool_use("get_context_resource", "toolu_own", resource_id=STYLE)
    turns = [[text_block("One two"), own], [text_block("Three"), text_block("four")]]
    for blocks in turns if hides else turns[1:]:
        head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_sequence": None}
        stop = "tool_use" if own in blocks else "end_turn"
        told = write_message_events({**head, "content": blocks, "stop_reason": stop, "usage": USAGE})
        for index in reversed(range(len(blocks))):
            told = told.replace(b'"index":%d' % index, b'"index":%d' % (index + first))
        upstream.will(Canned(Response(200, "text/event-stream", (told,))))
    events = await ask(claude, "/messages")
    begun = [event["index"] for event in events if event["type"] == "content_block_start"]
    assert begun == list(range(3 if hides else 2))
    assert {event["index"] for event in events if event["type"] == "content_block_delta"} == set(begun)
