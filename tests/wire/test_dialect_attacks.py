"""Upstreams and clients that break the rules of a dialect: no crash, no leak, no cost beyond linear."""

import random
from collections.abc import Callable, Iterator
from typing import Any

import orjson
import pytest

from gateway.conversation.dialects.registry import DIALECTS as DIALECT_OBJECTS
from gateway.conversation.stream_loop import StreamLoop
from gateway.domain.dialect import DialectName
from gateway.domain.upstream import Capabilities, UpstreamRequest
from gateway.errors import GatewayError
from gateway.upstreams.translation.translated import translate_body
from tests.support.cut_streams import CutReply
from tests.support.gateway import Client
from tests.support.growth import measure_growth
from tests.support.hostile_streams import split_stream, spoil
from tests.support.spoken import CHAT_MODEL, DIALECTS, MESSAGES_MODEL, Entry
from tests.support.upstream import Answer, Upstream, mixed, say, tool_call
from tests.wire.test_dialect_cuts import GET, PAIRS, SHAPES, CutExchange, Shape, record

TRIALS = 25  # of each shape
ATTACKED = ("relayed", "own call", "mixed", "thoughts")


@pytest.mark.parametrize(("dialect", "speaks"), PAIRS)
async def test_a_spoiled_stream_neither_crashes_nor_leaks(dialect: DialectName, speaks: DialectName):
    chance = random.Random(f"{dialect}{speaks}")
    for name in ATTACKED:
        exchange = CutExchange(dialect, speaks, SHAPES[name])
        for _ in range(TRIALS):
            events = spoil(exchange.streams[0], speaks, chance)
            pieces = events if chance.random() < 0.5 else [b"".join(events)]
            replies = [CutReply(pieces, "close"), *(CutReply([one], "close") for one in exchange.streams[1:] * 2)]
            got = await exchange.hold_with(replies)
            if not exchange.shape.relayed:
                assert GET.encode() not in got.raw, pieces
                assert b"own_1" not in got.raw, pieces


def build_response_events(*events: dict[str, Any]) -> bytes:
    head = {"id": "resp_1", "status": "in_progress", "output": []}
    end = {"id": "resp_1", "status": "completed", "output": []}
    told = [{"type": "response.created", "response": head}, *events, {"type": "response.completed", "response": end}]
    return b"".join(
        b"event: %b\ndata: %b\n\n" % (event["type"].encode(), orjson.dumps({**event, "sequence_number": number}))
        for number, event in enumerate(told)
    )


CALL = {"id": "fc_1", "type": "function_call", "call_id": "own_1", "name": GET, "arguments": "{}"}
TEXT_PART = {"type": "output_text", "text": "Hi", "annotations": []}
MESSAGE = {"id": "msg_1", "type": "message", "role": "assistant", "content": [TEXT_PART]}


def add(item: dict[str, Any], index: int = 0, kind: str = "added") -> dict[str, Any]:
    return {"type": f"response.output_item.{kind}", "output_index": index, "item": item}


def write_delta(kind: str, index: int = 0) -> dict[str, Any]:
    return {"type": f"response.{kind}.delta", "output_index": index, "item_id": "x", "delta": "{}"}


async def hold(dialect: DialectName, *streams: bytes) -> Any:
    exchange = CutExchange(dialect, dialect, SHAPES["own call"])
    return await exchange.hold_with([CutReply([one], "close") for one in (*streams, exchange.streams[1])])


async def test_arguments_that_come_before_their_call_wait_for_its_name():
    got = await hold(
        "responses", build_response_events(write_delta("function_call_arguments"), add(CALL), add(CALL, 0, "done"))
    )
    assert GET.encode() not in got.raw
    assert DIALECTS["responses"].read_stream(got.raw).texts == ["Plain – é."]


@pytest.mark.parametrize("kind", ["output_text", "refusal"])
async def test_an_item_that_was_shown_cannot_become_a_call_of_ours(kind: str):
    got = await hold("responses", build_response_events(write_delta(kind), add(CALL), add(CALL, 0, "done")))
    assert GET.encode() not in got.raw
    assert (b"upstream_invalid" in got.raw) == (kind == "refusal")  # text passes unread: it has no place of its own


async def test_items_that_share_an_index_are_told_apart():
    events = [add(CALL), add(CALL, 0, "done"), add(MESSAGE), add(MESSAGE, 0, "done")]
    got = await hold("responses", build_response_events(*events))
    assert GET.encode() not in got.raw
    assert b'"msg_1"' in got.raw
    assert b'"output_index":0' in got.raw


async def test_items_that_only_the_end_tells_of_are_shown():
    ended = b'"status":"completed","output":['
    whole = build_response_events().replace(ended, ended + orjson.dumps(MESSAGE))
    exchange = CutExchange("responses", "responses", SHAPES["text"])
    got = await exchange.hold_with([CutReply([whole], "close")])
    assert DIALECTS["responses"].read_whole(orjson.dumps(read_end(got.raw))).texts == ["Hi"]
    assert got.raw.count(b"response.output_item.") == 4  # two names and two types


def read_end(raw: bytes) -> Any:
    return orjson.loads(split_stream(raw)[-1].partition(b"data: ")[2])["response"]


async def test_a_message_that_never_began_is_an_error():
    stream = record(say("Hi"), "messages", 1)
    start, rest = split_stream(stream)[0], b"".join(split_stream(stream)[1:])
    got = await hold("messages", rest)
    assert b"message_stop" not in got.raw
    assert got.error is not None or b"upstream_invalid" in got.raw
    again = await CutExchange("messages", "messages", SHAPES["text"]).hold_with(
        [CutReply([start + start + rest], "close")]
    )
    assert again.raw.count(b"event: message_start") == 1


# ---- what takes time


def feed_loop(dialect: DialectName, shape: Shape) -> Callable[[bytes], None]:
    """Reads a stream as the turn loop does."""
    exchange = CutExchange(dialect, dialect, shape)

    def work(data: bytes) -> None:
        loop = StreamLoop(exchange.plan)
        loop.build_request()
        try:
            for at in range(0, len(data), 65536):
                loop.feed(data[at : at + 65536])
            loop.end()
        except GatewayError:
            pass

    return work


def write_long(answer: Callable[[str], Answer], dialect: DialectName) -> Callable[[int], bytes]:
    return lambda number: record(answer("a" * number), dialect, 1, piece=1)


LONG_ANSWERS: dict[str, Callable[[str], Answer]] = {
    "text": lambda text: say(text),
    "thoughts": lambda text: say("So.", reasoning_content=text),
    "our arguments": lambda text: mixed(tool_call(GET, "own_1", resource_id=text)),
    "their arguments": lambda text: mixed(tool_call("get_weather", "oslo", city=text)),
    "text before our arguments": lambda text: mixed(tool_call(GET, "own_1", resource_id=text), text=text),
    "text before their arguments": lambda text: mixed(tool_call("get_weather", "oslo", city=text), text=text),
    "many calls": lambda text: mixed(*(tool_call("get_weather", f"c{n}") for n in range(len(text) // 8)), text="Hm."),
}


@pytest.mark.parametrize("structured", [False, True])
@pytest.mark.parametrize("name", LONG_ANSWERS)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_streams_in_pieces_of_one_character_take_linear_time(dialect: DialectName, name: str, structured: bool):
    work = feed_loop(dialect, Shape((say("Hi"),), structured=structured))
    growth = measure_growth(work, write_long(LONG_ANSWERS[name], dialect), 300)
    assert not growth.is_steep, growth


def user(text: str = "x") -> dict[str, Any]:
    return {"role": "user", "content": text}


def think(kind: str, number: int) -> list[dict[str, Any]]:
    sealed = "chat:reasoning_content"
    if kind == "responses":
        content = [{"type": "reasoning_text", "text": "t" * 200}]
        return [{"type": "reasoning", "summary": [], "content": content, "encrypted_content": sealed}] * number
    blocks = [{"type": "thinking", "thinking": "t" * 200, "signature": sealed}] * number
    return [user(), {"role": "assistant", "content": blocks}]


LONG_REQUESTS: dict[str, tuple[DialectName, DialectName, Callable[[int], list[dict[str, Any]]]]] = {
    "thoughts of responses": ("responses", "chat", lambda number: think("responses", number)),
    "thoughts of messages": ("messages", "chat", lambda number: think("messages", number)),
    "users of chat": ("chat", "messages", lambda number: [user() for _ in range(number)]),
    "systems of chat": ("chat", "messages", lambda number: [*[{"role": "system", "content": "x"}] * number, user()]),
    "items of responses": ("responses", "messages", lambda number: [user() for _ in range(number)]),
}


@pytest.mark.parametrize("name", LONG_REQUESTS)
def test_long_requests_are_translated_in_linear_time(name: str):
    dialect, target, make = LONG_REQUESTS[name]
    can, path = Capabilities(dialects=frozenset({target})), DIALECT_OBJECTS[dialect].upstream_path
    field = "input" if dialect == "responses" else "messages"

    def work(body: bytes) -> None:
        translate_body(UpstreamRequest(path, body, dialect=dialect), can)

    limit = {"max_tokens": 5} if dialect == "messages" else {}
    growth = measure_growth(work, lambda number: orjson.dumps({"model": "m", **limit, field: make(number)}), 1000)
    assert not growth.is_steep, growth


def test_thoughts_without_signatures_are_one_text():
    for dialect, field in (("responses", "input"), ("messages", "messages")):
        named: DialectName = "responses" if dialect == "responses" else "messages"
        limit = {"max_tokens": 5} if dialect == "messages" else {}
        body = orjson.dumps({"model": "m", **limit, field: think(dialect, 2)})
        call = UpstreamRequest(DIALECT_OBJECTS[named].upstream_path, body, dialect=named)
        sent = orjson.loads(translate_body(call, Capabilities()))
        assert sent["messages"][-1]["reasoning_content"] == "t" * 400


# ---- clients

LONG = "x" * 1_000_000
DEEP = b"[" * 5000 + b"]" * 5000
MODELS = {
    "chat": ["m-large", MESSAGES_MODEL],
    "responses": ["m-large", CHAT_MODEL, MESSAGES_MODEL],
    "messages": [MESSAGES_MODEL, CHAT_MODEL],
}


def list_hostile_bodies(name: str, model: str) -> Iterator[bytes]:
    """Requests that no client should send."""
    spoken = DIALECTS[name]
    plain = spoken.write([Entry("user", "Hi")]) | {"model": model}
    field = "input" if name == "responses" else "messages"
    items: list[Any] = [
        None, 1, "x", [], {}, {"role": 1}, {"role": "user"}, {"role": "user", "content": 1}, {"type": "nonsense"},
        {"role": "user", "content": [{"type": "text"}]}, {"role": "user", "content": [None, 1, []]},
        {"role": "assistant", "content": [{"type": "tool_use"}]}, {"role": "tool"}, {"type": "function_call"},
        {"type": "function_call_output", "call_id": LONG, "output": "x"}, {"role": "user", "content": LONG},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": LONG}]}, {"type": "reasoning", "id": LONG},
        {"role": "user", "content": [{"type": "text", "text": "x", "cache_control": 7}]},
        {"role": "assistant", "tool_calls": [{"id": LONG, "function": {"arguments": "{"}}]},
    ]  # fmt: skip
    for item in items:
        yield orjson.dumps(plain | {field: [*plain[field], item]})
    fields: dict[str, Any] = {
        "tools": [1, {"type": "x"}], "tool_choice": {"type": []}, "system": [{"type": "text", "cache_control": []}],
        "instructions": LONG, "previous_response_id": LONG, "store": "yes", "metadata": [LONG], "text": {"format": 1},
        "output_config": {"format": []}, "response_format": 1, "stream_options": 1, "reasoning": [], "include": 1,
        "thinking": 1, "model": LONG, "cache_control": "x", "max_tokens": "x", "stop_sequences": {},
    }  # fmt: skip
    for key, value in fields.items():
        yield orjson.dumps(plain | {key: value})
    whole = orjson.dumps(plain)
    for bad in (DEEP, b'"\xff"', b'"\\ud800"', b"NaN", b"{"):
        yield whole[:-1] + b',"extra":' + bad + b"}"
        yield whole.replace(b'"Hi"', bad)


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("agent", ["editor", "bare"])
async def test_hostile_requests_are_answered_with_client_errors(
    gateway: Client, upstream: Upstream, name: str, agent: str
):
    for model in MODELS[name]:
        for body in list_hostile_bodies(name, model):
            upstream.reset()
            upstream.will(*[say("Fine.")] * 2)
            reply = await gateway.post(body, DIALECTS[name].path, x_context_agent=agent)
            assert reply.status < 500, (body[:300], reply.raw[:300])
            assert len(reply.raw) < 3000 or reply.status == 200
            assert GET.encode() not in reply.raw
    upstream.reset()


async def test_many_output_items_are_refused_beyond_a_limit():
    def write(number: int) -> bytes:
        return build_response_events(*(add({**MESSAGE, "id": f"m{n}"}, n) for n in range(number)))

    exchange = CutExchange("responses", "responses", SHAPES["text"])
    got = await exchange.hold_with([CutReply([write(10_001)], "close")])
    assert b"more than 10000 items" in got.raw
