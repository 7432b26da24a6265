"""Clients of OpenAI's Responses over chat completions: requests one way, replies the other."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from gateway.errors import InvalidRequest
from gateway.upstreams.translation.chat_to_responses import ChatToResponsesStream, ResponseHead, build_response
from gateway.upstreams.translation.messages_to_chat_request import ChatAbilities
from gateway.upstreams.translation.responses_to_chat_request import build_chat_request_of_responses
from tests.support.dialect_streams import decode, encode, feed_every_cut, read_events
from tests.support.upstream import Answer, tool_call

EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
REQUEST = encode({"model": "gpt", "input": "Hi", "instructions": "Be brief.", "metadata": {"a": "b"}})


IMAGE = {"type": "input_image", "image_url": "data:image/png;base64,AA", "detail": "low"}


def translate(can: ChatAbilities = ChatAbilities(), **fields: Any) -> dict[str, Any]:  # noqa: B008
    body = {"model": "gpt", "input": "Hi", **fields}
    return dict(decode(build_chat_request_of_responses(encode(body), can)))


def make_head() -> ResponseHead:
    return ResponseHead(REQUEST, "1", 7)


def write_stream(answer: Answer) -> bytes:
    options = {"stream": True, "stream_options": {"include_usage": True}}
    return b"".join(piece for piece in answer.respond(options, 1).pieces if isinstance(piece, bytes))


def read_whole(answer: Answer) -> dict[str, Any]:
    piece = answer.respond({}, 1).pieces[0]
    assert isinstance(piece, bytes)
    made = dict(decode(build_response(piece, make_head())))
    Response.model_validate(made)
    return made


def read_stream(data: bytes) -> list[dict[str, Any]]:
    translator = ChatToResponsesStream(make_head())
    events = read_events(translator.feed(data) + translator.end())
    for event in events:
        EVENT.validate_python(event)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    return events


def answer(finish: str = "stop", **message: Any) -> Answer:
    return Answer({"role": "assistant", **message}, finish)


def test_instructions_and_a_plain_input_become_two_messages() -> None:
    assert translate(instructions="Be brief.")["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
    ]


def test_what_the_assistant_said_and_called_in_one_go_is_one_message() -> None:
    made = translate(input=[
        {"role": "user", "content": [{"type": "input_text", "text": "Go"}, IMAGE]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"},
        {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant",
         "content": [{"type": "output_text", "text": "Well", "annotations": []}]},
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": '{"q":1.50}'},
        {"type": "custom_tool_call", "call_id": "c2", "name": "g", "input": "raw"},
        {"type": "function_call_output", "call_id": "c1", "output": "one"},
        {"type": "custom_tool_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "two"}]},
        {"role": "user", "content": "So?"},
    ])["messages"]  # fmt: skip
    assert [message["role"] for message in made] == ["user", "assistant", "tool", "tool", "user"]
    assert made[0]["content"][1]["image_url"] == {"url": "data:image/png;base64,AA", "detail": "low"}
    assert made[1] == {"role": "assistant", "content": "Well", "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"q":1.50}'}},
        {"id": "c2", "type": "custom", "custom": {"name": "g", "input": "raw"}},
    ]}  # fmt: skip
    assert (made[2]["content"], made[3]["content"]) == ("one", "two")


def test_what_was_said_or_thought_behind_a_call_keeps_it_next_to_its_result() -> None:
    """Chat wants results right behind the message with the calls."""
    call = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
    made = translate(input=[
        {"role": "assistant", "content": "One"}, call,
        {"role": "assistant", "content": [{"type": "text", "text": "Two"}]},
        {"type": "reasoning", "content": [{"text": "Hm."}], "encrypted_content": "chat:reasoning_content"},
        {**call, "call_id": "c2"}, {"type": "function_call_output", "call_id": "c1", "output": "x"},
        {"type": "function_call_output", "call_id": "c2", "output": "y"}, {"role": "assistant", "content": "Three"},
    ])["messages"]  # fmt: skip
    assert [message["role"] for message in made] == ["assistant", "tool", "tool", "assistant"]
    assert [part["text"] for part in made[0]["content"]] == ["One", "Two"]
    assert [one["id"] for one in made[0]["tool_calls"]] == ["c1", "c2"]
    assert (made[0]["reasoning_content"], made[3]["content"]) == ("Hm.", "Three")


def test_what_clients_read_from_replies_may_come_back_with_them() -> None:
    text = {"type": "output_text", "text": "{}", "annotations": [], "parsed": {}}
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", "parsed_arguments": {}}
    said = {"type": "message", "role": "assistant", "content": [text]}
    output = {"type": "function_call_output", "call_id": "c", "output": "x"}
    message, result = translate(input=[said, call, output])["messages"]
    assert (message["content"], message["tool_calls"][0]["id"], result["content"]) == ("{}", "c", "x")


def test_options_about_tools_are_left_out_without_tools() -> None:
    """Chat refuses them then, Responses does not."""
    for choice in ("auto", "none"):
        assert (
            not {"parallel_tool_calls", "tool_choice"}
            & translate(parallel_tool_calls=True, tool_choice=choice, tools=[]).keys()
        )
    assert translate(tool_choice="required")["tool_choice"] == "required"


def test_no_log_probabilities_are_asked_for_by_a_zero() -> None:
    assert not {"logprobs", "top_logprobs"} & translate(top_logprobs=0).keys()
    asked = translate(top_logprobs=0, include=["message.output_text.logprobs"])
    assert asked["logprobs"] is True


def test_options_have_their_counterparts() -> None:
    schema = {"type": "object"}
    made = translate(
        tools=[{"type": "function", "name": "f", "parameters": schema, "strict": True},
               {"type": "custom", "name": "g", "format": {"type": "grammar", "syntax": "lark", "definition": "x"}}],
        tool_choice={"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]},
        text={"format": {"type": "json_schema", "name": "n", "schema": schema, "strict": True}, "verbosity": "low"},
        reasoning={"effort": "low", "summary": "auto"}, max_output_tokens=9, stream=True, store=True,
        include=["reasoning.encrypted_content", "message.output_text.logprobs"], truncation="disabled",
    )  # fmt: skip
    assert made["tools"][0] == {"type": "function", "function": {"name": "f", "parameters": schema, "strict": True}}
    assert made["tools"][1]["custom"]["format"] == {"type": "grammar", "grammar": {"syntax": "lark", "definition": "x"}}
    assert made["tool_choice"]["allowed_tools"]["tools"] == [{"type": "function", "function": {"name": "f"}}]
    assert made["response_format"]["json_schema"] == {"name": "n", "schema": schema, "strict": True}
    assert (made["verbosity"], made["reasoning_effort"], made["max_completion_tokens"]) == ("low", "low", 9)
    assert (made["stream_options"], made["logprobs"]) == ({"include_usage": True}, True)
    assert "store" not in made


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"background": True}, "background"),
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"truncation": "auto"}, "truncation"),
        ({"never_heard_of": 1}, "never_heard_of"),
        ({"include": ["file_search_call.results"]}, "include"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"tool_choice": {"type": "mcp", "server_label": "x"}}, "tool_choice"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0].type"),
        ({"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}]},
         "input[0].content[0].file_id"),
    ],
)  # fmt: skip
def test_what_cannot_be_carried_is_refused_by_name(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        translate(**fields)
    assert refused.value.param == param


def test_a_whole_reply_becomes_a_response() -> None:
    made = read_whole(
        answer("tool_calls", reasoning_content="Hm.", content="Yes.", tool_calls=[tool_call("f", "c1", q=1)])
    )
    assert (made["id"], made["status"], made["created_at"]) == ("resp_1", "completed", 7)
    assert [item["type"] for item in made["output"]] == ["reasoning", "message", "function_call"]
    assert made["output"][1]["content"] == [{"type": "output_text", "annotations": [], "logprobs": [], "text": "Yes."}]
    assert (made["output"][2]["call_id"], made["output"][2]["arguments"]) == ("c1", '{"q":1}')
    assert (made["instructions"], made["metadata"]) == ("Be brief.", {"a": "b"})
    assert (made["usage"]["input_tokens"], made["usage"]["total_tokens"]) == (10, 12)


def test_thoughts_go_back_in_the_form_in_which_they_came() -> None:
    item = read_whole(answer(reasoning_content="Hm.", content="Yes."))["output"][0]
    assert translate(input=[item])["messages"][0]["reasoning_content"] == "Hm."
    signed = [{"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}, {"type": "redacted_thinking", "data": "eA"}]
    item = read_whole(answer(reasoning_content="Hm.", thinking_blocks=signed, content="Yes."))["output"][0]
    back = translate(ChatAbilities(anthropic_fields=True), input=[item, {"role": "user", "content": "x"}])
    assert back["messages"][0]["thinking_blocks"] == signed


@pytest.mark.parametrize("odd", [[], "none", 5], ids=str)
def test_usage_that_is_no_object_counts_as_none(odd: Any) -> None:
    told = answer(content="Yes.").but(usage=odd)
    for made in (read_whole(told), read_stream(write_stream(told))[-1]["response"]):
        assert (made["output"][0]["content"][0]["text"], made["usage"]) == ("Yes.", None)


def test_a_reply_that_was_cut_short_is_incomplete() -> None:
    made = read_whole(answer("length", content="Ye"))
    assert (made["status"], made["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
    assert made["output"][0]["status"] == "incomplete"
    assert read_stream(write_stream(answer("length", content="Ye")))[-1]["type"] == "response.incomplete"


def test_a_refusal_is_a_part_of_its_own() -> None:
    content = read_whole(answer(content=None, refusal="No."))["output"][0]["content"]
    assert content == [{"type": "refusal", "refusal": "No."}]


def test_a_stream_tells_every_step_once() -> None:
    events = read_stream(write_stream(answer("tool_calls", content="Yes.", tool_calls=[tool_call("f", "c1", q=1)])))
    kinds = [event["type"] for event in events]
    assert kinds[:4] == ["response.created", "response.in_progress", "response.output_item.added",
                         "response.content_part.added"]  # fmt: skip
    assert kinds[-3:] == ["response.function_call_arguments.done", "response.output_item.done", "response.completed"]
    assert kinds.count("response.output_item.added") == kinds.count("response.output_item.done") == 2


messages = st.fixed_dictionaries(
    {},
    optional={
        "reasoning_content": st.text(min_size=1, max_size=10),
        "content": st.text(max_size=20),
        "refusal": st.text(min_size=1, max_size=5),
        "tool_calls": st.lists(
            st.builds(lambda name, id, v: tool_call(name, id, v=v),
                      st.sampled_from("fg"), st.uuids().map(str), st.integers(-9, 9) | st.text(max_size=5)),
            min_size=1, max_size=3,
        ),
    },
)  # fmt: skip


WRITTEN_ORDER = ["reasoning_content", "content", "refusal", "tool_calls"]


@settings(max_examples=100, deadline=None)
@given(messages)
def test_a_stream_and_a_whole_reply_come_to_the_same_response(message: dict[str, Any]) -> None:
    ordered = {name: message[name] for name in sorted(message, key=WRITTEN_ORDER.index)}
    said = answer("tool_calls" if "tool_calls" in message else "stop", **ordered)
    events = read_stream(write_stream(said))
    assert events[-1]["response"] == read_whole(said)
    items = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert items == events[-1]["response"]["output"]


def test_a_stream_cut_at_every_byte_gives_the_same_events() -> None:
    said = answer(
        "tool_calls", reasoning_content="Hm", content="Grüße", tool_calls=[tool_call("f", q="ü"), tool_call("g")]
    )
    feed_every_cut(lambda: ChatToResponsesStream(make_head()), write_stream(said))


def test_a_stream_that_breaks_off_never_seems_complete() -> None:
    data = write_stream(answer("tool_calls", content="Hello", tool_calls=[tool_call("f", q=1)]))
    for cut in range(0, data.index(b'"finish_reason":"'), 7):
        translator = ChatToResponsesStream(make_head())
        assert b"response.completed" not in translator.feed(data[:cut]) + translator.end()


def test_an_error_in_the_stream_is_the_last_event() -> None:
    error = {"error": {"message": "Slow down", "type": "rate_limit_error", "param": None, "code": "limited"}}
    events = read_stream(b"data: " + encode(error) + b"\n\ndata: [DONE]\n\n")
    assert events == [{"type": "error", "code": "limited", "message": "Slow down", "param": None, "sequence_number": 0}]
