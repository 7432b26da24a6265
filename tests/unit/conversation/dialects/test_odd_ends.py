"""How streams end that say so in ways of their own."""

from typing import Any

import orjson
import pytest

from gateway import sse
from gateway.conversation.dialects.chat.dialect import ChatDialect
from gateway.conversation.dialects.chat.relay import ChatRelayView
from gateway.conversation.dialects.messages.dialect import MessagesDialect
from gateway.conversation.dialects.messages.relay import MessagesRelayView
from gateway.conversation.loop import FinishStep
from gateway.conversation.stream_loop import StreamLoop
from gateway.conversation.turn import LoopPlan
from gateway.errors import UpstreamTruncated
from tests.support.dialect_streams import merge_message_events

UNFINISHED = sse.encode_event(orjson.dumps({"choices": [{"delta": {"content": "a"}, "finish_reason": ""}]}))
FINISHED = sse.encode_event(orjson.dumps({"choices": [{"delta": {}, "finish_reason": "stop"}]}))


def open_loop(dialect: Any) -> StreamLoop:
    loop = StreamLoop(LoopPlan(dialect, {}, [], (), frozenset({"get_context_resource"})))
    loop.build_request()
    return loop


def test_an_empty_finish_reason_is_none_in_a_relay() -> None:
    view = ChatRelayView()
    assert view.feed(UNFINISHED) == UNFINISHED
    with pytest.raises(UpstreamTruncated):
        view.end()
    view.feed(FINISHED)
    assert view.end() == sse.DONE_EVENT


def test_an_empty_finish_reason_is_none_in_the_loop() -> None:
    loop = open_loop(ChatDialect())
    assert loop.feed(UNFINISHED) == UNFINISHED
    with pytest.raises(UpstreamTruncated):
        loop.end()
    loop.feed(FINISHED)
    step = loop.end()
    assert isinstance(step, FinishStep)


def write_events(*events: dict[str, Any], space: bytes = b" ") -> bytes:
    return b"".join(
        b"event:%b%b\ndata:%b%b\n\n" % (space, one["type"].encode(), space, orjson.dumps(one)) for one in events
    )


MESSAGE = {"id": "m", "content": [], "usage": {"input_tokens": 5, "output_tokens": 1}}
START = {"type": "message_start", "message": MESSAGE}
BLOCK = [
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
    {"type": "content_block_stop", "index": 0},
]
USED = {"type": "message_delta", "delta": {"stop_reason": None}, "usage": {"output_tokens": 7}}
WHY = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": None}}
STOP = {"type": "message_stop"}


def test_a_relayed_message_may_have_no_space_behind_its_colons() -> None:
    view = MessagesRelayView()
    data = write_events(START, *BLOCK, WHY, STOP, space=b"")
    assert view.feed(data) == data
    assert view.done
    assert view.usage_event


def test_the_events_of_a_relayed_message_may_have_no_names() -> None:
    view = MessagesRelayView()
    data = b"".join(sse.encode_event(orjson.dumps(one)) for one in (START, *BLOCK, WHY))
    assert view.feed(data) == data
    assert view.end() == write_events(STOP)
    view.feed(sse.encode_event(orjson.dumps(STOP)))
    assert view.done


def test_a_relayed_message_is_not_finished_before_it_says_why() -> None:
    view = MessagesRelayView()
    view.feed(write_events(START, *BLOCK, USED))
    with pytest.raises(UpstreamTruncated):
        view.end()
    view.feed(write_events(WHY))
    assert view.end() == write_events(STOP)


def test_an_error_of_a_relayed_message_is_known_without_a_space() -> None:
    view = MessagesRelayView()
    view.feed(write_events(START, {"type": "error", "error": {"message": "no"}}, space=b""))
    assert view.failed
    assert view.end() == b""


@pytest.mark.parametrize("ends", [(USED, WHY), (WHY, USED), (WHY, USED, WHY)])
def test_a_message_that_ends_in_several_events_keeps_its_reason_and_its_usage(ends: tuple[dict[str, Any], ...]) -> None:
    loop = open_loop(MessagesDialect())
    shown = loop.feed(write_events(START, *BLOCK, *ends, STOP))
    step = loop.end()
    assert isinstance(step, FinishStep)
    message = merge_message_events(shown + step.data)
    assert (message["stop_reason"], message["stopped"]) == ("end_turn", True)
    assert message["usage"] == {"input_tokens": 5, "output_tokens": 7}


def test_a_message_that_tells_only_its_usage_is_truncated() -> None:
    loop = open_loop(MessagesDialect())
    loop.feed(write_events(START, *BLOCK, USED))
    with pytest.raises(UpstreamTruncated):
        loop.end()
