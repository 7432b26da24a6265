"""Large bodies of responses and messages are split in one pass; what comes out is the same as in two."""

import pytest

from gateway.conversation.dialects.messages.dialect import MESSAGES
from gateway.conversation.dialects.messages.request import LARGE_BODIES as large_messages
from gateway.conversation.dialects.raw_body import LARGE_BODY
from gateway.conversation.dialects.responses.dialect import RESPONSES
from gateway.conversation.dialects.responses.references import find_references
from gateway.conversation.dialects.responses.request import LARGE_BODIES as large_responses
from gateway.domain.chat import ChatRequest, MessageStyle
from gateway.domain.dialect import RequestDialect
from gateway.errors import GatewayError, InvalidJson, InvalidRequest


def enlarge(body: bytes) -> bytes:
    """The same JSON as a large body, which is read in another way."""
    return body + b" " * LARGE_BODY


def describe(request: ChatRequest) -> object:
    fields = {name: bytes(value) for name, value in request.fields.items()}
    head = (request.model, request.stream, request.style, request.previous)
    return fields, [bytes(one) for one in request.messages], head


def decode_both(dialect: RequestDialect, body: bytes) -> ChatRequest:
    """The request, which must be the same however it is read."""
    small, large = dialect.decode(body), dialect.decode(enlarge(body))
    assert describe(small) == describe(large)
    return large


@pytest.mark.parametrize(
    ("body", "passes"),
    [
        (b'{"model":"m","input":[{"role":"user","content":"x"}],"store":false,"top_p":1e0,"stream":true}', 1),
        (b'{"input":[],"input":[{"x":1}],"previous_response_id":"resp_1","context":{}}', 1),
        (b'{"metadata":{"input":[1]},"inp\\u0075t":[{"role":"user"}]}', 1),
        (b'{"model":"m","input":"one text"}', 2),
        (b'{"model":"m","input":null}', 2),
        (b'{"model":"m"}', 2),
        (b'{"input":[{}],"unheard_of":{"input":[]}}', 2),
    ],
)
def test_a_large_responses_body_is_split_in_one_pass_if_its_fields_are_known(body: bytes, passes: int) -> None:
    decode_both(RESPONSES, body)
    assert (large_responses.split(enlarge(body)) is not None) == (passes == 1)


@pytest.mark.parametrize(
    ("body", "passes"),
    [
        (b'{"model":"m","max_tokens":9,"system":[],"messages":[{"role":"user","content":"x"}],"stream":true}', 1),
        (b'{"messages":[{"content":[],"role":"assistant"}],"thinking":{"type":"enabled"}}', 1),
        (b'{"messages":[],"unheard_of":1}', 2),
    ],
)
def test_a_large_messages_body_is_split_in_one_pass_if_its_fields_are_known(body: bytes, passes: int) -> None:
    decode_both(MESSAGES, body)
    assert (large_messages.split(enlarge(body)) is not None) == (passes == 1)


@pytest.mark.parametrize(
    ("items", "style"),
    [
        (b'{"role":"user","content":"x"},{"role": "assistant"}', MessageStyle.SPOKEN),
        (
            b'{"type":"message","role":"user"},{"type": "message", "role": "assistant", "content": []}',
            MessageStyle.SPOKEN,
        ),
        (b'{"role":"user","content":"caf\\u00e9"}', MessageStyle.SPOKEN),
        (b'{"id":"msg_1","type":"message","role":"assistant"}', MessageStyle.SPOKEN),
        (b'{"role":"robot"}', MessageStyle.UNUSUAL),
        (b'{"role":"user"},{"role":5}', MessageStyle.UNUSUAL),
        (b'{"role":"user"},{"type":"function_call_output","call_id":"c","output":""}', MessageStyle.UNUSUAL),
        (b"", MessageStyle.SPOKEN),
    ],
)
def test_it_is_known_whether_all_items_are_plain_messages(items: bytes, style: MessageStyle) -> None:
    assert decode_both(RESPONSES, b'{"input":[' + items + b"]}").style is style


@pytest.mark.parametrize(
    "item",
    [
        b'{"role":"user","type":"item_reference","id":"msg_1"}',
        b'{"role":"user","type":"item_reference","\\u0069d":"msg_1"}',
        b'{"role":"user","role":null,"id":"msg_1"}',
        b'{"role": "assistant","role":null,"\\u0069d":"msg_1"}',
    ],
)
def test_a_reference_that_begins_like_a_message_is_found(item: bytes) -> None:
    request = decode_both(RESPONSES, b'{"input":[{"role":"user","content":"x"},' + item + b"]}")
    assert find_references(request) == {1: "msg_1"}


@pytest.mark.parametrize("item", [b'{"role":"user","type":"function_call_output","call_id":"c"}'])
def test_a_result_that_begins_like_a_message_is_found(item: bytes) -> None:
    assert RESPONSES.may_answer_calls(decode_both(RESPONSES, b'{"input":[' + item + b"]}"))


@pytest.mark.parametrize(
    ("messages", "style"),
    [
        (b'{"role":"user","content":"x"},{"role": "assistant", "content": "y"}', MessageStyle.SPOKEN),
        (b'{"role":"user","content":"x"},{"role":"user","content":[{"type":"tool_result"}]}', MessageStyle.ANSWERING),
        (b'{"content":"x","role":"user"}', MessageStyle.ANSWERING),
        (b'{"content":"x"}', MessageStyle.UNUSUAL),
        (b'{"role":5}', MessageStyle.UNUSUAL),
        (b"", MessageStyle.SPOKEN),
    ],
)
def test_first_bytes_tell_whether_messages_are_texts(messages: bytes, style: MessageStyle) -> None:
    assert decode_both(MESSAGES, b'{"messages":[' + messages + b"]}").style is style


@pytest.mark.parametrize(
    ("dialect", "body", "fault", "param"),
    [
        (RESPONSES, b'{"input":5}', InvalidRequest, "input"),
        (RESPONSES, b'{"input":[{},"x"]}', InvalidRequest, "input[1]"),
        (RESPONSES, b'{"input":[{"role":"user"}],"store":"no"}', InvalidRequest, "store"),
        (RESPONSES, b'{"input":[{"role":"user"}],"background":true}', InvalidRequest, "background"),
        (RESPONSES, b'{"input":[{"role":"\xff"}]}', InvalidJson, None),
        (MESSAGES, b'{"messages":{}}', InvalidRequest, "messages"),
        (MESSAGES, b'{"messages":[{"role":"user"},[]]}', InvalidRequest, "messages[1]"),
        (MESSAGES, b'{"model":"m"}', InvalidRequest, "messages"),
        (MESSAGES, b"{", InvalidJson, None),
    ],
)
def test_a_fault_is_named_however_large_the_body_is(
    dialect: RequestDialect, body: bytes, fault: type[GatewayError], param: str | None
) -> None:
    for sent in (body, enlarge(body)):
        with pytest.raises(fault) as caught:
            dialect.decode(sent)
        assert (caught.value.status, caught.value.param) == (400, param)
