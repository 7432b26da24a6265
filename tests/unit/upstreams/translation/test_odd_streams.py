"""Streams in all the forms that providers may write them in come to what the whole reply comes to."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway import sse
from gateway.domain.upstream import Capabilities, UpstreamRequest
from gateway.errors import UpstreamInvalid
from gateway.upstreams.translation.chat_to_messages_reply import build_message_reply
from gateway.upstreams.translation.chat_to_messages_stream import ChatToMessagesStream
from gateway.upstreams.translation.chat_to_responses import ChatToResponsesStream, ResponseHead, build_response
from gateway.upstreams.translation.messages_to_chat_reply import build_completion
from gateway.upstreams.translation.messages_to_chat_stream import MessagesToChatStream, StreamTranslator
from gateway.upstreams.translation.translated import translate_body
from tests.support.dialect_streams import (
    decode,
    encode,
    feed_every_cut,
    merge_chunks,
    merge_message_events,
    read_events,
)
from tests.support.odd_streams import OddChunks, frame, write_odd_message

USED = {"input_tokens": 5, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 2, "output_tokens": 7}
STOPS = ("end_turn", "tool_use", "max_tokens", "stop_sequence", "refusal", "pause_turn",
         "model_context_window_exceeded", "never_heard_of")  # fmt: skip
REDACTED = {"type": "redacted_thinking", "data": "eHg="}

chances = st.integers(0, 2**32).map(random.Random)
texts = st.sampled_from(["", "Hi", "Grüße 🙂\u2028 – x", "a" * 50, '"\\\n{']) | st.text(max_size=9)
inputs = st.sampled_from([{}, {"q": "ü🙂\n"}, {"n": [1, 2.5], "m": {"x": '"}'}}])
thoughts = st.just(REDACTED) | st.builds(
    lambda told, signature: {"type": "thinking", "thinking": told, "signature": signature},
    texts, st.sampled_from(["a=", "bb"]),
)  # fmt: skip


def write_segment(thought: list[Any], said: list[str], calls: list[Any]) -> list[dict[str, Any]]:
    """What chat can keep the order of: thoughts, texts, calls."""
    return [*thought, *({"type": "text", "text": text} for text in said),
            *({"type": "tool_use", "id": "", "name": name, "input": given} for name, given in calls)]  # fmt: skip


segments = st.builds(
    write_segment,
    st.lists(thoughts, min_size=1, max_size=2),
    st.lists(texts, max_size=2),
    st.lists(st.tuples(st.sampled_from("fg"), inputs), max_size=2),
)


@st.composite
def messages(draw: st.DrawFn) -> dict[str, Any]:
    """A whole message of Anthropic's."""
    content = [block for segment in draw(st.lists(segments, max_size=3)) for block in segment]
    content = content[1:] if draw(st.booleans()) else content
    for number, block in enumerate(content):
        content[number] = {**block, "id": f"t{number}"} if block["type"] == "tool_use" else block
    stop = draw(st.sampled_from(STOPS))
    refuses = stop == "refusal" and all(block["type"] != "tool_use" for block in content) and draw(st.booleans())
    details = {"type": "refusal", "explanation": "No."} if refuses else None
    return {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "content": content,
            "stop_reason": stop, "stop_sequence": None, "stop_details": details, "usage": USED}  # fmt: skip


calls = st.lists(
    st.tuples(st.sampled_from(["f", "get_weather"]), st.sampled_from(['{"q":"ü🙂"}', "{}", "", '{"a":[1,{"b":"}"}]}'])),
    max_size=3,
)


@st.composite
def completions(draw: st.DrawFn) -> dict[str, Any]:
    """A whole chat completion."""
    message: dict[str, Any] = {"role": "assistant", "content": draw(st.none() | texts)}
    told = draw(st.sampled_from(["reasoning_content", "reasoning", None]))
    message |= {told: draw(texts)} if told else {}
    message |= {"refusal": "No."} if draw(st.booleans()) else {}
    made = [
        {"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for number, (name, arguments) in enumerate(draw(calls))
    ]
    message |= {"tool_calls": made} if made else {}
    finish = draw(st.sampled_from(["tool_calls", "stop"] if made else ["stop", "length", "content_filter"]))
    usage = {"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14}
    return {"id": "x", "created": 7, "model": "m", "usage": usage,
            "choices": [{"index": 0, "message": message, "finish_reason": finish}]}  # fmt: skip


def make_head() -> ResponseHead:
    return ResponseHead(b'{"model":"m"}', "1", 7)


def tell(translator: StreamTranslator, data: bytes) -> bytes:
    return translator.feed(data) + translator.end()


def list_calls(message: dict[str, Any]) -> list[tuple[str, str, Any]]:
    found = [(call["id"], call["function"]) for call in message.get("tool_calls") or ()]
    return [(identity, one["name"], decode(one["arguments"].encode())) for identity, one in found]


def read_arguments(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Items with their arguments read: their spelling may differ."""
    return [item | ({"arguments": decode(item["arguments"].encode())} if "arguments" in item else {}) for item in items]


@settings(max_examples=200, deadline=None)
@given(messages(), chances)
def test_chat_over_messages(message: dict[str, Any], chance: random.Random) -> None:
    whole = decode(build_completion(encode(message), 1))
    said, finish = whole["choices"][0]["message"], whole["choices"][0]["finish_reason"]
    told = tell(MessagesToChatStream(1, wants_usage=True), write_odd_message(message, chance))
    merged = merge_chunks(sse.split_events(told))
    seen = merged["message"]
    assert ((seen.get("content") or None), seen.get("refusal")) == (said["content"], said["refusal"])
    assert list_calls(seen) == list_calls(said)
    assert (seen.get("reasoning_content") or None) == said.get("reasoning_content")
    kept = [{name: value for name, value in one.items() if name != "index"} for one in seen.get("thinking_blocks", ())]
    assert kept == said.get("thinking_blocks", [])
    assert merged["finish_reason"] == finish
    chunks = read_events(told)
    assert [choice["finish_reason"] for one in chunks for choice in one["choices"]].count(finish) == 1
    assert [one["usage"] for one in chunks if one.get("usage")] == [whole["usage"]]


@settings(max_examples=200, deadline=None)
@given(messages(), chances)
def test_responses_over_messages(message: dict[str, Any], chance: random.Random) -> None:
    """In two steps, through chat."""
    whole = decode(build_response(build_completion(encode(message), 1), make_head()))
    first, second = MessagesToChatStream(1, wants_usage=True), ChatToResponsesStream(make_head())
    told = second.feed(first.feed(write_odd_message(message, chance))) + second.feed(first.end()) + second.end()
    events = read_events(told)
    response = events[-1]["response"]
    assert read_arguments(response.pop("output")) == read_arguments(whole.pop("output"))
    assert response == whole
    assert [event["sequence_number"] for event in events] == list(range(len(events)))


@settings(max_examples=200, deadline=None)
@given(completions(), chances)
def test_messages_over_chat(completion: dict[str, Any], chance: random.Random) -> None:
    whole = decode(build_message_reply(encode(completion)))
    merged = merge_message_events(tell(ChatToMessagesStream(), OddChunks(completion, chance).write()))
    assert merged.pop("stopped")
    assert merged == whole


@settings(max_examples=200, deadline=None)
@given(completions(), chances)
def test_responses_over_chat(completion: dict[str, Any], chance: random.Random) -> None:
    whole = decode(build_response(encode(completion), make_head()))
    events = read_events(tell(ChatToResponsesStream(make_head()), OddChunks(completion, chance).write()))
    assert events[-1]["response"] == whole


@settings(max_examples=10, deadline=None)
@given(messages(), completions(), chances)
def test_odd_streams_may_be_cut_at_every_byte(
    message: dict[str, Any], completion: dict[str, Any], chance: random.Random
) -> None:
    feed_every_cut(lambda: MessagesToChatStream(1, wants_usage=True), write_odd_message(message, chance))
    feed_every_cut(ChatToMessagesStream, OddChunks(completion, chance).write())


def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"id": "x", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def fragment(index: int | None, name: str | None = None, arguments: str = "", id: str | None = None) -> dict[str, Any]:
    return {"index": index, "id": id, "function": {"name": name, "arguments": arguments}}


def test_calls_that_come_interleaved_are_told_one_after_the_other() -> None:
    first, second = fragment(0, "f", id="a"), fragment(1, "g", id="b")
    parts = [first, second, fragment(1, None, '{"y"'), fragment(0, None, '{"x":1}'), fragment(1, None, ":2}")]
    events = [chunk(tool_calls=[part]) for part in parts]
    data = frame([*events, chunk("tool_calls"), b"[DONE]"], random.Random(0), named=False)
    content = merge_message_events(tell(ChatToMessagesStream(), data))["content"]
    assert [(one["id"], one["name"], one["input"]) for one in content] == [("a", "f", {"x": 1}), ("b", "g", {"y": 2})]


@pytest.mark.parametrize("index", [None, 0])
def test_whole_calls_without_ids_are_several_calls(index: int | None) -> None:
    parts = [fragment(index, "f", '{"x":1}', ""), fragment(index, "f", '{"x":2}', "")]
    message = {"role": "assistant", "tool_calls": parts}
    whole = encode({"id": "x", "choices": [{"message": message, "finish_reason": "tool_calls"}]})
    events = [chunk(tool_calls=[part]) for part in parts]
    data = frame([*events, chunk("tool_calls"), b"[DONE]"], random.Random(0), named=False)
    content = merge_message_events(tell(ChatToMessagesStream(), data))["content"]
    assert content == decode(build_message_reply(whole))["content"]
    assert [one["input"] for one in content] == [{"x": 1}, {"x": 2}]
    response = read_events(tell(ChatToResponsesStream(make_head()), data))[-1]["response"]
    assert response["output"] == decode(build_response(whole, make_head()))["output"]


def test_a_call_that_was_complete_when_another_followed_cannot_go_on() -> None:
    parts = [fragment(0, "f", "{}", "a"), fragment(1, "g", "{", "b"), fragment(0, None, "{}")]
    with pytest.raises(UpstreamInvalid):
        ChatToMessagesStream().feed(b"".join(sse.encode_event(encode(chunk(tool_calls=[one]))) for one in parts))


@pytest.mark.parametrize("details", [[], "x", 1, {"explanation": 5}])
def test_details_of_another_kind_are_no_refusal(details: Any) -> None:
    event = {"type": "message_delta", "delta": {"stop_reason": "refusal", "stop_details": details}, "usage": {}}
    told = MessagesToChatStream(1, wants_usage=False).feed(sse.encode_event(encode(event)))
    assert read_events(told)[0]["choices"][0] == {
        "index": 0, "delta": {}, "logprobs": None, "finish_reason": "content_filter"
    }  # fmt: skip


ENDS = (b"[DONE]", b'"finish_reason":"', b"message_stop", b"response.completed", b"response.incomplete")


def tell_all(data: bytes, *, from_messages: bool) -> list[bytes]:
    """What the clients of all other dialects get of a stream."""
    if not from_messages:
        return [tell(ChatToMessagesStream(), data), tell(ChatToResponsesStream(make_head()), data)]
    chat = tell(MessagesToChatStream(1, wants_usage=True), data)
    return [chat, tell(ChatToResponsesStream(make_head()), chat)]


def says_why(event: dict[str, Any]) -> bool:
    """Whether an event says that the model stopped."""
    reasons = [choice.get("finish_reason") for choice in event.get("choices", ())]
    return event.get("type") == "message_stop" or any([(event.get("delta") or {}).get("stop_reason"), *reasons])


@settings(max_examples=200, deadline=None)
@given(messages(), completions(), chances)
def test_an_odd_stream_that_breaks_off_has_no_end(
    message: dict[str, Any], completion: dict[str, Any], chance: random.Random
) -> None:
    for data, from_messages in (
        (write_odd_message(message, chance), True),
        (OddChunks(completion, chance).write(), False),
    ):
        cut = data[: chance.randrange(len(data))]
        is_over = any(map(says_why, read_events(cut)))
        for told in tell_all(cut, from_messages=from_messages):
            assert is_over or not any(end in told for end in ENDS)


@settings(max_examples=100, deadline=None)
@given(messages(), completions(), chances)
def test_an_error_in_an_odd_stream_is_the_last_event(
    message: dict[str, Any], completion: dict[str, Any], chance: random.Random
) -> None:
    failure = {"message": "boom", "type": "overloaded_error"}
    for data, from_messages in (
        (write_odd_message(message, chance), True),
        (OddChunks(completion, chance).write(), False),
    ):
        events = sse.split_events(data)
        before = events[: next(at for at, one in enumerate(events) if any(map(says_why, read_events(one))))]
        at = chance.randint(0, len(before))
        error = sse.encode_event(encode({"type": "error", "error": failure}))
        spoiled = b"".join([*before[:at], error, *events[at:]])
        for told in tell_all(spoiled, from_messages=from_messages):
            last = read_events(told)[-1]
            assert "boom" in str(last)
            assert not any(end in told for end in ENDS)


@settings(max_examples=150, deadline=None)
@given(messages(), chances)
def test_what_anthropic_said_goes_back_through_responses_as_it_came(
    message: dict[str, Any], chance: random.Random
) -> None:
    """Whole or from a stream: thoughts between their neighbours, with their signatures."""
    whole = decode(build_response(build_completion(encode(message), 1), make_head()))
    first, second = MessagesToChatStream(1, wants_usage=False), ChatToResponsesStream(make_head())
    told = second.feed(first.feed(write_odd_message(message, chance))) + second.feed(first.end()) + second.end()
    spoken = [block for block in message["content"] if block.get("text", "-")]
    wanted = join_texts(spoken) + ([{"type": "text", "text": "No."}] if message["stop_details"] else [])
    for output in (whole["output"], read_events(told)[-1]["response"]["output"]):
        body = encode({"model": "m", "input": [{"role": "user", "content": "Hi"}, *output]})
        call = UpstreamRequest("/responses", body, stream=False, dialect="responses")
        can = Capabilities(dialects=frozenset({"messages"}), cache_marker=True)
        sent = decode(translate_body(call, can))["messages"][1:]
        assert {one["role"] for one in sent} <= {"assistant"}
        assert join_texts([block for one in sent for block in one["content"]]) == join_texts(wanted)


def join_texts(content: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Neighbouring texts as one: what chat can tell apart."""
    joined: list[dict[str, Any]] = []
    for block in content:
        if block["type"] == "text" and joined and joined[-1]["type"] == "text":
            joined[-1] = {"type": "text", "text": joined[-1]["text"] + block["text"]}
        else:
            joined.append(dict(block))
    return joined
