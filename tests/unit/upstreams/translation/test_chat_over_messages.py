"""Chat clients over Anthropic's Messages: requests one way, replies the other."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway import sse
from gateway.errors import InvalidRequest, UpstreamInvalid
from gateway.upstreams.translation.chat_to_messages_request import build_messages_request
from gateway.upstreams.translation.messages_to_chat_reply import build_completion
from gateway.upstreams.translation.messages_to_chat_stream import MessagesToChatStream
from tests.support.dialect_streams import (
    decode,
    encode,
    feed_every_cut,
    merge_chunks,
    read_events,
    write_message_events,
)

MODEL = "claude-x"
MARK = {"type": "ephemeral"}


def translate(**fields: Any) -> dict[str, Any]:
    body = {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}], **fields}
    return dict(decode(build_messages_request(encode(body), 4096)))


def reply(*blocks: dict[str, Any], stop: str = "end_turn", **fields: Any) -> dict[str, Any]:
    usage = {"input_tokens": 5, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 2, "output_tokens": 7}
    return {"id": "msg_1", "type": "message", "role": "assistant", "model": MODEL, "content": list(blocks),
            "stop_reason": stop, "stop_sequence": None, "usage": usage, **fields}  # fmt: skip


def stream(message: dict[str, Any], *, wants_usage: bool = True) -> list[bytes]:
    translator = MessagesToChatStream(1, wants_usage=wants_usage)
    return sse.split_events(translator.feed(write_message_events(message)) + translator.end())


def test_leading_instructions_become_the_system_field_and_keep_their_cache_marker() -> None:
    part = {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}
    made = translate(messages=[{"role": "system", "content": "One"}, {"role": "developer", "content": [part]},
                               {"role": "user", "content": "Hi"}])  # fmt: skip
    assert made["system"] == [{"type": "text", "text": "One"}, part]
    assert made["messages"] == [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]


def test_instructions_in_the_middle_stay_there() -> None:
    made = translate(messages=[{"role": "user", "content": "Hi"}, {"role": "developer", "content": "Now in French"}])
    assert made["messages"][1] == {"role": "system", "content": [{"type": "text", "text": "Now in French"}]}


def test_results_stand_in_one_user_message_before_what_the_user_says() -> None:
    calls = [{"id": f"c{n}", "type": "function", "function": {"name": "f", "arguments": '{"n": 1.50}'}} for n in (1, 2)]
    made = translate(messages=[
        {"role": "user", "content": "Go"}, {"role": "assistant", "content": "", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "c1", "content": "one"},
        {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "two"}]},
        {"role": "user", "content": "Well?"},
    ])  # fmt: skip
    assert [block["type"] for block in made["messages"][1]["content"]] == ["tool_use", "tool_use"]
    results = made["messages"][2]
    assert results["role"] == "user"
    assert [block.get("tool_use_id") or block["text"] for block in results["content"]] == ["c1", "c2", "Well?"]


def test_arguments_keep_their_bytes() -> None:
    call = {
        "id": "c",
        "type": "function",
        "function": {"name": "f", "arguments": '{"n":1.50,"big":123456789012345678901}'},
    }
    body = {"model": MODEL, "messages": [{"role": "assistant", "tool_calls": [call]}]}
    assert b'"input":{"n":1.50,"big":123456789012345678901}' in build_messages_request(encode(body), 10)


def test_a_limit_is_added_only_where_the_request_has_none() -> None:
    assert translate()["max_tokens"] == 4096
    assert translate(max_tokens=5)["max_tokens"] == 5
    assert translate(max_completion_tokens=6, max_tokens=5)["max_tokens"] == 6


def test_tools_choices_and_formats_have_their_counterparts() -> None:
    schema = {"type": "object", "properties": {"q": {"type": "string"}}}
    function = {"name": "f", "description": "d", "parameters": schema, "strict": True}
    made = translate(
        tools=[{"type": "function", "function": function}], tool_choice="required", parallel_tool_calls=False,
        response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": True}},
        reasoning_effort="high", stop="END", user="u1", service_tier="default",
    )  # fmt: skip
    assert made["tools"] == [{"name": "f", "description": "d", "input_schema": schema, "strict": True}]
    assert made["tool_choice"] == {"type": "any", "disable_parallel_tool_use": True}
    assert made["output_config"] == {"effort": "high", "format": {"type": "json_schema", "schema": schema}}
    assert (made["stop_sequences"], made["metadata"], made["service_tier"]) == (
        ["END"],
        {"user_id": "u1"},
        "standard_only",
    )


@pytest.mark.parametrize(("known", "told"), [(None, "A place"), ("A place", "A place"), ("Ours", "A place\n\nOurs")])
def test_what_is_said_about_a_format_is_said_in_its_schema(known: str | None, told: str) -> None:
    schema = {"type": "object"} | ({"description": known} if known else {})
    wanted = {"name": "place", "schema": schema, "description": "A place"}
    made = translate(response_format={"type": "json_schema", "json_schema": wanted})
    assert made["output_config"]["format"]["schema"] == {"type": "object", "description": told}


def test_what_clients_read_from_replies_may_come_back_with_them() -> None:
    function = {"name": "f", "arguments": '{"q":1}', "parsed_arguments": {"q": 1}}
    said: Any = {"role": "assistant", "content": "{}", "parsed": {}, "provider_specific_fields": {"refusal": None}}
    said["annotations"] = [{"type": "url_citation", "url_citation": {"url": "https://example.com"}}]
    message = {**said, "tool_calls": [{"id": "c", "type": "function", "function": function}]}
    made = translate(messages=[message, {"role": "tool", "tool_call_id": "c", "content": "x"}])["messages"][0]
    call = {"type": "tool_use", "id": "c", "name": "f", "input": {"q": 1}}
    assert made["content"] == [{"type": "text", "text": "{}"}, call]


@pytest.mark.parametrize("choice", ["auto", "none"])
def test_a_free_choice_without_tools_is_left_out(choice: str) -> None:
    assert "tool_choice" not in translate(tool_choice=choice, parallel_tool_calls=False)
    assert translate(tool_choice="required")["tool_choice"] == {"type": "any"}


def test_images_and_pdfs_are_carried() -> None:
    parts = [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "high"}},
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,BBBB"}},
    ]
    content = translate(messages=[{"role": "user", "content": parts}])["messages"][0]["content"]
    assert content[0]["source"] == {"type": "base64", "media_type": "image/png", "data": "AAAA"}
    assert content[1]["source"] == {"type": "url", "url": "https://example.com/a.png"}
    assert content[2] == {"type": "document", "title": "a.pdf",
                          "source": {"type": "base64", "media_type": "application/pdf", "data": "BBBB"}}  # fmt: skip


def test_a_thought_with_a_place_stands_beside_parts_of_any_kind() -> None:
    """Anthropic says itself that assistants send no images."""
    image = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "s", "offset": [3, 0]}
    parts = [{"type": "text", "text": "One"}, image, {"type": "text", "text": "Two", "cache_control": MARK}]
    made = translate(messages=[{"role": "assistant", "content": parts, "thinking_blocks": [thought]}])
    blocks = made["messages"][0]["content"]
    assert [block["type"] for block in blocks] == ["text", "thinking", "image", "text"]
    assert (blocks[0]["text"], blocks[-1]) == ("One", {"type": "text", "text": "Two", "cache_control": MARK})


def test_the_name_of_a_tool_beside_its_result_says_nothing_new() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    result = {"role": "tool", "tool_call_id": "c", "name": "f", "content": "one"}
    made = translate(messages=[{"role": "assistant", "tool_calls": [call]}, result])
    assert made["messages"][1]["content"] == [{"type": "tool_result", "tool_use_id": "c", "content": "one"}]


BROKEN_CALL = {"id": "c", "function": {"name": "f", "arguments": "["}}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"n": 2}, "n"),
        ({"temperature": 1.5}, "temperature"),
        ({"seed": 1}, "seed"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"never_heard_of": 1}, "never_heard_of"),
        ({"tools": [{"type": "custom", "custom": {"name": "x"}}]}, "tools[0].custom"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"messages": [{"role": "user", "name": "Bob", "content": "x"}]}, "messages[0].name"),
        ({"messages": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}]},
         "messages[0].content[0].input_audio"),
        ({"messages": [{"role": "function", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "assistant", "tool_calls": [BROKEN_CALL]}]},
         "messages[0].tool_calls[0].function.arguments"),
    ],
)  # fmt: skip
def test_what_cannot_be_carried_is_refused_by_name(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        translate(**fields)
    assert refused.value.param == param


def test_values_that_ask_for_nothing_are_no_reason_to_refuse() -> None:
    made = translate(n=1, logprobs=False, frequency_penalty=0, store=False, metadata={}, seed=None, logit_bias={})
    assert made.keys() == {"model", "max_tokens", "messages"}


THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
REDACTED = {"type": "redacted_thinking", "data": "eHg="}
CALL = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"q": "x", "n": [1, 2.5]}}


def say(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def test_a_whole_reply_becomes_a_completion() -> None:
    made = decode(build_completion(encode(reply(THOUGHT, say("Yes."), CALL, stop="tool_use")), 7))
    message = made["choices"][0]["message"]
    assert (made["id"], made["created"], made["model"]) == ("msg_1", 7, MODEL)
    assert made["choices"][0]["finish_reason"] == "tool_calls"
    assert (message["content"], message["reasoning_content"], message["thinking_blocks"]) == ("Yes.", "Hm.", [THOUGHT])
    assert decode(message["tool_calls"][0]["function"]["arguments"].encode()) == CALL["input"]
    assert made["usage"]["prompt_tokens"] == 10
    assert made["usage"]["prompt_tokens_details"] == {"cached_tokens": 3}
    assert made["usage"]["total_tokens"] == 17


@pytest.mark.parametrize(
    ("stop", "finish"),
    [("end_turn", "stop"), ("max_tokens", "length"), ("refusal", "content_filter"), ("stop_sequence", "stop")],
)
def test_stop_reasons_have_their_words(stop: str, finish: str) -> None:
    whole = decode(build_completion(encode(reply(say("x"), stop=stop)), 1))
    assert whole["choices"][0]["finish_reason"] == finish
    assert merge_chunks(stream(reply(say("x"), stop=stop)))["finish_reason"] == finish


def test_a_refusal_says_why() -> None:
    details = {"type": "refusal", "category": "bio", "explanation": "Not this."}
    whole = decode(build_completion(encode(reply(stop="refusal", stop_details=details)), 1))
    assert whole["choices"][0]["message"]["refusal"] == "Not this."


def test_a_block_that_nobody_asked_for_is_an_error_and_not_left_out() -> None:
    with pytest.raises(UpstreamInvalid):
        build_completion(encode(reply({"type": "server_tool_use", "id": "x"})), 1)


inputs = st.dictionaries(st.text(max_size=4), st.integers() | st.text(max_size=4), max_size=3)
blocks = st.lists(
    st.one_of(
        st.text(max_size=12).map(say),
        st.builds(lambda t, s: {"type": "thinking", "thinking": t, "signature": s},
                  st.text(max_size=8), st.text("abc=", min_size=1, max_size=6)),
        st.just(REDACTED),
        st.builds(lambda n, v: {"type": "tool_use", "id": f"t{n}", "name": f"f{n}", "input": v},
                  st.integers(0, 9), inputs),
    ),
    max_size=6,
)  # fmt: skip


def join_texts(content: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Neighbouring texts as one, and no empty ones: what a chat message can tell apart."""
    joined: list[dict[str, Any]] = []
    for block in content:
        if block["type"] == "text" and joined and joined[-1]["type"] == "text":
            joined[-1] = say(joined[-1]["text"] + block["text"])
        elif block["type"] != "text" or block["text"]:
            joined.append(dict(block))
    return joined


@settings(max_examples=150, deadline=None)
@given(blocks)
def test_a_stream_and_a_whole_reply_come_to_the_same_message(content: list[dict[str, Any]]) -> None:
    whole = decode(build_completion(encode(reply(*content)), 1))["choices"][0]["message"]
    merged = merge_chunks(stream(reply(*content)))["message"]
    for call in (*whole.get("tool_calls", ()), *merged.get("tool_calls", ())):
        call["function"]["arguments"] = decode(call["function"]["arguments"].encode())
    assert (merged.get("content") or None) == whole["content"]
    assert merged.get("tool_calls") == whole.get("tool_calls")
    thoughts = [{k: v for k, v in one.items() if k != "index"} for one in merged.get("thinking_blocks", ())]
    assert thoughts == whole.get("thinking_blocks", [])


@settings(max_examples=150, deadline=None)
@given(blocks)
def test_what_the_model_said_goes_back_as_it_came(content: list[dict[str, Any]]) -> None:
    """Thoughts and calls exactly, each thought between the same neighbours; texts in one piece."""
    message = decode(build_completion(encode(reply(*content)), 1))["choices"][0]["message"]
    body = {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}, message]}
    sent = decode(build_messages_request(encode(body), 1))["messages"]
    returned = sent[1]["content"] if len(sent) > 1 else []
    kept = join_texts(content)
    for kind in ("thinking", "redacted_thinking", "tool_use"):
        assert [b for b in returned if b["type"] == kind] == [b for b in kept if b["type"] == kind]
    assert "".join(b["text"] for b in returned if b["type"] == "text") == "".join(
        b["text"] for b in kept if b["type"] == "text"
    )
    order = [b["type"] for b in kept]
    if "tool_use" not in order or "text" not in order[order.index("tool_use") :]:
        assert returned == kept  # chat says text before calls; all else keeps its place


def test_a_stream_cut_at_every_byte_gives_the_same_chunks() -> None:
    data = write_message_events(reply(THOUGHT, say("Grüße"), CALL, stop="tool_use"))
    feed_every_cut(lambda: MessagesToChatStream(1, wants_usage=True), data)


def test_a_stream_that_breaks_off_never_seems_complete() -> None:
    data = write_message_events(reply(say("Hello"), CALL, stop="tool_use"))
    last = data.index(b"event: message_delta")
    for cut in range(0, last + 60, 7):
        translator = MessagesToChatStream(1, wants_usage=True)
        told = translator.feed(data[:cut]) + translator.end()
        assert b"[DONE]" not in told
        assert b'"finish_reason":"' not in told


def test_usage_comes_only_to_those_who_ask() -> None:
    assert any(b'"usage":{' in event for event in stream(reply(say("x"))))
    assert not any(b'"usage":{' in event for event in stream(reply(say("x")), wants_usage=False))


def test_an_error_in_the_stream_is_an_error_of_chat() -> None:
    translator = MessagesToChatStream(1, wants_usage=False)
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    told = read_events(translator.feed(b"event: error\ndata: " + encode(error) + b"\n\n"))
    assert told == [
        {"error": {"message": "Overloaded", "type": "server_error", "param": None, "code": "overloaded_error"}}
    ]
    assert translator.end() == b""


def test_a_ping_keeps_the_client_waiting_and_says_nothing() -> None:
    assert MessagesToChatStream(1, wants_usage=False).feed(b'event: ping\ndata: {"type": "ping"}\n\n') == b": ping\n\n"
