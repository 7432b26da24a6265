"""What responses repeat of a request is shown as the client sent it, and nothing else changes."""

import json
from typing import Any

import orjson
import pytest
from msgspec import Raw

from gateway.conversation.dialects.responses.echoed import EchoedFields
from gateway.conversation.dialects.responses.ended import show_whole
from gateway.conversation.dialects.responses.items import MAX_ODD_BYTES
from gateway.conversation.dialects.responses.relay import ResponsesRelayView
from gateway.domain.exchange import Reply
from gateway.errors import UpstreamInvalid

ASKED = EchoedFields({"instructions": Raw(b'"Mine"'), "tools": Raw(b'[{"type":"function","name":"f"}]')})
TOLD: dict[str, Any] = {
    "id": "r",
    "instructions": "Mine\n\nOurs",
    "tools": [{"type": "function", "name": "f"}, {"type": "function", "name": "ours"}],
    "tool_choice": "auto",
    "output": [{"type": "message", "content": [{"type": "output_text", "text": 'say "instructions": "x"'}]}],
}
SEEN = {**TOLD, "instructions": "Mine", "tools": [{"type": "function", "name": "f"}]}
AWKWARD: list[dict[str, Any]] = [
    {"metadata": {"instructions": "keep", "tools": "keep"}},
    {"text": {"format": {"schema": {"properties": {"tools": {}, "instructions": {}}}}}},
    {"user": "instructions"},
]


@pytest.mark.parametrize("more", [{}, *AWKWARD])
@pytest.mark.parametrize("first", [True, False])
def test_only_what_the_request_said_is_restored(more: dict[str, Any], first: bool) -> None:
    told, seen = ({**more, **TOLD}, {**more, **SEEN}) if first else ({**TOLD, **more}, {**SEEN, **more})
    assert orjson.loads(ASKED.restore_body(orjson.dumps(told))) == seen
    data = orjson.dumps({"type": "response.created", "response": told, "sequence_number": 0})
    event = ASKED.restore_event("response.created", b"event: response.created\ndata: " + data + b"\n\n")
    assert event.startswith(b"event: response.created\ndata: ")
    assert orjson.loads(event.split(b"data: ")[1]) == {
        "type": "response.created",
        "response": seen,
        "sequence_number": 0,
    }


def test_every_other_byte_stays_as_it_is() -> None:
    body = b'{ "id":"r",  "instructions":"Ours" , "n":1.50e1, "text":"\\u00fc" }'
    assert ASKED.restore_body(body) == body.replace(b'"Ours"', b'"Mine"')
    event = b"id: 7\nevent: response.created\ndata: " + b'{"response":' + body + b"}\n\n"
    assert ASKED.restore_event("response.created", event) == event.replace(b'"Ours"', b'"Mine"')


@pytest.mark.parametrize("space", [b" :", b": ", b"\t:\t"])
def test_spaces_around_a_colon_hide_nothing(space: bytes) -> None:
    body = b'{"id":"r","instructions"%b"Ours"}' % space
    assert orjson.loads(ASKED.restore_body(body)) == {"id": "r", "instructions": "Mine"}


def test_a_name_that_is_there_twice_or_escaped_shows_nothing_of_ours() -> None:
    twice = b'{"instructions":"Ours","instructions":"Ours too"}'
    assert b"Ours" not in ASKED.restore_body(twice)
    escaped = b'{"instruct\\u0069ons":"Ours"}'
    assert orjson.loads(ASKED.restore_body(escaped)) == {"instructions": "Mine"}


@pytest.mark.parametrize("body", [b"[]", b'{"response":3}', b"{}"])
def test_what_is_no_response_passes(body: bytes) -> None:
    assert ASKED.restore_body(body) == body
    event = b"event: response.created\ndata: " + body + b"\n\n"
    assert ASKED.restore_event("response.created", event) == event


@pytest.mark.parametrize("text", [b'"Hi \\ud83d"', b"NaN", b'"a\x01b"', b'"\xff"', b"1" * 400, b"1e999"])
def test_what_only_clients_can_read_does_not_tell_what_we_added(text: bytes) -> None:
    """JavaScript cuts texts amid a character, Python writes NaN, and both read either."""
    body = b'{"id":"r","instructions":"Mine Ours","tools":[{"name":"ours"}],"output":[%b]}' % text
    shown = json.loads(ASKED.restore_body(body).decode("utf-8", "replace"), strict=False)
    assert (shown["id"], shown["instructions"], shown["tools"]) == ("r", "Mine", [{"type": "function", "name": "f"}])
    data = b'{"type":"response.created","response":%b,"sequence_number":7}' % body
    event = ASKED.restore_event("response.created", b"event: response.created\ndata: " + data + b"\n\n")
    seen = json.loads(event.decode("utf-8", "replace").partition("data: ")[2], strict=False)
    assert (seen["sequence_number"], repr(seen["response"])) == (7, repr(shown))


@pytest.mark.parametrize(
    "body", [b"no json", b'{"instructions":"Ours', b'{"instructions":"Ours","a":' + b"[" * 100_000]
)
def test_what_nobody_can_read_is_not_shown(body: bytes) -> None:
    with pytest.raises(UpstreamInvalid):
        ASKED.restore_body(body)
    with pytest.raises(UpstreamInvalid):
        ASKED.restore_event("response.created", b"event: response.created\ndata: " + body + b"\n\n")


def test_a_whole_response_that_cannot_be_read_does_not_tell_what_we_added() -> None:
    reply = Reply(200, {}, b'{"id":"r","status":"completed","instructions":"Ours","output":[{"id":"\\ud83d"}]}')
    show_whole(reply, ASKED)
    assert b"Ours" not in reply.body
    assert (reply.read, reply.usage) == (None, None)


@pytest.mark.parametrize("name", [b"event: response.created\n", b""])
@pytest.mark.parametrize("text", [b'"x"', b'"\\ud83d"', b"NaN", b'"a\x01"'])
def test_no_event_of_a_relayed_stream_tells_what_we_added(name: bytes, text: bytes) -> None:
    response = b'{"id":"r","instructions":"Ours","output":[%b]}' % text
    event = name + b'data: {"type":"response.created","response":%b,"sequence_number":0}\n\n' % response
    shown = ResponsesRelayView(ASKED).feed(event)
    assert b"Ours" not in shown
    assert b"Mine" in shown


def test_what_takes_too_long_to_be_read_loosely_is_not_shown() -> None:
    with pytest.raises(UpstreamInvalid):
        ASKED.restore_body(b'{"instructions":"Ours","a":NaN,"b":"' + b"x" * MAX_ODD_BYTES + b'"}')
