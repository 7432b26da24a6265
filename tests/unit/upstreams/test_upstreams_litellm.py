"""The litellm upstream: litellm's real code against providers on the loopback."""

import asyncio
import json
import logging
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from gateway.domain.upstream import Upstream, UpstreamReply, UpstreamRequest
from gateway.errors import UpstreamError, UpstreamInvalid, UpstreamTimeout, UpstreamTruncated, UpstreamUnreachable
from gateway.settings import TimeoutSettings, UpstreamSettings
from gateway.upstreams.litellm.upstream import LitellmUpstream

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    # What pydantic says about litellm's own models.
    pytest.mark.filterwarnings("ignore:.*`ReadOnly` qualifier.*:UserWarning"),
    pytest.mark.filterwarnings("ignore:Accessing the 'model_.*' attribute on the instance:DeprecationWarning"),
]

KEY = "sk-loopback-secret"
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]
TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {}}}}]
ASK: list[dict[str, Any]] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]


class Provider:
    """A server that answers every call as it is told and remembers what came."""

    def __init__(self) -> None:
        self.base = ""
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.reached = asyncio.Event()
        self.left = asyncio.Event()
        self.answer: Answer

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.paths.append(request.path)
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        self.requests.append(await request.json() if request.method == "POST" else {})
        self.reached.set()
        try:
            return await self.answer(request)
        except (asyncio.CancelledError, ConnectionError):
            self.left.set()
            raise

    def says(self, document: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        async def answer(request: web.Request) -> web.StreamResponse:
            return web.json_response(document, status=status, headers=headers)

        self.answer = answer

    def streams(self, *events: bytes, then: str = "end") -> None:
        async def answer(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse(headers={"content-type": "text/event-stream"})
            await response.prepare(request)
            for one in events:
                await response.write(one)
            if then == "break" and request.transport:
                request.transport.abort()
            if then == "hang":
                await asyncio.sleep(30)
            return response

        self.answer = answer


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server() -> AsyncIterator[Provider]:
    provider = Provider()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", provider.handle)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    provider.base = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield provider
    await runner.cleanup()


@pytest_asyncio.fixture(scope="module", loop_scope="module", autouse=True)
async def litellm() -> AsyncIterator[None]:
    """Import litellm once, and close its connections at the end."""
    upstream = LitellmUpstream("any", UpstreamSettings(kind="litellm", model="openai/*"))
    await upstream.prepare()
    yield
    await upstream.close()


@pytest.fixture
def provider(server: Provider) -> Provider:
    server.requests.clear()
    server.headers.clear()
    server.paths.clear()
    server.reached.clear()
    server.left.clear()
    return server


def upstream(provider: Provider, kind: str = "openai", **fields: Any) -> LitellmUpstream:
    base = {"openai": f"{provider.base}/v1", "anthropic": provider.base}[kind]
    given = {"model": f"{kind}/*", "base_url": base, "api_key": KEY} | fields
    return LitellmUpstream("llm", UpstreamSettings(kind="litellm", **given))


async def call(to: Upstream, **fields: Any) -> UpstreamReply:
    body = {"model": "m", "messages": ASK} | fields
    return await to.send(UpstreamRequest("/chat/completions", json.dumps(body).encode(), bearer=None))


async def document(to: Upstream, **fields: Any) -> dict[str, Any]:
    reply = await call(to, **fields)
    raw = await reply.read_all()
    assert reply.status == 200, raw
    return dict(json.loads(raw))


async def chunks(to: Upstream, **fields: Any) -> list[dict[str, Any]]:
    reply = await call(to, stream=True, **fields)
    events = (await reply.read_all()).decode().split("\n\n")
    await reply.close()
    assert reply.headers["content-type"].startswith("text/event-stream")
    assert events[-2:] == ["data: [DONE]", ""]
    return [json.loads(line.removeprefix("data: ")) for line in events[:-2]]


def completion(**message: Any) -> dict[str, Any]:
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hello"} | message}
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    return {"id": "c1", "object": "chat.completion", "created": 5, "model": "m", "choices": [choice], "usage": usage}


def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return sse({"id": "c1", "object": "chat.completion.chunk", "created": 5, "model": "m", "choices": [choice]})


def sse(data: Any) -> bytes:
    return f"data: {json.dumps(data)}\n\n".encode()


def named(kind: str, **data: Any) -> bytes:
    return f"event: {kind}\n".encode() + sse({"type": kind} | data)


OPENAI_STREAM = [chunk({"role": "assistant", "content": ""}), chunk({"content": "Hel"}), chunk({"content": "lo"})]
THINKING = {"type": "thinking", "thinking": "Hmm", "signature": "SIG"}
CLAUDE_SAYS = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [
        THINKING,
        {"type": "text", "text": "Let me look."},
        {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Ulm"}},
    ],
    "stop_reason": "tool_use",
    "usage": {"input_tokens": 10, "output_tokens": 5},
}


def block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> list[bytes]:
    middle = [named("content_block_delta", index=index, delta=delta) for delta in deltas]
    first = named("content_block_start", index=index, content_block=start)
    return [first, *middle, named("content_block_stop", index=index)]


CLAUDE_START = named("message_start", message=CLAUDE_SAYS | {"content": [], "stop_reason": None})
CLAUDE_TEXT = [
    CLAUDE_START,
    *block(
        0,
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "Hm"},
        {"type": "thinking_delta", "thinking": "m"},
        {"type": "signature_delta", "signature": "SIG"},
    ),
    *block(1, {"type": "text", "text": ""}, {"type": "text_delta", "text": "Let me look."}),
]
CLAUDE_STREAM = [
    *CLAUDE_TEXT,
    *block(
        2,
        {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {}},
        {"type": "input_json_delta", "partial_json": '{"city"'},
        {"type": "input_json_delta", "partial_json": ':"Ulm"}'},
    ),
    named("message_delta", delta={"stop_reason": "tool_use", "stop_sequence": None}, usage={"output_tokens": 5}),
    named("message_stop"),
]


async def test_importing_the_module_does_not_import_litellm() -> None:
    code = "import sys, gateway.upstreams.litellm.upstream; print('litellm' in sys.modules, 'httpx' in sys.modules)"
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout.split() == ["False", "False"]


async def test_an_openai_compatible_answer_comes_back_in_its_shape(provider: Provider) -> None:
    calls = [{"id": "t", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}]
    provider.says(completion(content=None, tool_calls=calls))
    answer = await document(upstream(provider), tools=TOOLS, temperature=0.5)
    message = answer["choices"][0]["message"]
    assert (answer["id"], answer["object"], answer["usage"]["total_tokens"]) == ("c1", "chat.completion", 5)
    assert (message["content"], message["tool_calls"]) == (None, calls)
    assert provider.requests == [{"model": "m", "messages": ASK, "tools": TOOLS, "temperature": 0.5}]
    assert provider.headers[0]["authorization"] == f"Bearer {KEY}"


async def test_the_clients_model_stands_for_the_star_and_a_fixed_model_stays(provider: Provider) -> None:
    provider.says(completion())
    await document(upstream(provider), model="gpt-x")
    await document(upstream(provider, model="openai/fixed"), model="gpt-x")
    assert [request["model"] for request in provider.requests] == ["gpt-x", "fixed"]


async def test_an_openai_compatible_stream_is_relayed_to_its_end(provider: Provider) -> None:
    provider.streams(*OPENAI_STREAM, chunk({}, "stop"), b"data: [DONE]\n\n")
    received = await chunks(upstream(provider))
    choices = [one["choices"][0] for one in received]
    assert "".join(choice["delta"].get("content", "") for choice in choices) == "Hello"
    assert [choice["finish_reason"] for choice in choices] == [None, None, None, "stop"]


async def test_usage_comes_in_a_chunk_without_choices_when_asked(provider: Provider) -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    last = {"id": "c1", "object": "chat.completion.chunk", "created": 5, "model": "m", "choices": [], "usage": usage}
    provider.streams(*OPENAI_STREAM, chunk({}, "stop"), sse(last), b"data: [DONE]\n\n")
    received = await chunks(upstream(provider), stream_options={"include_usage": True})
    assert received[-1]["choices"] == []
    assert received[-1]["usage"]["total_tokens"] == 5
    assert [one for one in received[:-1] if "usage" in one] == []


async def test_claudes_answer_keeps_its_thinking_and_its_calls(provider: Provider) -> None:
    provider.says(CLAUDE_SAYS)
    answer = await document(upstream(provider, "anthropic"), tools=TOOLS, max_tokens=50, top_k=7)
    choice = answer["choices"][0]
    assert (choice["finish_reason"], choice["message"]["content"]) == ("tool_calls", "Let me look.")
    assert choice["message"]["thinking_blocks"] == [THINKING]
    assert json.loads(choice["message"]["tool_calls"][0]["function"]["arguments"]) == {"city": "Ulm"}
    sent = provider.requests[0]
    assert (provider.paths, sent["model"], sent["max_tokens"], sent["top_k"]) == (["/v1/messages"], "m", 50, 7)
    assert provider.headers[0]["x-api-key"] == KEY


async def test_claudes_thinking_goes_back_exactly_as_it_came(provider: Provider) -> None:
    provider.says(CLAUDE_SAYS)
    to = upstream(provider, "anthropic")
    said = (await document(to, tools=TOOLS))["choices"][0]["message"]
    result = {"role": "tool", "tool_call_id": "toolu_1", "content": "Rain"}
    thinking = {"type": "enabled", "budget_tokens": 1024}
    await document(to, model="claude-sonnet-4-5", tools=TOOLS, messages=[*ASK, said, result], thinking=thinking)
    assert provider.requests[1]["thinking"] == thinking
    back = provider.requests[1]["messages"][1]["content"]
    assert back[0] == THINKING
    assert [part["type"] for part in back] == ["thinking", "text", "tool_use"]
    assert provider.requests[1]["messages"][2]["content"][0]["tool_use_id"] == "toolu_1"


async def test_claudes_stream_holds_text_thinking_calls_and_usage(provider: Provider) -> None:
    provider.streams(*CLAUDE_STREAM)
    received = await chunks(upstream(provider, "anthropic"), tools=TOOLS, stream_options={"include_usage": True})
    deltas = [one["choices"][0]["delta"] for one in received if one["choices"]]
    thoughts = [part for delta in deltas for part in delta.get("thinking_blocks", [])]
    calls = [part["function"] for delta in deltas for part in delta.get("tool_calls", [])]
    assert "".join(delta.get("content", "") for delta in deltas) == "Let me look."
    assert "".join(part["thinking"] for part in thoughts) == "Hmm"
    assert thoughts[-1]["signature"] == "SIG"
    assert calls[0]["name"] == "get_weather"
    assert json.loads("".join(part["arguments"] for part in calls)) == {"city": "Ulm"}
    assert received[-2]["choices"][0]["finish_reason"] == "tool_calls"
    assert (received[-1]["choices"], received[-1]["usage"]["total_tokens"]) == ([], 15)


async def test_a_cache_marker_reaches_claude(provider: Provider) -> None:
    provider.says(CLAUDE_SAYS)
    marked = {"type": "text", "text": "Rules", "cache_control": {"type": "ephemeral"}}
    await document(upstream(provider, "anthropic"), messages=[{"role": "system", "content": [marked]}, ASK[1]])
    assert provider.requests[0]["system"] == [marked]


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
@pytest.mark.parametrize("then", ["end", "break"])
async def test_a_stream_that_ends_early_is_truncated_and_never_done(provider: Provider, kind: str, then: str) -> None:
    provider.streams(*(OPENAI_STREAM if kind == "openai" else CLAUDE_TEXT), then=then)
    reply = await call(upstream(provider, kind), stream=True)
    received: list[bytes] = []

    async def read_on() -> None:
        while piece := await reply.read():
            received.append(piece)

    with pytest.raises(UpstreamTruncated):
        await read_on()
    assert await reply.read() == b""
    await reply.close()
    assert received
    assert b"[DONE]" not in b"".join(received)
    assert b'"finish_reason":"' not in b"".join(received)


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_a_stream_that_is_empty_is_no_answer(provider: Provider, kind: str) -> None:
    provider.streams()
    with pytest.raises(UpstreamError):
        await call(upstream(provider, kind), stream=True)


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_silence_in_the_middle_of_a_stream_is_a_timeout(provider: Provider, kind: str) -> None:
    provider.streams(*(OPENAI_STREAM if kind == "openai" else CLAUDE_TEXT), then="hang")
    reply = await call(upstream(provider, kind, timeouts=TimeoutSettings(idle=0.3)), stream=True)
    with pytest.raises(UpstreamTimeout):
        await reply.read_all()
    await reply.close()


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_closing_a_reply_closes_the_providers_connection(provider: Provider, kind: str) -> None:
    provider.streams(*(OPENAI_STREAM if kind == "openai" else CLAUDE_TEXT), then="hang")
    reply = await call(upstream(provider, kind), stream=True)
    await reply.read()
    await reply.close()
    await reply.close()
    await asyncio.wait_for(provider.left.wait(), 5)
    assert await reply.read() == b""


@pytest.mark.parametrize("stream", [False, True])
async def test_a_cancelled_call_closes_the_providers_connection(provider: Provider, stream: bool) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(30)
        raise AssertionError

    provider.answer = answer
    task = asyncio.ensure_future(call(upstream(provider), stream=stream))
    await asyncio.wait_for(provider.reached.wait(), 5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(provider.left.wait(), 5)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("kind", ["openai", "anthropic"])
@pytest.mark.parametrize(
    ("status", "told"),
    [(400, 400), (401, 401), (404, 404), (429, 429), (500, 500), (502, 502), (503, 503)],
)
async def test_a_providers_error_keeps_its_status_but_not_our_key(
    provider: Provider, kind: str, status: int, told: int, stream: bool
) -> None:
    provider.says({"type": "error", "error": {"type": "x", "message": f"refused {KEY}"}}, status, {"retry-after": "7"})
    reply = await call(upstream(provider, kind), stream=stream)
    error = json.loads(await reply.read_all())["error"]
    assert (reply.status, set(error)) == (told, {"message", "type", "param", "code"})
    assert "refused" in error["message"]
    assert KEY not in error["message"]
    assert reply.headers["retry-after"] == "7"
    assert len(provider.requests) == 1


async def test_an_unknown_error_status_is_passed_on(provider: Provider) -> None:
    provider.says({"error": {"message": "busy"}}, 529)
    assert (await call(upstream(provider))).status == 529


async def test_a_forbidden_key_is_an_authentication_error(provider: Provider) -> None:
    provider.says({"type": "error", "error": {"type": "permission_error", "message": "no"}}, 403)
    assert (await call(upstream(provider, "anthropic"))).status == 401


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_nobody_at_the_address_is_unreachable(provider: Provider, kind: str, stream: bool) -> None:
    with pytest.raises(UpstreamUnreachable):
        await call(upstream(provider, kind, base_url="http://127.0.0.1:1"), stream=stream)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_a_provider_that_stays_silent_is_a_timeout(provider: Provider, kind: str, stream: bool) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(30)
        raise AssertionError

    provider.answer = answer
    with pytest.raises(UpstreamTimeout):
        await call(upstream(provider, kind, timeouts=TimeoutSettings(first_byte=0.3)), stream=stream)


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
@pytest.mark.parametrize("garbage", ["<html>Welcome</html>", "{", "[]", "{}", '{"choices":"x"}', '{"choices":[{}]}'])
async def test_an_answer_that_makes_no_sense_is_invalid(provider: Provider, kind: str, garbage: str) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(text=garbage, content_type="text/html" if "<" in garbage else "application/json")

    provider.answer = answer
    with pytest.raises(UpstreamInvalid):
        await call(upstream(provider, kind))


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_a_page_instead_of_a_stream_is_no_answer(provider: Provider, kind: str) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(text="<html>Welcome</html>", content_type="text/html")

    provider.answer = answer
    with pytest.raises(UpstreamInvalid):
        await call(upstream(provider, kind), stream=True)


async def test_an_error_in_the_middle_of_claudes_stream_breaks_it(provider: Provider) -> None:
    error = {"type": "overloaded_error", "message": "Overloaded"}
    provider.streams(*CLAUDE_TEXT, named("error", error=error))
    reply = await call(upstream(provider, "anthropic"), stream=True)
    with pytest.raises(UpstreamTruncated):
        await reply.read_all()
    await reply.close()


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_no_field_of_the_body_chooses_an_address_or_a_key(
    provider: Provider, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    elsewhere = "http://127.0.0.1:1"
    evil = {
        "api_base": elsewhere,
        "base_url": elsewhere,
        "api_key": "sk-stolen",
        "extra_headers": {"authorization": "Bearer sk-stolen", "x-evil": "1"},
        "headers": {"x-evil": "1"},
        "extra_body": {"evil": 1},
        "custom_llm_provider": "ollama",
        "api_version": "x",
        "organization": "x",
        "timeout": 0.001,
        "num_retries": 9,
        "fallbacks": [{"model": "ollama/x", "api_base": elsewhere}],
        "model_list": [{"model_name": "m", "litellm_params": {"api_base": elsewhere}}],
        "mock_response": "mocked",
        "callbacks": ["x"],
        "metadata": {"x": 1},
        "_skip_mcp_handler": False,
    }
    provider.says(completion() if kind == "openai" else CLAUDE_SAYS)
    with caplog.at_level(logging.WARNING):
        await document(upstream(provider, kind), **evil)
    sent = json.dumps([provider.requests, provider.headers])
    assert len(provider.requests) == 1
    assert not any(word in sent for word in ("sk-stolen", "evil", "mocked", '127.0.0.1:1"'))
    assert KEY in sent
    assert "api_base" in caplog.text


async def test_a_url_is_no_models_name(provider: Provider) -> None:
    reply = await call(upstream(provider, model="huggingface/*"), model=f"{provider.base}/steal")
    assert (reply.status, provider.requests) == (400, [])


async def test_a_picture_on_a_private_address_is_not_fetched(provider: Provider) -> None:
    provider.says(CLAUDE_SAYS)
    parts = [{"type": "image_url", "image_url": {"url": f"{provider.base}/private.png"}}]
    reply = await call(upstream(provider, "anthropic"), messages=[{"role": "user", "content": parts}])
    assert reply.status == 400
    assert "/private.png" not in provider.paths


async def test_a_parameter_that_the_provider_lacks_is_refused_not_dropped(provider: Provider) -> None:
    reply = await call(upstream(provider, "anthropic"), logit_bias={"1": 2})
    assert (reply.status, provider.requests) == (400, [])


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b"\xff",
        b'{"x":' + b"[" * 100_000,
        b'{"model":"m"}',
        b'{"model":"m","messages":"x"}',
        b'{"model":"m","messages":[7]}',
        b'{"messages":[{"role":"user","content":"x"}]}',
    ],
)
async def test_a_malformed_body_is_refused_before_litellm_sees_it(provider: Provider, body: bytes) -> None:
    reply = await upstream(provider).send(UpstreamRequest("/chat/completions", body))
    assert reply.status == 400
    assert json.loads(await reply.read_all())["error"]["message"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("tools", 5),
        ("tools", [{"a": 1}]),
        ("temperature", "hot"),
        ("max_tokens", [None]),
        ("response_format", {}),
        ("stop", [5]),
        ("stream", "yes"),
        ("web_search_options", True),
        ("messages", [{"role": "user", "content": 5}]),
    ],
)
async def test_a_field_of_the_wrong_type_is_refused_by_name(provider: Provider, field: str, value: Any) -> None:
    reply = await call(upstream(provider, "anthropic"), **{field: value})
    error = json.loads(await reply.read_all())["error"]
    assert (reply.status, provider.requests) == (400, [])
    assert error["param"].startswith(field)


async def test_headers_of_the_operator_and_of_the_request_are_sent(provider: Provider) -> None:
    provider.says(completion())
    to = upstream(provider, headers={"x-team": "a"})
    body = json.dumps({"model": "m", "messages": ASK}).encode()
    headers = (("traceparent", "00-1"), ("user-agent", "client/1"))
    await to.send(UpstreamRequest("/chat/completions", body, headers))
    sent = provider.headers[0]
    assert (sent["x-team"], sent["traceparent"]) == ("a", "00-1")
    assert sent["user-agent"] != "client/1"


async def test_the_clients_bearer_is_the_key_where_it_is_passed_through(provider: Provider) -> None:
    provider.says(completion())
    to = upstream(provider, pass_bearer=True)
    body = json.dumps({"model": "m", "messages": ASK}).encode()
    await to.send(UpstreamRequest("/chat/completions", body, bearer="sk-client"))
    missing = await to.send(UpstreamRequest("/chat/completions", body))
    assert [sent["authorization"] for sent in provider.headers] == ["Bearer sk-client"]
    assert missing.status == 401


async def test_other_endpoints_are_unknown(provider: Provider) -> None:
    assert (await upstream(provider).send(UpstreamRequest("/embeddings", b"{}"))).status == 404


async def test_what_claude_cannot_do_is_known_and_can_be_overruled() -> None:
    def can(**fields: Any) -> tuple[bool, bool]:
        able = LitellmUpstream("x", UpstreamSettings(kind="litellm", **fields)).capabilities
        return able.system_anywhere, able.cache_marker

    assert can(model="anthropic/*") == (False, True)
    assert can(model="vertex_ai/claude-x") == (False, True)
    assert can(model="anthropic/*", system_anywhere=True) == (True, True)
    assert can(model="gemini/*") == (True, False)


async def test_only_a_fixed_model_is_listed() -> None:
    def models(model: str) -> Awaitable[list[dict[str, Any]]]:
        return LitellmUpstream("x", UpstreamSettings(kind="litellm", model=model)).list_models()

    assert await models("anthropic/*") == []
    assert [card["id"] for card in await models("anthropic/claude-x")] == ["anthropic/claude-x"]
