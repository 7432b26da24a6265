"""Streams of responses that are relayed: which events are looked at, however they are cut into pieces."""

import orjson
import pytest
from msgspec import Raw

from gateway import sse
from gateway.conversation.dialects.responses.echoed import EchoedFields
from gateway.conversation.dialects.responses.relay import ResponsesRelayView
from gateway.errors import UpstreamTruncated
from tests.support.responses_answers import respond_with_response
from tests.support.upstream import say


def record(newline: bytes = b"\n") -> bytes:
    answer = say("One two three four five six.").but(pieces=9, newline=newline)
    pieces = respond_with_response(answer, {"stream": True, "model": "m"}, 1).pieces
    return b"".join(piece for piece in pieces if isinstance(piece, bytes))


STREAM = record()
EVENTS = sse.split_events(STREAM)
START, END = EVENTS[0], EVENTS[-1]
DELTA = next(event for event in EVENTS if event.startswith(b"event: response.output_text.delta"))


def relay(data: bytes, size: int, echoed: EchoedFields | None = None) -> tuple[bytes, ResponsesRelayView]:
    view = ResponsesRelayView(echoed)
    shown = b"".join([view.feed(data[at : at + size]) for at in range(0, len(data), size)])
    return shown, view


@pytest.mark.parametrize("size", [1, 7, 100, 1000, 100_000])
@pytest.mark.parametrize("data", [STREAM, record(b"\r\n"), STREAM.replace(b"\n\n", b"\n\n\n")])
def test_every_byte_passes_and_the_end_is_seen(data: bytes, size: int) -> None:
    shown, view = relay(data, size)
    assert data.startswith(shown)
    assert data[len(shown) :] in (b"", b"\n")
    assert (view.done, view.failed, view.needs_driver) == (True, False, True)
    assert b'"usage"' in view.usage_event
    assert view.end() == b""


@pytest.mark.parametrize("size", [1, 100, 100_000])
def test_a_stream_without_its_last_event_is_truncated(size: int) -> None:
    shown, view = relay(STREAM[: -len(END)], size)
    assert shown == STREAM[: -len(END)]
    assert not view.needs_driver
    with pytest.raises(UpstreamTruncated):
        view.end()


@pytest.mark.parametrize("before", [b"", DELTA, DELTA * 3 + b": comment\n\n", START + DELTA])
@pytest.mark.parametrize("after", [b"", DELTA, b": comment\n\n"])
@pytest.mark.parametrize(
    ("event", "done", "failed"),
    [
        (END, True, False),
        (b"data: " + END.split(b"data: ")[1], True, False),
        (b"id: 1\n" + END, True, False),
        (b'event: error\ndata: {"type":"error"}\n\n', False, True),
        (b'event: response.failed\ndata: {"type":"response.failed","response":{}}\n\n', True, True),
        (b'event: response.mcp_call.failed\ndata: {"type":"response.mcp_call.failed"}\n\n', False, False),
    ],
)
def test_an_end_is_found_wherever_it_stands(
    before: bytes, event: bytes, after: bytes, done: bool, failed: bool
) -> None:
    shown, view = relay(before + event + after, 1_000_000)
    assert (shown, view.done, view.failed) == (before + event + after, done, failed)


@pytest.mark.parametrize("size", [1, 100, 100_000])
def test_only_events_that_carry_the_response_are_changed(size: int) -> None:
    told = STREAM.replace(b'"instructions":null', b'"instructions":"Ours"')
    assert told != STREAM
    shown, _ = relay(told, size, EchoedFields({"instructions": Raw(b'"Mine"')}))
    assert shown == told.replace(b'"Ours"', b'"Mine"')
    first = orjson.loads(sse.read_payload(sse.split_events(shown)[0]) or b"")
    assert first["response"]["instructions"] == "Mine"
