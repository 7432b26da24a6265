"""What an exchange costs, reported or estimated."""

import asyncio
import time
from typing import Any

import pytest

from gateway.domain.exchange import ClientWriter, Exchange, Reply, ReplyStream, TurnReply
from gateway.domain.principal import ANONYMOUS
from gateway.domain.snapshot import EMPTY_SNAPSHOT
from gateway.edge.meter import Meter, PassthroughMeter, count_total
from tests.support.client_requests import ListWriter

CHUNK = b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'


def exchange(status: int = 200, **said: Any) -> Exchange:
    return Exchange("x", ANONYMOUS, EMPTY_SNAPSHOT, [], replies=[TurnReply("up", status)], **said)


def streamed(*pieces: bytes, error: BaseException | None = None) -> ReplyStream:
    async def send(writer: ClientWriter) -> None:
        for piece in pieces:
            assert writer.write(piece)
        if error is not None:
            raise error

    return send


async def seen(meter: Meter, *pieces: bytes) -> list[bytes]:
    stream, client = meter.watch(Reply(200, {}, stream=streamed(*pieces))).stream, ListWriter()
    assert stream is not None
    await stream(client)
    return client.pieces


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"total_tokens": 12, "prompt_tokens": 1, "completion_tokens": 1}, 12),
        ({"prompt_tokens": 3, "completion_tokens": 4}, 7),
        ({"prompt_tokens": 3}, 3),
        ({"total_tokens": "12", "prompt_tokens": None}, 0),
        ({"total_tokens": -5}, 0),
        ({}, 0),
        (None, 0),
    ],
)
def test_usage_is_read_as_far_as_it_goes(usage: dict[str, Any] | None, expected: int) -> None:
    assert count_total(usage) == expected


def test_what_the_turn_loop_summed_up_is_charged() -> None:
    meter = Meter(exchange(usage={"total_tokens": 70}))
    meter.watch(Reply(200, {}, b'{"usage": {"total_tokens": 5}}'))
    assert meter.count_spent() == 70


def test_the_usage_of_a_relayed_reply_is_charged() -> None:
    meter = Meter(exchange(), asked=400)
    reply = Reply(200, {}, b'{"choices": [], "usage": {"total_tokens": 5, "details": {"cached": 1}}}')
    assert meter.watch(reply) is reply
    assert meter.count_spent() == 5


async def test_the_usage_of_a_relayed_stream_is_charged_and_no_byte_changes() -> None:
    last = CHUNK + b'data: {"choices":[],"usage":{"total_tokens":9}}\n\ndata: [DONE]\n\n'
    meter = Meter(exchange(usage_event=last, complete=True), asked=400)
    assert await seen(meter, CHUNK, last) == [CHUNK, last]
    assert meter.count_spent() == 9


async def test_a_stream_of_messages_is_charged_for_its_prompt_and_its_answer() -> None:
    told = (
        b'event: message_start\ndata: {"type":"message_start","message":{"usage":{"input_tokens":7}}}\n\n'
        b'event: message_delta\ndata: {"type":"message_delta","usage":{"output_tokens":2}}\n\n'
    )
    meter = Meter(exchange(usage_event=told, complete=True), asked=400)
    await seen(meter, told)
    assert meter.count_spent() == 9


async def test_whoever_leaves_a_stream_of_messages_early_pays_for_what_came() -> None:
    start = b'event: message_start\ndata: {"type":"message_start","message":{"usage":{"input_tokens":7}}}\n\n'
    delta = b'event: content_block_delta\ndata: {"type":"content_block_delta"}\n\n'
    meter = Meter(exchange(usage_event=start), asked=400)
    await seen(meter, start, delta * 500)
    assert meter.count_spent() == 400 // 4 + 501
    meter = Meter(exchange(usage_event=start.replace(b"7", b"7000")), asked=400)
    await seen(meter, start, delta)
    assert meter.count_spent() == 7000


@pytest.mark.parametrize("last", [b"data: [DONE]\n\n", b'data: {"usage":null}\n\n', b'data: "usage"}\n\n'])
async def test_a_stream_that_does_not_say_costs_an_estimate(last: bytes) -> None:
    meter = Meter(exchange(), asked=400)
    await seen(meter, CHUNK * 3, CHUNK, last)
    assert meter.count_spent() == 400 // 4 + 5


@pytest.mark.parametrize("body", [b"x" * 40, b'{"usage": null, "text": "' + b"x" * 13 + b'"}', b"[" * 40])
def test_a_reply_that_does_not_say_costs_an_estimate(body: bytes) -> None:
    meter = Meter(exchange(), asked=400)
    meter.watch(Reply(200, {}, body))
    assert meter.count_spent() == 400 // 4 + 10


async def test_a_client_that_leaves_early_pays_for_what_it_saw() -> None:
    meter = Meter(exchange(), asked=400)
    stream = meter.watch(Reply(200, {}, stream=streamed(CHUNK, error=asyncio.CancelledError()))).stream
    assert stream is not None
    with pytest.raises(asyncio.CancelledError):
        await stream(ListWriter())
    assert meter.count_spent() == 400 // 4 + 1


@pytest.mark.parametrize("replies", [[], [TurnReply("up", 500)], [TurnReply("up", 429), TurnReply("other", 503)]])
def test_what_no_upstream_answered_costs_nothing(replies: list[TurnReply]) -> None:
    assert Meter(Exchange("x", ANONYMOUS, EMPTY_SNAPSHOT, [], replies=replies), asked=400).count_spent() == 0


def test_the_usage_of_what_is_passed_through_is_charged_wherever_it_stands() -> None:
    for body in (
        b'{"data":[' + b"0.5," * 5000 + b'0],"usage":{"prompt_tokens":8,"total_tokens":8,"details":{"cached":1}}}',
        b'{"usage":{"total_tokens":8},"data":[' + b"0.5," * 5000 + b"0]}",
        b'data: {"t":"\\"usage\\":{\\"total_tokens\\":5}"}\n\ndata: {"usage":{"total_tokens":8}}\n\ndata: [DONE]\n\n',
    ):
        meter = PassthroughMeter(400, "application/json", "application/json")
        for start in range(0, len(body), 1000):
            meter.note(body[start : start + 1000])
        assert meter.count_spent() == 8


@pytest.mark.parametrize(
    ("asked_type", "reply_type", "expected"),
    [
        ("application/json; charset=utf-8", "application/json", 100 + 1000),
        ("application/json", "audio/mpeg", 100 + 1),
        ("multipart/form-data; boundary=x", "text/plain", 1 + 1000),
    ],
)
def test_what_is_passed_through_without_usage_costs_an_estimate(
    asked_type: str, reply_type: str, expected: int
) -> None:
    meter = PassthroughMeter(400, asked_type, reply_type)
    meter.note(b"x" * 4000)
    assert meter.count_spent() == expected


def test_a_reply_full_of_usage_costs_little_to_look_through() -> None:
    meter = PassthroughMeter(0, "", "application/json")
    began = time.process_time()
    for _ in range(200):
        meter.note(b'"usage":{' * 500)
        assert meter.count_spent() > 0
    assert time.process_time() - began < 5


def test_turns_of_a_loop_that_was_left_are_charged() -> None:
    left = exchange()
    left.usages = [{"total_tokens": 90_000}, {"total_tokens": 10_000}]
    assert Meter(left, asked=400).count_spent() == 100_000


def test_no_usage_is_larger_than_a_counter_can_hold() -> None:
    assert Meter(exchange(usage={"total_tokens": 2**70}), asked=400).count_spent() == 10**9


def test_events_with_crlf_count_too() -> None:
    meter = Meter(exchange(), asked=400)
    meter.count_events(b"data: {}\r\n\r\n" * 7)
    assert meter.count_spent() == 100 + 7
