"""Events whose data is written over several lines: what is made of them is one line."""

from typing import Any

import orjson
import pytest

from gateway.conversation.dialects.chat.dialect import ChatDialect
from gateway.conversation.dialects.messages.dialect import MessagesDialect
from gateway.conversation.dialects.responses.dialect import RESPONSES
from gateway.conversation.stream_loop import StreamLoop
from gateway.conversation.turn import LoopPlan
from gateway.errors import UpstreamInvalid
from tests.support.dialect_streams import read_events

GET = "get_context_resource"
Events = list[dict[str, Any]]

CALL = {"index": 0, "id": "c", "type": "function", "function": {"name": GET, "arguments": "{}"}}
CHAT: Events = [
    {"choices": [{"index": 0, "delta": {"tool_calls": [CALL]}, "logprobs": None, "finish_reason": None}]},
    {"choices": [{"index": 0, "delta": {"content": "Hi"}, "logprobs": {"content": []}, "finish_reason": "tool_calls"}]},
]
MESSAGES: Events = [
    {"type": "message_start", "message": {"id": "m", "content": [], "usage": {"input_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "c", "name": GET}},
    {"type": "content_block_stop", "index": 0},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Hi"}},
    {"type": "content_block_stop", "index": 1},
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 1}},
    {"type": "message_stop"},
]
OWN = {"id": "fc", "type": "function_call", "call_id": "c", "name": GET, "arguments": "{}"}
TEXT = {"id": "msg", "type": "message", "content": [{"type": "output_text", "text": "Hi"}]}
RESPONSE: Events = [
    {"type": "response.created", "response": {"id": "r", "status": "in_progress", "output": []}},
    {"type": "response.output_item.added", "output_index": 0, "item": OWN},
    {"type": "response.output_item.done", "output_index": 0, "item": OWN},
    {"type": "response.output_item.added", "output_index": 1, "item": {**TEXT, "content": []}},
    {"type": "response.output_item.done", "output_index": 1, "item": TEXT},
    {"type": "response.completed", "response": {"id": "r", "status": "completed", "output": [OWN, TEXT]}},
]


def write(events: Events, end: bytes = b"\n") -> bytes:
    """Each event as readable JSON, line by line."""
    numbered = [{**event, "sequence_number": number} for number, event in enumerate(events)]
    lines = (
        (b"data: " + line for line in orjson.dumps(one, option=orjson.OPT_INDENT_2).split(b"\n")) for one in numbered
    )
    return b"".join(end.join(data) + end + end for data in lines)


def open_loop(dialect: Any) -> StreamLoop:
    loop = StreamLoop(LoopPlan(dialect, {}, [], (), frozenset({GET})))
    loop.build_request()
    return loop


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize(
    ("dialect", "events"), [(ChatDialect(), CHAT), (MessagesDialect(), MESSAGES), (RESPONSES, RESPONSE)]
)
def test_an_event_that_is_written_anew_can_be_read_again(dialect: Any, events: Events, end: bytes) -> None:
    loop = open_loop(dialect)
    shown = loop.feed(write(events, end))
    assert b"Hi" in shown
    assert GET.encode() not in shown
    assert all(isinstance(event, dict) for event in read_events(shown))


@pytest.mark.parametrize("dialect", [ChatDialect(), MessagesDialect(), RESPONSES])
def test_a_string_over_two_lines_is_no_event(dialect: Any) -> None:
    loop = open_loop(dialect)
    with pytest.raises(UpstreamInvalid):
        loop.feed(b'data: {"type": "message_start",\ndata: "choices": [{"delta": {"content": "a\ndata: b"}}]}\n\n')
