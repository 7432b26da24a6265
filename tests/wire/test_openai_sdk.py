"""The real `openai` client, pointed at the gateway as an application would point it."""

import hashlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import openai
import orjson
import pytest
from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel

from tests.support.gateway import NAMES, STYLE, STYLE_RESULT, WEATHER, Client, Start
from tests.support.upstream import (
    HEAD,
    Upstream,
    call,
    chunks,
    hang_up,
    html,
    mixed,
    raw_events,
    say,
    status,
    tool_call,
)

GET = "get_context_resource"
HELLO: Any = [{"role": "user", "content": "Tidy this"}]
EDITOR = {"x-context-agent": "editor"}
OWN, OSLO = tool_call(GET, "own_1", resource_id=STYLE), tool_call("get_weather", "oslo", city="Oslo")
TOOLS: Any = [WEATHER]
STRICT: Any = [{**WEATHER, "function": {**WEATHER["function"], "strict": True}}]  # what the stream helper takes


@pytest.fixture
def client(gateway: Client) -> Iterator[OpenAI]:
    with OpenAI(base_url=gateway.base_url, api_key="unused", max_retries=0, default_headers=EDITOR) as client:
        yield client


@pytest.fixture
async def aclient(gateway: Client) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(
        base_url=gateway.base_url, api_key="unused", max_retries=0, default_headers=EDITOR
    ) as client:
        yield client


def test_a_completion_with_an_own_call_reads_like_any_other(client: OpenAI, upstream: Upstream):
    upstream.will(call(GET, resource_id=STYLE), say("Done."))
    completion = client.chat.completions.create(model="m-large", messages=HELLO)
    choice = completion.choices[0]
    assert (choice.message.content, choice.message.tool_calls, choice.finish_reason) == ("Done.", None, "stop")
    assert (completion.id, completion.usage and completion.usage.total_tokens) == ("chatcmpl-1", 24)
    assert upstream.headers[0]["authorization"] == "Bearer sk-upstream"


async def test_the_async_client_gets_the_same(aclient: AsyncOpenAI, upstream: Upstream):
    upstream.will(call(GET, resource_id=STYLE), say("Done."))
    completion = await aclient.chat.completions.create(model="m-large", messages=HELLO)
    assert completion.choices[0].message.content == "Done."


def test_a_stream_is_read_chunk_by_chunk(client: OpenAI, upstream: Upstream):
    upstream.will(mixed(OWN, text="One."), say("Two."))
    with client.chat.completions.create(model="m-large", messages=HELLO, stream=True) as stream:
        parts = list(stream)
    assert "".join(part.choices[0].delta.content or "" for part in parts) == "One.\n\nTwo."
    assert {part.id for part in parts} == {"chatcmpl-1"}
    assert [part.choices[0].finish_reason for part in parts if part.choices[0].finish_reason] == ["stop"]


async def test_an_async_stream_tells_its_usage_last(aclient: AsyncOpenAI, upstream: Upstream):
    upstream.will(mixed(OWN), say("Done."))
    stream = await aclient.chat.completions.create(
        model="m-large", messages=HELLO, stream=True, stream_options={"include_usage": True}
    )
    parts = [part async for part in stream]
    assert parts[-1].choices == []
    assert parts[-1].usage is not None
    assert parts[-1].usage.total_tokens == 24


def test_a_mixed_turn_makes_its_whole_round(client: OpenAI, upstream: Upstream):
    upstream.will(mixed(OWN, OSLO, text="Hm."), say("It rains, so use commas."))
    messages = list(HELLO)
    completion = client.chat.completions.create(model="m-large", messages=messages, tools=TOOLS)
    message = completion.choices[0].message
    assert message.tool_calls is not None
    (wanted,) = message.tool_calls
    assert (wanted.id, wanted.type == "function" and wanted.function.name) == ("oslo", "get_weather")
    messages += [message, {"role": "tool", "tool_call_id": wanted.id, "content": "rain"}]
    completion = client.chat.completions.create(model="m-large", messages=messages, tools=TOOLS)
    assert completion.choices[0].message.content == "It rains, so use commas."
    returned = [(m.get("tool_call_id"), m["content"]) for m in upstream.requests[1]["messages"] if m["role"] == "tool"]
    assert returned == [("own_1", STYLE_RESULT), ("oslo", "rain")]


async def test_a_mixed_turn_makes_its_whole_round_as_a_stream(aclient: AsyncOpenAI, upstream: Upstream):
    upstream.will(mixed(tool_call(GET, "own_0", resource_id=NAMES)), mixed(OWN, OSLO), say("Done."))
    messages = list(HELLO)
    async with aclient.chat.completions.stream(model="m-large", messages=messages, tools=STRICT) as stream:
        kinds = {event.type async for event in stream}
        message = (await stream.get_final_completion()).choices[0].message
    assert "tool_calls.function.arguments.done" in kinds
    assert message.tool_calls is not None
    assert [one.id for one in message.tool_calls] == ["oslo"]
    messages += [message, {"role": "tool", "tool_call_id": "oslo", "content": "rain"}]
    async with aclient.chat.completions.stream(model="m-large", messages=messages, tools=STRICT) as stream:
        final = await stream.get_final_completion()
    assert final.choices[0].message.content == "Done."
    returned = [m["tool_call_id"] for m in upstream.requests[2]["messages"] if m["role"] == "tool"]
    assert returned == ["own_0", "own_1", "oslo"]


def test_the_stream_helper_gathers_the_final_message(client: OpenAI, upstream: Upstream):
    upstream.will(mixed(OWN, text="One."), say("Two."))
    with client.chat.completions.stream(model="m-large", messages=HELLO) as stream:
        stream.until_done()
        final = stream.get_final_completion()
    assert final.choices[0].message.content == "One.\n\nTwo."
    assert final.choices[0].message.role == "assistant"
    assert final.choices[0].finish_reason == "stop"


def test_raw_responses_show_our_headers(client: OpenAI, upstream: Upstream):
    upstream.will(say("Done.").but(headers=(("x-request-id", "r1"), ("openai-processing-ms", "9"))))
    raw = client.chat.completions.with_raw_response.create(model="m-large", messages=HELLO)
    assert raw.headers["x-context-injected"] == "1"
    assert raw.headers["x-context-receipt"]
    assert (raw.request_id, raw.headers["openai-processing-ms"]) == ("r1", "9")
    assert raw.parse().choices[0].message.content == "Done."


def test_a_streaming_response_shows_our_headers(client: OpenAI, upstream: Upstream):
    upstream.will(mixed(OWN), say("Done."))
    streaming = client.chat.completions.with_streaming_response
    with streaming.create(model="m-large", messages=HELLO, stream=True) as response:
        assert response.headers["x-context-receipt"]
        assert "data: [DONE]" in list(response.iter_lines())


class Verdict(BaseModel):
    tidy: bool
    notes: list[str]


VERDICT = '{"tidy": true, "notes": ["Use the serial comma."]}'


def test_a_parsed_answer_survives_text_before_an_own_call(client: OpenAI, upstream: Upstream):
    upstream.will(mixed(OWN, text="Let me look."), say(VERDICT))
    completion = client.chat.completions.parse(model="m-large", messages=HELLO, response_format=Verdict)
    assert completion.choices[0].message.parsed == Verdict(tidy=True, notes=["Use the serial comma."])
    assert upstream.requests[0]["response_format"]["json_schema"]["name"] == "Verdict"


async def test_a_parsed_stream_survives_text_before_an_own_call(aclient: AsyncOpenAI, upstream: Upstream):
    upstream.will(mixed(OWN, text="Let me look."), say(VERDICT))
    async with aclient.chat.completions.stream(model="m-large", messages=HELLO, response_format=Verdict) as stream:
        final = await stream.get_final_completion()
    assert final.choices[0].message.parsed == Verdict(tidy=True, notes=["Use the serial comma."])


def test_tool_calls_of_the_client_are_parsed(client: OpenAI, upstream: Upstream):
    class GetWeather(BaseModel):
        city: str

    tool: Any = openai.pydantic_function_tool(GetWeather)
    upstream.will(mixed(OWN, tool_call("GetWeather", "c1", city="Oslo")))
    completion = client.chat.completions.parse(model="m-large", messages=HELLO, tools=[tool])
    calls = completion.choices[0].message.tool_calls
    assert calls is not None
    assert [one.function.parsed_arguments for one in calls] == [GetWeather(city="Oslo")]


def test_the_context_goes_in_the_body_as_well(client: OpenAI, upstream: Upstream):
    upstream.will(say("Done."))
    extra = {"context": {"agent": "greeter"}}
    client.chat.completions.create(
        model="m-large", messages=HELLO, extra_body=extra, extra_headers={"x-context-agent": openai.Omit()}
    )
    assert "Be kind." in upstream.requests[0]["messages"][0]["content"]
    assert "context" not in upstream.requests[0]


def test_an_agent_is_a_model(client: OpenAI, upstream: Upstream):
    upstream.will(say("Done."))
    client.chat.completions.create(
        model="agent:greeter", messages=HELLO, extra_headers={"x-context-agent": openai.Omit()}
    )
    assert upstream.requests[0]["model"] == "m-large"
    assert "Be kind." in upstream.requests[0]["messages"][0]["content"]


def test_models_are_listed_with_agents_among_them(client: OpenAI):
    models = {model.id: model.owned_by for model in client.models.list()}
    assert {"m-large", "m-small", "agent:editor", "agent:greeter"} <= set(models)
    assert models["agent:editor"] == "context-gateway"
    assert client.models.retrieve("agent:editor").id == "agent:editor"


def test_an_unknown_agent_is_a_bad_request(client: OpenAI):
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model="m", messages=HELLO, extra_headers={"x-context-agent": "edtor"})
    assert (caught.value.code, caught.value.param) == ("unknown_agent", "x-context-agent")
    assert "editor" in caught.value.message


def test_a_wrong_key_is_an_authentication_error(start: Start, upstream: Upstream):
    gateway = start(auth={"keys": [{"name": "one", "sha256": hashlib.sha256(b"right").hexdigest()}]})
    with OpenAI(base_url=gateway.base_url, api_key="wrong", max_retries=0) as client:
        with pytest.raises(openai.AuthenticationError) as caught:
            client.chat.completions.create(model="m", messages=HELLO)
        assert caught.value.code == "invalid_api_key"
        upstream.will(say("Done."))
        completion = client.with_options(api_key="right").chat.completions.create(model="m", messages=HELLO)
    assert completion.choices[0].message.content == "Done."
    assert upstream.headers[0]["authorization"] == "Bearer sk-upstream"


@pytest.mark.parametrize(
    ("failure", "raised", "code"),
    [
        (status(429, retry_after="3"), openai.RateLimitError, "broken"),
        (status(404), openai.NotFoundError, "broken"),
        (status(500), openai.InternalServerError, "broken"),
        (status(401), openai.InternalServerError, "upstream_auth"),
        (html(), openai.InternalServerError, "upstream_invalid"),
        (hang_up(), openai.InternalServerError, "upstream_unreachable"),
    ],
    ids=range(6),
)
@pytest.mark.parametrize("turn", [1, 2])
def test_upstream_failures_raise_what_openai_s_own_would(
    client: OpenAI, upstream: Upstream, failure: Any, raised: type[openai.APIStatusError], code: str, turn: int
):
    upstream.will(*([mixed(OWN)] if turn == 2 else []), failure)
    with pytest.raises(raised) as caught:
        client.chat.completions.create(model="m-large", messages=HELLO)
    assert caught.value.code == code
    assert caught.value.response.headers["x-context-receipt"]


def test_the_client_s_own_retry_after_a_rate_limit_works(gateway: Client, upstream: Upstream):
    upstream.will(status(429, retry_after="0.01"), say("Done."))
    with OpenAI(base_url=gateway.base_url, api_key="unused", max_retries=1, default_headers=EDITOR) as client:
        assert client.chat.completions.create(model="m", messages=HELLO).choices[0].message.content == "Done."


@pytest.mark.parametrize(
    "broken",
    [
        [mixed(OWN, text="One."), status(500)],
        [mixed(OWN, text="One."), raw_events(chunks({"content": "Tw"}))],
        [raw_events([*chunks({"role": "assistant", "content": "One."}), {**HEAD, "error": {"message": "overloaded"}}])],
    ],
    ids=["status", "truncated", "error event"],
)
def test_a_stream_that_breaks_raises(client: OpenAI, upstream: Upstream, broken: list[Any]):
    upstream.will(*broken)
    seen = ""
    stream = client.chat.completions.create(model="m-large", messages=HELLO, stream=True)
    with pytest.raises(openai.APIError) as caught:  # noqa: PT012  (what was said before it breaks is checked too)
        for part in stream:
            seen += part.choices[0].delta.content or ""
    assert seen.startswith("One.")
    assert caught.value.message


def test_a_stream_that_fails_before_it_begins_raises_a_status_error(client: OpenAI, upstream: Upstream):
    upstream.will(status(429))
    with pytest.raises(openai.RateLimitError):
        client.chat.completions.create(model="m-large", messages=HELLO, stream=True)


def test_bodies_that_are_no_chat_are_refused_in_openai_s_shape(client: OpenAI):
    wrong: Any = orjson.loads('{"role": "user"}')
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model="m", messages=wrong)
    assert caught.value.type == "invalid_request_error"
