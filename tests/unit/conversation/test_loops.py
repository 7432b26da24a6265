"""The turn loops without I/O, driven by hand: bodies go up, steps come back."""

from typing import Any

import orjson
import pytest
from msgspec import Raw

from gateway import sse
from gateway.conversation.dialects.chat import stream
from gateway.conversation.dialects.chat.dialect import CHAT
from gateway.conversation.dialects.chat.reply import join_logprobs, read_text
from gateway.conversation.dialects.chat.stream_turn import find_plain_events
from gateway.conversation.dialects.chat.transcript import request_usage
from gateway.conversation.loop import FinishStep, NextTurnStep, RunToolsStep, Step
from gateway.conversation.reply_loop import ReplyLoop
from gateway.conversation.stream_loop import StreamLoop
from gateway.conversation.turn import FunctionCall, LoopPlan, TurnLimits, add_usage
from gateway.domain.tool_result import ToolResult
from gateway.errors import LoopLimit, UpstreamInvalid, UpstreamTruncated

GET = "get_context_resource"
OURS, THEIRS = Raw(b'{"ours":1}'), Raw(b'{"theirs":1}')


def plan(**changes: Any) -> LoopPlan:
    given: dict[str, Any] = {
        "fields": {"model": Raw(b'"m"')},
        "messages": [Raw(b'{"role":"user","content":"Hi"}')],
        "own_tools": (OURS,),
        "own_names": frozenset({GET}),
    }
    return LoopPlan(CHAT, **(given | changes))


def call(identity: str, name: str = GET, arguments: str = "{}") -> dict[str, Any]:
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


def whole(content: str | None = None, *calls: dict[str, Any], finish: str = "stop", **top: Any) -> bytes:
    message = {"role": "assistant", "content": content} | ({"tool_calls": list(calls)} if calls else {})
    return orjson.dumps({"id": "1", **top, "choices": [{"index": 0, "message": message, "finish_reason": finish}]})


def chunk(delta: dict[str, Any], finish: str | None = None, **top: Any) -> bytes:
    return sse.encode_event(
        orjson.dumps({"id": "1", **top, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
    )


def own_stream() -> bytes:
    return chunk({"role": "assistant", "tool_calls": [{"index": 0, **call("a")}]}, "tool_calls") + sse.DONE_EVENT


def took(loop: StreamLoop, data: bytes) -> tuple[bytes, Step]:
    loop.build_request()
    return loop.feed(data), loop.end()


@pytest.mark.parametrize(
    ("changes", "tools", "choices"),
    [
        ({}, [[OURS], [OURS]], [None, "none"]),
        ({"client_tools": (THEIRS,)}, [[THEIRS, OURS], [THEIRS]], [None, None]),
        ({"client_tools": (THEIRS,), "tool_choice": Raw(b'"required"')}, [[THEIRS, OURS], [THEIRS]], ["required"] * 2),
    ],
)
def test_the_last_turn_s_tools(changes: dict[str, Any], tools: list[list[Raw]], choices: list[Any]) -> None:
    loop = ReplyLoop(plan(limits=TurnLimits(2), **changes))
    bodies = [orjson.loads(loop.build_request()), orjson.loads(loop.build_request())]
    assert [body["tools"] for body in bodies] == [[orjson.loads(bytes(tool)) for tool in turn] for turn in tools]
    assert [body.get("tool_choice") for body in bodies] == choices


def test_results_go_up_after_the_message_that_asked_for_them() -> None:
    loop = ReplyLoop(plan())
    loop.build_request()
    step = loop.take(whole(None, call("a"), call("b"), x=1))
    assert isinstance(step, RunToolsStep)
    assert [one.id for one in step.calls] == ["a", "b"]
    assert loop.resume([ToolResult("one"), ToolResult("two")]) == NextTurnStep()
    messages = orjson.loads(loop.build_request())["messages"]
    assert [message.get("content") for message in messages] == ["Hi", None, "one", "two"]
    assert [message.get("tool_call_id") for message in messages[2:]] == ["a", "b"]


def test_a_whole_answer_of_one_turn_is_the_upstream_s_bytes() -> None:
    loop, body = ReplyLoop(plan()), whole("Hello") + b" "
    loop.build_request()
    assert loop.take(body) == FinishStep(body)


def test_a_mixed_turn_has_to_be_kept_before_it_is_shown() -> None:
    loop = ReplyLoop(plan(client_tools=(THEIRS,)))
    loop.build_request()
    loop.take(whole(None, call("a"), call("b", "theirs")))
    step = loop.resume([ToolResult("one")])
    assert isinstance(step, FinishStep)
    assert step.hidden is not None
    assert step.hidden.calls == (FunctionCall("b", "theirs", "{}"),)
    (message,) = step.hidden.messages
    assert [(one.position, one.text) for one in message.results] == [(0, "one")]
    assert [one["id"] for one in orjson.loads(step.data)["choices"][0]["message"]["tool_calls"]] == ["b"]


def test_a_limit_without_text_raises_and_is_noted() -> None:
    loop = ReplyLoop(plan(limits=TurnLimits(1)))
    loop.build_request()
    with pytest.raises(LoopLimit):
        loop.take(whole(None, call("a")))
    assert loop.limited


@pytest.mark.parametrize("finish", ["length", "content_filter"])
def test_what_was_cut_short_is_not_run(finish: str) -> None:
    loop = ReplyLoop(plan())
    loop.build_request()
    step = loop.take(whole("So", call("a", arguments="{"), finish=finish))
    assert isinstance(step, FinishStep)
    choice = orjson.loads(step.data)["choices"][0]
    assert choice["finish_reason"] == finish
    assert "tool_calls" not in choice["message"]


@pytest.mark.parametrize("content", [[{"type": "text", "text": "Hm."}], "Hm."])
def test_text_in_parts_is_joined_too(content: Any) -> None:
    loop = ReplyLoop(plan())
    loop.build_request()
    loop.take(whole(content, call("a")))
    loop.resume([ToolResult("r")])
    loop.build_request()
    step = loop.take(whole("Done."))
    assert isinstance(step, FinishStep)
    assert orjson.loads(step.data)["choices"][0]["message"]["content"] == "Hm.\n\nDone."


def test_log_probabilities_of_all_turns_are_joined() -> None:
    one, other = {"content": [1], "refusal": None}, {"content": [2], "refusal": None}
    assert join_logprobs(join_logprobs(None, one), other) == {"content": [1, 2], "refusal": None}
    assert join_logprobs(one, None) == one


def test_text_of_anything_else_is_nothing() -> None:
    assert [read_text(raw) for raw in (None, Raw(b"null"), Raw(b"5"), Raw(b'[{"type":"image"}, 5]'))] == [""] * 4


@pytest.mark.parametrize(
    ("one", "other", "total"),
    [
        ({"a": 1}, {"a": 2}, {"a": 3}),
        ({"a": {"b": 1, "c": None}}, {"a": {"b": 2.5}}, {"a": {"b": 3.5, "c": None}}),
        ({"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
        ({"a": 1}, {"a": None}, {"a": 1}),
        ({"a": None}, {"a": 1}, {"a": 1}),
        ({"tier": "x"}, {"tier": "y"}, {"tier": "y"}),
        ({"flag": True}, {"flag": True}, {"flag": True}),
        ({"list": [1]}, {"list": [2]}, {"list": [2]}),
        ({"a": 10**400}, {"a": 1.5}, {"a": 1.5}),
        ({"a": 10**4300 - 1}, {"a": 1}, {"a": 1}),
        ({"a": 1}, {"a": -(10**400)}, {"a": -(10**400)}),
    ],
)
def test_usage_adds_numbers_only(one: Any, other: Any, total: Any) -> None:
    assert add_usage(one, other) == total


@pytest.mark.parametrize("options", [None, Raw(b"null"), Raw(b'{"include_usage":false}'), Raw(b"5")])
def test_a_usage_chunk_is_asked_for(options: Any) -> None:
    assert request_usage(options) == {"include_usage": True}


def test_plain_text_passes_unread() -> None:
    loop = StreamLoop(plan())
    loop.build_request()
    odd = b'data: { "choices" : [ {"delta":{"content":"a"} , "finish_reason": null} ] }\n\n'
    assert loop.feed(odd) == odd


@pytest.mark.parametrize(
    "data",
    [
        b'{"choices":[{"delta":{"tool_calls":[]}}]}',
        b'{"choices":[{"delta":{"content":"a","tool\\u005fcalls":[{}]}}]}',
        b'{"choices":[{"delta":{"tool_calls":[{}]},"delta":{}}]}',
        b'{"choices":[{"delta":{}},{"delta":{"tool_calls":[{}]}}]}',
        b'{"choices":[{"delta":{},"finish_reason":"stop"}]}',
        b'{"choices":[{"delta":{},"finish_reason":""}]}',
        b'{"choices":[],"usage":{"total_tokens":1}}',
        b'{"choices":[],"error":{}}',
        b"[DONE]",
        b"{},{}",
        b"5",
    ],
)
def test_what_may_matter_is_read(data: bytes) -> None:
    plain, event = b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n', sse.encode_event(data)
    assert find_plain_events(event) == 0
    assert find_plain_events(plain * 2 + event + plain) == 2 * len(plain)


def test_nulls_of_usage_and_finish_are_plain_text() -> None:
    delta = b'{"content":"tool_calls","tool_calls": null}'
    event = sse.encode_event(b'{"usage" : null,"choices":[{"finish_reason" :null,"delta":' + delta + b"}]}")
    assert find_plain_events(event) == len(event)
    assert find_plain_events(event * 3) == 3 * len(event)
    crlf = event.replace(b"\n", b"\r\n")
    assert find_plain_events(crlf * 3) == 3 * len(crlf)


def test_a_long_own_turn_is_assembled_as_it_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "MAX_UNREAD_BYTES", 300)
    loop = StreamLoop(plan())
    loop.build_request()
    for _ in range(50):
        loop.feed(chunk({"content": "word "}))
        assert isinstance(loop._view, stream.ChatStreamView)
        assert loop._view._now.unread_size <= 300
    loop.feed(own_stream())
    assert isinstance(loop.end(), RunToolsStep)
    loop.resume([ToolResult("r")])
    assert orjson.loads(loop.build_request())["messages"][1]["content"] == "word " * 50


def test_an_event_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_EVENT_BYTES", 100)
    loop = StreamLoop(plan())
    loop.build_request()
    with pytest.raises(UpstreamInvalid, match="never ends"):
        loop.feed(b"data: " + b"x" * 100)


def test_a_stream_that_ends_before_its_finish_is_truncated() -> None:
    loop = StreamLoop(plan())
    with pytest.raises(UpstreamTruncated):
        took(loop, chunk({"content": "a"}))


def test_what_comes_after_done_is_ignored() -> None:
    loop = StreamLoop(plan())
    shown, step = took(loop, chunk({"content": "a"}, "stop") + sse.DONE_EVENT + chunk({"content": "b"}))
    assert shown == chunk({"content": "a"}, "stop")
    assert step == FinishStep(sse.DONE_EVENT)
    assert loop.turn_done


def test_an_error_event_ends_the_loop() -> None:
    loop = StreamLoop(plan())
    error = b'data: {"error":{"message":"busy"}}\n\n'
    shown, step = took(loop, error + chunk({"content": "a"}, "stop") + sse.DONE_EVENT)
    assert (shown, step, loop.failed) == (error, FinishStep(b""), True)


def test_calls_without_a_finish_are_shown_at_the_end() -> None:
    loop = StreamLoop(plan())
    shown, step = took(loop, chunk({"tool_calls": [{"index": 0, **call("a", "get_", "")}]}) + sse.DONE_EVENT)
    assert isinstance(step, FinishStep)
    assert shown == b""
    assert b'"id":"a"' in step.data
    assert step.data.endswith(sse.DONE_EVENT)


def test_a_turn_of_own_calls_shows_the_role_only() -> None:
    loop = StreamLoop(plan())
    shown, step = took(loop, own_stream())
    assert isinstance(step, RunToolsStep)
    (event,) = sse.split_events(shown)
    assert orjson.loads(sse.read_payload(event) or b"")["choices"][0] == {
        "index": 0,
        "delta": {"role": "assistant"},
        "finish_reason": None,
    }


def test_later_turns_are_named_like_the_first() -> None:
    loop = StreamLoop(plan())
    took(loop, own_stream())
    loop.resume([ToolResult("r")])
    shown, _ = took(loop, chunk({"role": "assistant", "content": "a"}, "stop", id="2", model="x") + sse.DONE_EVENT)
    event = orjson.loads(sse.read_payload(shown) or b"")
    assert (event["id"], event["model"]) == ("1", "x")  # the first turn named no model
    assert event["choices"][0]["delta"] == {"content": "a"}
