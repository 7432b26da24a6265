"""What an upstream may send in an exchange with our tools: whatever it is, memory stays bounded."""

import tracemalloc
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from gateway import sse
from gateway.conversation.dialects.chat.calls import MAX_TURN_CALLS
from gateway.conversation.dialects.chat.dialect import CHAT
from gateway.conversation.dialects.chat.merge import MAX_ITEMS, merge_deltas
from gateway.conversation.dialects.chat.stream import MAX_UNREAD_BYTES
from gateway.conversation.loop import NextTurnStep
from gateway.conversation.reply_loop import ReplyLoop
from gateway.conversation.stream_loop import StreamLoop
from gateway.conversation.turn import LoopPlan, TurnLimits
from gateway.domain.tool_result import ToolResult
from gateway.errors import UpstreamInvalid

GET = "get_context_resource"
LIMIT = 300_000


def make_plan(limit: int = LIMIT, **changes: Any) -> LoopPlan:
    return LoopPlan(CHAT, {}, [], (), frozenset({GET}), limits=TurnLimits(5, limit), **changes)


def make_chunk(delta: dict[str, Any]) -> bytes:
    return sse.encode_event(orjson.dumps({"id": "1", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}))


def make_reply(*calls: dict[str, Any], content: str = "") -> bytes:
    message = {"role": "assistant", "content": content, "tool_calls": list(calls)}
    return orjson.dumps({"choices": [{"message": message, "finish_reason": "tool_calls"}]})


def feed_all(loop: StreamLoop, chunks: list[bytes]) -> None:
    for chunk in chunks:
        loop.feed(chunk)


ENDLESS: dict[str, Callable[[int], dict[str, Any]]] = {
    "text": lambda n: {"content": "x" * 20},
    "fields": lambda n: {f"field{n}": "x"},
    "arguments": lambda n: {"tool_calls": [{"index": 0, "id": "a", "function": {"name": GET, "arguments": "x"}}]},
    "a call without a name": lambda n: {"tool_calls": [{"index": 0, "function": {"arguments": "x"}}]},
    "empty deltas": lambda n: {"tool_calls": [{}] * 500},
    "calls": lambda n: {"tool_calls": [{"index": n, "function": {"name": "f"}}]},
    "calls of ours": lambda n: {"tool_calls": [{"index": n * 50 + i, "function": {"name": GET}} for i in range(50)]},
}


@pytest.mark.parametrize("last_text_only", [False, True])
@pytest.mark.parametrize("kind", ENDLESS)
def test_an_endless_stream_ends_before_it_fills_the_memory(kind: str, last_text_only: bool) -> None:
    loop = StreamLoop(make_plan(last_text_only=last_text_only))
    loop.build_request()
    chunks = [make_chunk(ENDLESS[kind](number)) for number in range(5_000)]
    tracemalloc.start()
    try:
        with pytest.raises(UpstreamInvalid):
            feed_all(loop, chunks)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2 * LIMIT + 10 * MAX_UNREAD_BYTES  # raw events are small, parsed ones are not


def test_all_turns_of_a_stream_count() -> None:
    loop = StreamLoop(make_plan(1000))
    own = make_chunk({"tool_calls": [{"index": 0, "id": "a", "function": {"name": GET, "arguments": "{}"}}]})
    turn = own + b": %b\n\n" % (b"x" * 400) + sse.DONE_EVENT
    loop.build_request()
    loop.feed(turn)
    loop.end()
    assert loop.resume([ToolResult("r")]) == NextTurnStep()
    loop.build_request()
    with pytest.raises(UpstreamInvalid, match="more than 1000 bytes in 2 turn"):
        loop.feed(turn)


def test_all_turns_of_a_whole_reply_count() -> None:
    body = make_reply({"id": "a", "function": {"name": GET, "arguments": "{}"}}, content="x" * 400)
    loop = ReplyLoop(make_plan(1000))
    loop.build_request()
    loop.take(body)
    loop.resume([ToolResult("r")])
    loop.build_request()
    with pytest.raises(UpstreamInvalid, match="more than 1000 bytes in 2 turn"):
        loop.take(body)


def test_a_whole_reply_with_too_many_calls_is_refused() -> None:
    call = {"id": "a", "function": {"name": "f", "arguments": "{}"}}
    loop = ReplyLoop(make_plan())
    loop.build_request()
    loop.take(make_reply(*[call] * MAX_TURN_CALLS))
    with pytest.raises(UpstreamInvalid, match="tool calls"):
        loop.take(make_reply(*[call] * (MAX_TURN_CALLS + 1)))


def test_a_list_of_too_many_items_is_refused() -> None:
    items = [{"index": number} for number in range(MAX_ITEMS + 1)]
    merge_deltas({}, {"blocks": items[:-1]})
    with pytest.raises(UpstreamInvalid, match="items"):
        merge_deltas({}, {"blocks": items})
