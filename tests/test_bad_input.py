"""Whatever a client sends, it gets an answer: 200 where it is valid, else a 4xx in OpenAI's shape, at once.

`pytest tests/test_bad_input.py --hypothesis-profile=long` tries fifty times as much.
"""

import asyncio
import json
import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import orjson
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.app import Gateway
from gateway.conversation.dialects.chat import request as chat_request
from gateway.domain.chat import ChatRequest
from gateway.domain.upstream import Capabilities, UpstreamReply, UpstreamRequest
from gateway.scopes import context_request
from gateway.settings import Settings
from gateway.upstreams.routes import Routes
from tests.support.client_requests import MemoryRequest
from tests.support.yaml_texts import to_yaml

EXAMPLES = settings().max_examples
SLOW = 1.0  # seconds of work that no answer may take; a busy machine may add to what the clock shows

POLICIES = {
    "contexts": {
        "house": {
            "default": True,
            "resources": {
                "voice": {"type": "brand-voice", "data": {"tone": "Plain"}},
                "style": {"type": "text", "mode": "on_demand", "data": {"content": "Use the serial comma. " * 500}},
                "extra": {"type": "text", "mode": "manual", "data": {"content": "Only by name."}},
            },
        }
    },
    "profiles": {"writing": {"contexts": ["house"], "temperature": 0.3}},
    "agents": {
        "editor": {"instructions": "Edit.", "contexts": ["house"], "placement": "turn"},
        "guest": {"contexts": ["house"], "placement": "turn_user"},
        "bare": {"instructions": "Help."},
    },
    "prompts": {
        "summary": {"template": "Sum up {content} for {vars.who}: {context}"},
        "plain": {"template": "{input}"},
    },
    "content": {"site": {"body": "Welcome.", "children": {"blog": {"contexts": ["house"]}}}},
}

HEADER_NAMES = (
    *("session", "agent", "profile", "prompt", "content", "task", "user", "language", "type", "budget"),
    *("include", "exclude", "inject", "receipt", "tokens", "key", "nonsense"),
)
KNOWN = ("editor", "guest", "bare", "writing", "summary", "plain", "site/blog", "house/style", "house/extra", "de-AT")


@dataclass
class Answer:
    """What came out of the app."""

    status: int
    headers: dict[bytes, bytes]
    body: bytes
    seconds: float


class App:
    """The real chat endpoint in this process, and a loop to run it in."""

    def __init__(self, runner: asyncio.Runner, gateway: Gateway) -> None:
        self._runner = runner
        self._chat = gateway.build_app(draining=lambda: False).direct[0]

    def send(self, body: bytes, headers: list[tuple[bytes, bytes]]) -> Answer:
        began = time.process_time()
        status, head, pieces = self._runner.run(self._ask(body, headers))
        return Answer(status, dict(head), b"".join(pieces), time.process_time() - began)

    async def _ask(self, body: bytes, headers: list[tuple[bytes, bytes]]) -> tuple[int, Any, list[bytes]]:
        request = MemoryRequest([(b"host", b"localhost"), *headers], body)
        await self._chat.serve(request)
        assert request.finished, "the response was left open"
        return request.status, request.response_headers, request.pieces


JSON = (b"content-type", b"application/json")


class Whole(UpstreamReply):
    """A reply that is there at once."""

    status = 200

    def __init__(self, media: str, body: bytes) -> None:
        self.headers: Mapping[str, str] = {"content-type": media}
        self._body = body

    async def read(self) -> bytes:
        body, self._body = self._body, b""
        return body

    read_all = read

    async def close(self) -> None: ...


class Scripted:
    """An upstream that fetches a resource whenever it is offered our tool, then answers."""

    name, capabilities, passes_bearer = "scripted", Capabilities(), False

    async def send(self, request: UpstreamRequest) -> UpstreamReply:
        msgspec.json.decode(request.body, type=msgspec.Raw)  # what goes out must be JSON
        wants = b'"get_context_resource"' in request.body and b'"call_own"' not in request.body
        call = {"name": "get_context_resource", "arguments": '{"resource_id": "house/style"}'}
        message: dict[str, Any] = {"role": "assistant", "content": None if wants else "Done."}
        if wants:
            message["tool_calls"] = [{"index": 0, "id": "call_own", "type": "function", "function": call}]
        choice = {"index": 0, "finish_reason": "tool_calls" if wants else "stop"}
        head = {"id": "chatcmpl-1", "created": 1, "model": "m"}
        if request.stream:
            chunk = orjson.dumps({**head, "choices": [{**choice, "delta": message}]})
            return Whole("text/event-stream", b"data: " + chunk + b"\n\ndata: [DONE]\n\n")
        return Whole("application/json", orjson.dumps({**head, "choices": [{**choice, "message": message}]}))

    async def list_models(self, bearer: str | None = None) -> list[dict[str, Any]]:
        return []

    async def close(self) -> None: ...


@pytest.fixture(scope="module", params=["demo", "scripted"])
def app(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    directory = tmp_path_factory.mktemp("policies")
    (directory / "all.yaml").write_text(to_yaml(POLICIES))
    chosen = Settings.model_validate(
        {
            "policies": str(directory),
            "store": "memory:",
            "upstreams": {request.param: {"kind": "demo"}},
            "routes": [{"model": "*", "upstream": request.param}],
            "defaults": {"model": "demo"},
            "log": {"exchanges": False},
        }
    )
    with asyncio.Runner() as runner:
        gateway = runner.run(Gateway.open(chosen))
        if request.param == "scripted":
            gateway.routes = Routes(chosen, {"scripted": Scripted()})
            gateway.pipeline = replace(gateway.pipeline, routes=gateway.routes)
        app = App(runner, gateway)
        assert app.send(orjson.dumps(valid_body()), [JSON]).status == 200  # loads what is loaded on first use
        yield app
        runner.run(gateway.close())


def check(app: App, sent: bytes, headers: list[tuple[bytes, bytes]]) -> Answer:
    """Send it and hold the answer to the contract."""
    answer = app.send(sent, [JSON, *headers])
    shown = f"{sent[:600]!r} {headers!r} → {answer.status} {answer.body[:300]!r}"
    assert answer.seconds < SLOW, shown
    assert answer.status == 200 or 400 <= answer.status < 500, shown
    assert b"x-context-receipt" in answer.headers
    if answer.status >= 400:
        assert answer.headers[b"content-type"] == b"application/json"
        told = orjson.loads(answer.body)["error"]
        assert sorted(told) == ["code", "message", "param", "type"]
        assert all(isinstance(told[name], str) and told[name] for name in ("message", "type"))
        assert all(told[name] is None or isinstance(told[name], str) for name in ("param", "code"))
    if not is_json(sent):
        assert (answer.status, orjson.loads(answer.body)["error"]["code"]) == (400, "invalid_json")
    return answer


def is_json(body: bytes) -> bool:
    """Whether a strict reader takes it: UTF-8 without a mark, no NaN, no lone surrogates."""
    try:
        read = json.loads(body.decode(), parse_constant=int, parse_int=str, parse_float=str)
        json.dumps(read, ensure_ascii=False).encode()
    except ValueError:
        return False
    except RecursionError:  # how deep is too deep differs from reader to reader
        return True
    return True


def valid_body(stream: bool = False) -> dict[str, Any]:
    return {
        "model": "demo",
        "stream": stream,
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "Which tone?"}, {"type": "image_url"}]},
        ],
        "tools": [{"type": "function", "function": {"name": "look", "parameters": {}}}],
        "tool_choice": "auto",
        "stream_options": {"include_usage": True},
        "response_format": {"type": "text"},
        "n": 1,
        "context": {"agent": "editor", "vars": {"who": "us"}, "items": [{"name": "Note", "text": "Hi"}], "budget": 500},
    }


# What a client may get wrong, one strategy per kind of wrong.
words = st.one_of(st.sampled_from(KNOWN), st.text(max_size=12))
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), words),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(words, inner, max_size=3)),
    max_leaves=5,
)
odd_numbers = st.sampled_from(
    [b"NaN", b"-Infinity", b"1e999", b"-0", b"1E400", b"9" * 5000, b"0.0000000001e-999", b"01", b"18446744073709551616"]
)
odd_strings = st.sampled_from(
    [rb'"\ud800"', rb'"\udc00x"', rb'"a\ud800\u0041"', b'"\xff\xfe"', b'"\xed\xa0\x80"', b'"\x00"', rb'"\x"', b'"open']
)
deep = st.builds(
    lambda opening, closing, depth, cut: (opening * depth + b"1" + closing * depth)[: -cut or None],
    *(st.just(b"["), st.just(b"]"), st.integers(1, 3000), st.sampled_from([0, 0, 0, 1])),
) | st.builds(lambda depth: b'{"a":' * depth + b"1" + b"}" * depth, st.integers(1, 3000))
raw_values = st.one_of(values.map(lambda value: json.dumps(value).encode()), odd_numbers, odd_strings, deep)

PLACES: list[tuple[Any, ...]] = [
    *((name,) for name in (*valid_body(), "functions", "prediction", "max_tokens", "temperature", "unheard_of")),
    *(("context", name) for name in (*HEADER_NAMES, "selection", "refs", "vars", "hints", "items")),
    *(("messages", 0), ("messages", 1), ("messages", 0, "role"), ("messages", 0, "content"), ("messages", 1, "role")),
    *(("messages", 1, "content"), ("messages", 1, "content", 0), ("messages", 1, "content", 0, "text")),
    *(
        ("messages", 1, "tool_calls"),
        ("messages", 1, "name"),
        ("context", "items", 0, "text"),
        ("context", "vars", "who"),
    ),
    *(("tools", 0), ("tools", 0, "function"), ("tools", 0, "function", "name"), ("tools", 0, "type")),
    *(("stream_options", "include_usage"), ("response_format", "type")),
]
HOLE = "«hole»"


def with_hole(stream: bool, place: tuple[Any, ...], raw: bytes) -> bytes:
    """A valid body with raw bytes as one of its values."""
    whole = valid_body(stream)
    inner: Any = whole
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = HOLE
    return orjson.dumps(whole).replace(orjson.dumps(HOLE), raw)


def cut_up(body: bytes, at: int, length: int, put: bytes) -> bytes:
    at %= len(body)
    return body[:at] + put + body[at + length :]


wrong_types = st.builds(with_hole, st.booleans(), st.sampled_from(PLACES), raw_values)
damaged = st.builds(
    cut_up, st.just(orjson.dumps(valid_body())), st.integers(0, 10_000), st.integers(0, 40), st.binary(max_size=6)
)
repeated_keys = raw_values.map(lambda raw: orjson.dumps(valid_body())[:-1] + b',"messages":' + raw + b',"model":"m"}')
encoded = st.sampled_from(["utf-16", "utf-8-sig", "utf-32"]).map(
    lambda name: orjson.dumps(valid_body()).decode().encode(name)
)
bodies = st.one_of(wrong_types, wrong_types, damaged, repeated_keys, encoded, raw_values, st.binary(max_size=60))

header_values = st.one_of(
    words.map(lambda word: word.encode("utf-8", "surrogatepass")),
    st.binary(max_size=30),
    st.sampled_from(
        [b"", b"on", b"off", b"-1", b"9" * 30, b"%", b"%ff", b"%00", b"a" * 9_000, b"house/extra,nothing/here"]
    ),
)
some_headers = st.lists(
    st.tuples(st.sampled_from(HEADER_NAMES).map(lambda name: f"x-context-{name}".encode()), header_values), max_size=3
)


@example(sent=b"")
@example(sent=b"null")
@example(sent=b"[" * 100_000)
@example(sent=orjson.dumps({"model": "m", "messages": [{"role": "user", "content": "a" * 1_000_000}]}))
@example(sent=b'{"model":"gpt-4o","max_tokens":1e999,"messages":[{"role":"user","content":"Hi"}]}')
@given(sent=bodies)
@settings(max_examples=EXAMPLES * 10)
def test_any_body_gets_an_answer_in_the_right_shape(app: App, sent: bytes) -> None:
    check(app, sent, [])


@pytest.mark.parametrize("name", ["messages", "tools", "response_format", "stream_options", "context"])
@pytest.mark.parametrize("stream", [False, True])
def test_any_depth_is_either_taken_or_refused(app: App, name: str, stream: bool) -> None:
    """What the first reader takes, no later one may stumble over: they all count from the same limit."""
    places = {"messages": ("messages", 0, "x"), "tools": ("tools", 0, "x"), "context": ("context", "refs")}

    def is_too_deep(depth: int) -> bool:
        raw = b'{"a":' * depth + b"1" + b"}" * depth
        return b"nested too deeply" in check(app, with_hole(stream, places.get(name, (name,)), raw), []).body

    depths = range(850, 1000)
    limit = bisect_left(depths, True, key=is_too_deep)
    assert limit < len(depths)  # the limit lies within the range
    for depth in {*depths[::10], *depths[max(limit - 12, 0) : limit + 12]}:  # by so much readers may differ
        is_too_deep(depth)


@example(sent=orjson.dumps(valid_body()), headers=[(b"x-context-agent", b"guest")] * 2)
@given(sent=st.sampled_from([orjson.dumps(valid_body()), b'{"messages": []}', b"{"]), headers=some_headers)
@settings(max_examples=EXAMPLES * 5)
def test_any_headers_get_an_answer_in_the_right_shape(
    app: App, sent: bytes, headers: list[tuple[bytes, bytes]]
) -> None:
    check(app, sent, headers)


@given(sent=bodies, media=st.sampled_from([b"text/plain", b"application/json; charset=utf-16", b""]))
def test_what_does_not_say_that_it_is_json_is_refused(app: App, sent: bytes, media: bytes) -> None:
    answer = app.send(sent, [(b"content-type", media)])
    assert (answer.status, orjson.loads(answer.body)["error"]["code"]) == (415, "unsupported_media_type")


def lax_fields(sent: bytes) -> dict[str, Any]:
    return dict(msgspec.json.decode(sent, type=dict[str, msgspec.Raw]))


def lax_context(raw: msgspec.Raw) -> context_request.ContextObject:
    return context_request.ContextObject.model_validate(msgspec.json.decode(raw))


MUTANTS: dict[str, tuple[Any, str, Any]] = {
    "faults of the body pass": (chat_request, "decode_fields", lax_fields),
    "faults of the context object pass": (context_request, "read_context", lax_context),
    "a defect is hit by valid requests": (ChatRequest, "has", lambda self, name: 1 // 0),
}


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS.keys())
def test_a_gateway_with_a_hole_is_caught(
    app: App, monkeypatch: pytest.MonkeyPatch, mutant: tuple[Any, str, Any]
) -> None:
    monkeypatch.setattr(*mutant)

    @given(sent=bodies)
    @settings(max_examples=3000, phases=[Phase.generate], database=None, report_multiple_bugs=False)
    def attempt(sent: bytes) -> None:
        check(app, sent, [])

    with pytest.raises((AssertionError, KeyError)):  # KeyError: an answer without the shape of an error
        attempt()
