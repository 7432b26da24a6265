"""Clients of Anthropic's Messages over chat completions: requests one way, replies the other."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.errors import InvalidRequest, UpstreamInvalid
from gateway.upstreams.translation.chat_to_messages_reply import build_message_reply
from gateway.upstreams.translation.chat_to_messages_stream import ChatToMessagesStream
from gateway.upstreams.translation.messages_to_chat_request import ChatAbilities, build_chat_request
from tests.support.dialect_streams import decode, encode, feed_every_cut, merge_message_events
from tests.support.upstream import Answer, tool_call

MARK = {"type": "ephemeral"}
USAGE = {"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14, "prompt_tokens_details": {"cached_tokens": 6}}


def translate(can: ChatAbilities = ChatAbilities(), **fields: Any) -> dict[str, Any]:  # noqa: B008
    body = {"model": "gpt", "max_tokens": 50, "messages": [{"role": "user", "content": "Hi"}], **fields}
    return dict(decode(build_chat_request(encode(body), can)))


def write_stream(answer: Answer, *, usage: bool = True) -> bytes:
    options = {"stream": True, "stream_options": {"include_usage": usage}}
    return b"".join(piece for piece in answer.respond(options, 1).pieces if isinstance(piece, bytes))


def read_whole(answer: Answer) -> dict[str, Any]:
    piece = answer.respond({}, 1).pieces[0]
    assert isinstance(piece, bytes)
    return dict(decode(build_message_reply(piece)))


def read_stream(answer: Answer) -> dict[str, Any]:
    translator = ChatToMessagesStream()
    return merge_message_events(translator.feed(write_stream(answer)) + translator.end())


def answer(finish: str = "stop", **message: Any) -> Answer:
    return Answer({"role": "assistant", "content": None, **message}, finish, usage=USAGE)


def test_the_system_field_becomes_the_first_message() -> None:
    assert translate(system="Be brief.")["messages"][0] == {"role": "system", "content": "Be brief."}
    blocks = [{"type": "text", "text": "One"}, {"type": "text", "text": "Two", "cache_control": MARK}]
    parts = [{"type": "text", "text": "One"}, {"type": "text", "text": "Two"}]
    assert translate(system=blocks)["messages"][0]["content"] == parts
    kept = translate(ChatAbilities(anthropic_fields=True), system=blocks)["messages"][0]["content"]
    assert kept == blocks


def test_results_become_messages_that_come_before_what_the_user_says() -> None:
    call = {"type": "tool_use", "id": "t1", "name": "f", "input": {"q": 1}}
    results = [
        {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "one"}]},
        {"type": "tool_result", "tool_use_id": "t2", "content": "no such file", "is_error": True},
        {"type": "text", "text": "Well?"},
    ]
    made = translate(messages=[{"role": "user", "content": "Go"}, {"role": "assistant", "content": [call]},
                               {"role": "user", "content": results}])["messages"]  # fmt: skip
    assert made[1]["tool_calls"] == [
        {"id": "t1", "type": "function", "function": {"name": "f", "arguments": '{"q":1}'}}
    ]
    assert made[2:] == [
        {"role": "tool", "tool_call_id": "t1", "content": "one"},
        {"role": "tool", "tool_call_id": "t2", "content": "Error: no such file"},
        {"role": "user", "content": "Well?"},
    ]


@pytest.mark.parametrize("failed", [False, True])
def test_a_result_without_blocks_is_an_empty_text(failed: bool) -> None:
    result = {"type": "tool_result", "tool_use_id": "t1", "content": [], "is_error": failed}
    made = translate(messages=[{"role": "user", "content": [result]}])["messages"]
    assert made == [{"role": "tool", "tool_call_id": "t1", "content": "Error: " if failed else ""}]


def test_options_have_their_counterparts() -> None:
    schema = {"type": "object"}
    made = translate(
        tools=[{"name": "f", "description": "d", "input_schema": schema, "cache_control": MARK}],
        tool_choice={"type": "tool", "name": "f", "disable_parallel_tool_use": True},
        stop_sequences=["END"], metadata={"user_id": "u"}, stream=True, temperature=0.5,
        thinking={"type": "enabled", "budget_tokens": 3000},
        output_config={"format": {"type": "json_schema", "schema": schema}},
    )  # fmt: skip
    assert made["tools"] == [{"type": "function", "function": {"name": "f", "description": "d", "parameters": schema}}]
    assert made["tool_choice"] == {"type": "function", "function": {"name": "f"}}
    assert (made["parallel_tool_calls"], made["stop"], made["user"]) == (False, ["END"], "u")
    assert (made["stream_options"], made["reasoning_effort"]) == ({"include_usage": True}, "medium")
    assert made["response_format"]["json_schema"]["schema"] == schema
    assert made["max_completion_tokens"] == 50


@pytest.mark.parametrize("kind", ["auto", "none"])
def test_a_free_choice_without_tools_is_left_out(kind: str) -> None:
    made = translate(tool_choice={"type": kind, "disable_parallel_tool_use": True})
    assert made.keys().isdisjoint({"tool_choice", "parallel_tool_calls"})


def test_images_and_documents_are_carried() -> None:
    content = translate(messages=[{"role": "user", "content": [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
        {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
        {"type": "document", "title": "a.pdf",
         "source": {"type": "base64", "media_type": "application/pdf", "data": "BBBB"}},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "plain"}},
    ]}])["messages"][0]["content"]  # fmt: skip
    assert [part.get("image_url", {}).get("url") for part in content[:2]] == [
        "data:image/png;base64,AAAA",
        "https://example.com/a.png",
    ]
    assert content[2]["file"] == {"filename": "a.pdf", "file_data": "data:application/pdf;base64,BBBB"}
    assert content[3] == {"type": "text", "text": "plain"}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"top_k": 5}, "top_k"),
        ({"mcp_servers": [{"url": "x"}]}, "mcp_servers"),
        ({"never_heard_of": 1}, "never_heard_of"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "tools[0].type"),
        ({"messages": [{"role": "user", "content": [{"type": "search_result"}]}]}, "messages[0].content[0].type"),
        ({"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "file", "file_id": "f"}}]}]},
         "messages[0].content[0].source.type"),
        ({"messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t",
                                                     "content": [{"type": "image"}]}]}]},
         "messages[0].content[0].content[0].type"),
    ],
)  # fmt: skip
def test_what_cannot_be_carried_is_refused_by_name(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        translate(**fields)
    assert refused.value.param == param


def test_thoughts_go_back_in_the_field_in_which_the_upstream_told_them() -> None:
    told = read_whole(answer("tool_calls", reasoning_content="Hm.", tool_calls=[tool_call("f", q=1)]))
    assert told["content"][0] == {"type": "thinking", "thinking": "Hm.", "signature": "chat:reasoning_content"}
    back = translate(messages=[{"role": "user", "content": "x"}, {"role": "assistant", "content": told["content"]}])
    assert back["messages"][1]["reasoning_content"] == "Hm."


def test_signed_thoughts_go_back_only_to_whom_they_belong() -> None:
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    messages = [{"role": "assistant", "content": [thought, {"type": "text", "text": "Yes"}]}]
    assert translate(messages=messages)["messages"][0] == {"role": "assistant", "content": "Yes"}
    kept = translate(ChatAbilities(anthropic_fields=True), messages=messages)["messages"][0]
    assert kept["thinking_blocks"] == [thought]


def test_a_whole_reply_becomes_a_message() -> None:
    made = read_whole(
        answer("tool_calls", content="Yes.", tool_calls=[tool_call("f", "c1", q=1), tool_call("g", "c2")])
    )
    assert made["content"] == [
        {"type": "text", "text": "Yes."},
        {"type": "tool_use", "id": "c1", "name": "f", "input": {"q": 1}},
        {"type": "tool_use", "id": "c2", "name": "g", "input": {}},
    ]
    assert (made["stop_reason"], made["stop_sequence"]) == ("tool_use", None)
    assert made["usage"] == {
        "input_tokens": 4,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 6,
        "output_tokens": 4,
    }


def test_what_a_cache_wrote_is_no_input() -> None:
    details = {"cached_tokens": 6, "cache_write_tokens": 3}
    told = Answer({"content": "x"}, "stop", usage={**USAGE, "prompt_tokens_details": details})
    for made in (read_whole(told), read_stream(told)):
        assert (made["usage"]["input_tokens"], made["usage"]["cache_creation_input_tokens"]) == (1, 3)


@pytest.mark.parametrize("odd", [[], "none", 5], ids=str)
def test_usage_that_is_no_object_counts_as_none(odd: Any) -> None:
    told = Answer({"content": "x"}, "stop", usage=odd)
    for made in (read_whole(told), read_stream(told)):
        assert (made["content"][0]["text"], made["usage"]["input_tokens"]) == ("x", 0)


@pytest.mark.parametrize(
    ("finish", "stop"),
    [("stop", "end_turn"), ("length", "max_tokens"), ("content_filter", "refusal"), ("tool_calls", "tool_use")],
)
def test_finish_reasons_have_their_words(finish: str, stop: str) -> None:
    assert read_whole(answer(finish, content="x"))["stop_reason"] == stop
    assert read_stream(answer(finish, content="x"))["stop_reason"] == stop


def test_a_refusal_is_text_and_says_that_it_is_one() -> None:
    for made in (read_whole(answer(refusal="No.")), read_stream(answer(refusal="No."))):
        assert (made["content"], made["stop_reason"]) == ([{"type": "text", "text": "No."}], "refusal")


def test_arguments_that_are_no_object_are_an_error_unless_the_model_was_cut_short() -> None:
    call = tool_call("f") | {"function": {"name": "f", "arguments": '{"q": "x'}}
    with pytest.raises(UpstreamInvalid):
        read_whole(answer("tool_calls", tool_calls=[call]))
    for finish, stop in (("length", "max_tokens"), ("content_filter", "refusal")):
        made = read_whole(answer(finish, tool_calls=[call]))
        assert (made["content"], made["stop_reason"]) == ([], stop)


messages = st.fixed_dictionaries(
    {"content": st.none() | st.text(max_size=20)},
    optional={
        "reasoning_content": st.text(min_size=1, max_size=10),
        "tool_calls": st.lists(
            st.builds(lambda name, id, v: tool_call(name, id, v=v),
                      st.sampled_from("fg"), st.uuids().map(str), st.integers(-9, 9) | st.text(max_size=5)),
            min_size=1, max_size=3,
        ),
    },
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(messages)
def test_a_stream_and_a_whole_reply_come_to_the_same_message(message: dict[str, Any]) -> None:
    thought = {"reasoning_content": message["reasoning_content"]} if "reasoning_content" in message else {}
    said = Answer(thought | message, "tool_calls" if "tool_calls" in message else "stop", usage=USAGE)
    streamed = read_stream(said)
    assert streamed.pop("stopped")
    assert streamed == read_whole(said)


def test_a_stream_cut_at_every_byte_gives_the_same_events() -> None:
    said = answer(
        "tool_calls", reasoning_content="Hm", content="Grüße", tool_calls=[tool_call("f", q="ü"), tool_call("g")]
    )
    feed_every_cut(ChatToMessagesStream, write_stream(said))


def test_a_stream_that_breaks_off_never_seems_complete() -> None:
    data = write_stream(answer("tool_calls", content="Hello", tool_calls=[tool_call("f", q=1)]))
    for cut in range(0, data.index(b'"finish_reason":"'), 7):
        translator = ChatToMessagesStream()
        told = translator.feed(data[:cut]) + translator.end()
        assert b"message_stop" not in told
        assert b"message_delta" not in told


def test_a_stream_without_its_done_is_complete_once_it_said_why_it_stopped() -> None:
    data = write_stream(answer(content="Hello")).replace(b"data: [DONE]\n\n", b"")
    translator = ChatToMessagesStream()
    assert merge_message_events(translator.feed(data) + translator.end())["stopped"]


def test_providers_that_number_every_call_zero_are_understood() -> None:
    chunks = [
        {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}]},
        {"tool_calls": [{"index": 0, "id": "b", "function": {"name": "g", "arguments": ""}}]},
        {"tool_calls": [{"function": {"arguments": '{"x":1}'}}]},
    ]
    data = b"".join(b"data: " + encode({"id": "1", "choices": [{"delta": delta}]}) + b"\n\n" for delta in chunks)
    data += b'data: {"choices":[{"delta":{},"finish_reason":"tool_calls"}]}\n\ndata: [DONE]\n\n'
    content = merge_message_events(ChatToMessagesStream().feed(data))["content"]
    assert [(block["id"], block["name"], block["input"]) for block in content] == [("a", "f", {}), ("b", "g", {"x": 1})]


def test_an_error_in_the_stream_is_an_error_of_anthropics() -> None:
    error = {"error": {"message": "Slow down", "type": "rate_limit_error", "param": None, "code": None}}
    told = ChatToMessagesStream().feed(b"data: " + encode(error) + b"\n\n")
    assert told.startswith(b"event: error\ndata: ")
    assert b'"type":"rate_limit_error","message":"Slow down"' in told
