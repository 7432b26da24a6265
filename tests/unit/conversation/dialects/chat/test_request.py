"""The bytes of a chat body become a ChatRequest, or a clear 400."""

import pytest

from gateway.conversation.dialects.chat.dialect import CHAT
from gateway.conversation.dialects.chat.request import LARGE_BODIES
from gateway.conversation.dialects.raw_body import LARGE_BODY
from gateway.domain.chat import ChatRequest, MessageStyle
from gateway.errors import GatewayError, InvalidJson, InvalidRequest


def enlarge(body: bytes) -> bytes:
    """The same JSON as a large body, which is read in another way."""
    return body + b" " * LARGE_BODY


def decode_both(body: bytes) -> ChatRequest:
    """The request, which must be the same however it is read."""
    small, large = CHAT.decode(body), CHAT.decode(enlarge(body))
    seen = [
        ({name: bytes(value) for name, value in one.fields.items()}, list(map(bytes, one.messages)), one.model)
        for one in (small, large)
    ]
    assert seen[0] == seen[1]
    assert (small.stream, small.style) == (large.stream, large.style)
    return large


def refused(body: bytes) -> GatewayError:
    faults = []
    for sent in (body, enlarge(body)):
        with pytest.raises(GatewayError) as caught:
            CHAT.decode(sent)
        assert caught.value.status == 400
        faults.append(caught.value)
    assert type(faults[0]) is type(faults[1])
    assert (faults[0].code, faults[0].param) == (faults[1].code, faults[1].param)
    return faults[0]


@pytest.mark.parametrize(
    ("body", "passes"),
    [
        (b'{"messages": [{"role": "user"}], "model": "m", "temperature": 1e0}', 1),
        (b'{"messages": [], "messages": [{"x": 1}], "model": "a", "model": "b"}', 1),
        (b'{"messages": [{"role": "user"}], "unheard_of": {"messages": []}}', 2),
        (b'{"metadata": {"messages": [1]}, "mess\\u0061ges": [{}], "stream": true}', 1),
    ],
)
def test_a_large_body_is_split_in_one_pass_if_its_fields_are_known(body: bytes, passes: int) -> None:
    decode_both(body)
    assert (LARGE_BODIES.split(enlarge(body)) is not None) == (passes == 1)


@pytest.mark.parametrize(
    ("messages", "style", "answers"),
    [
        (b'{"role":"user","content":"x"},{"role": "assistant"}', MessageStyle.SPOKEN, False),
        (b'{"role":"assistant","tool_calls":[]},{"role":"tool","content":"x"}', MessageStyle.ANSWERING, True),
        (b'{"role": "tool", "content": "calls"}', MessageStyle.ANSWERING, False),
        (b'{"tool_calls":[],"role":"assistant"}', MessageStyle.UNUSUAL, True),
        (b'{"role":"users"}', MessageStyle.UNUSUAL, False),
        (b'{ "role":"user"}', MessageStyle.UNUSUAL, False),
        (b"", MessageStyle.SPOKEN, False),
    ],
)
def test_first_bytes_tell_which_messages_need_a_look(messages: bytes, style: MessageStyle, answers: bool) -> None:
    request = decode_both(b'{"messages":[' + messages + b"]}")
    assert (request.style, CHAT.may_answer_calls(request)) == (style, answers)


def test_fields_and_messages_keep_their_bytes() -> None:
    request = decode_both(b'{"model": "m", "seed": 123456789012345678901234567890, "messages": [{"a" : 1.50 }] }')
    assert bytes(request.fields["seed"]) == b"123456789012345678901234567890"
    assert [bytes(message) for message in request.messages] == [b'{"a" : 1.50 }']
    assert (request.model, request.stream) == ("m", False)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[", b"{'a': 1}", b'{"a": NaN}', b"\xef\xbb\xbf{}", b'{"a":1}x', b'{"a":1,}']
)
def test_what_is_no_json_is_invalid_json(body: bytes) -> None:
    assert isinstance(refused(body), InvalidJson)


@pytest.mark.parametrize("body", [b'{"a": "\xff"}', b'{"a": "\xed\xa0\x80"}', '{"a": "é"}'.encode("latin-1")])
def test_what_is_no_utf_8_is_invalid_json(body: bytes) -> None:
    assert "UTF-8" in refused(body).message


@pytest.mark.parametrize("text", [rb'"\ud800"', rb'"\udc00 x"', rb'"\ud800\u0041"'])
def test_lone_surrogates_are_invalid_json_wherever_they_stand(text: bytes) -> None:
    assert isinstance(refused(b'{"messages": [], "unheard_of": {"deep": ' + text + b"}}"), InvalidJson)


def test_bottomless_nesting_is_invalid_json() -> None:
    assert isinstance(refused(b'{"a": ' + b"[" * 100_000), InvalidJson)
    assert isinstance(refused(b'{"a": ' + b"[" * 5000 + b"]" * 5000 + b"}"), InvalidJson)


@pytest.mark.parametrize("body", [b"[]", b"null", b"5", b'"text"', b"true"])
def test_a_body_that_is_no_object_is_refused(body: bytes) -> None:
    assert refused(body).code == "invalid_request"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b"{}", "messages"),
        (b'{"messages": {}}', "messages"),
        (b'{"messages": null}', "messages"),
        (b'{"messages": [{}, "hi"]}', "messages[1]"),
        (b'{"messages": [null]}', "messages[0]"),
        (b'{"messages": [], "model": 5}', "model"),
        (b'{"messages": [], "stream": "yes"}', "stream"),
        (b'{"messages": [], "stream": 1}', "stream"),
        (b'{"messages": [], "n": "two"}', "n"),
        (b'{"messages": [], "n": 1e999}', "n"),
        (b'{"messages": [], "stream_options": 5}', "stream_options"),
        (b'{"messages": [], "response_format": ["json"]}', "response_format"),
    ],
)
def test_wrong_types_of_what_the_gateway_reads_are_named(body: bytes, param: str) -> None:
    fault = refused(body)
    assert isinstance(fault, InvalidRequest)
    assert (fault.code, fault.param) == ("invalid_request", param)


def test_null_means_that_nothing_was_said() -> None:
    request = CHAT.decode(b'{"messages": [], "model": null, "stream": null, "n": null, "response_format": null}')
    assert (request.model, request.stream) == (None, False)


def test_of_a_repeated_key_the_last_counts() -> None:
    assert CHAT.decode(b'{"messages": [], "model": "a", "model": "b"}').model == "b"
