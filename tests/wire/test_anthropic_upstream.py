"""Chat clients, served by an upstream that speaks Anthropic's Messages."""

from collections.abc import Iterator
from typing import Any

import openai
import orjson
import pytest
from openai import OpenAI

from tests.support.anthropic_upstream import call_tools, fail, say_text, text_block, thought, tool_use
from tests.support.gateway import STYLE, STYLE_RESULT, WEATHER, Client, Start
from tests.support.upstream import Canned, Response, Upstream, say

GET = "get_context_resource"
EDITOR = {"x-context-agent": "editor"}
HELLO: Any = [{"role": "user", "content": "Tidy this"}]
THOUGHT = thought("I need the style guide.")
OWN = tool_use(GET, "toolu_own", resource_id=STYLE)
OSLO = tool_use("get_weather", "toolu_oslo", city="Oslo")


@pytest.fixture
def claude(start: Start, upstream: Upstream) -> Client:
    """A gateway whose only upstream is Anthropic's."""
    return start(upstream_settings={"kind": "anthropic", "api_key": "sk-ant-key"})


@pytest.fixture
def client(claude: Client) -> Iterator[OpenAI]:
    with OpenAI(base_url=claude.base_url, api_key="unused", max_retries=0, default_headers=EDITOR) as client:
        yield client


def test_a_request_goes_out_as_anthropic_wants_it(client: OpenAI, upstream: Upstream) -> None:
    upstream.will(say_text("Done."))
    completion = client.chat.completions.create(model="claude-x", messages=HELLO, temperature=0.5)
    (seen,) = upstream.seen
    assert (seen.path, seen.headers["x-api-key"]) == ("/v1/messages", "sk-ant-key")
    assert seen.headers["anthropic-version"] == "2023-06-01"
    assert "authorization" not in seen.headers
    assert (seen.json["max_tokens"], seen.json["temperature"]) == (8192, 0.5)
    assert [tool["name"] for tool in seen.json["tools"]] == [GET, "list_context_resources"]
    assert completion.choices[0].message.content == "Done."
    assert completion._request_id == "req_1"


def test_the_end_of_the_stable_block_carries_the_cache_marker(client: OpenAI, upstream: Upstream) -> None:
    upstream.will(say_text("Done."))
    messages: Any = [{"role": "system", "content": "Be brief."}, *HELLO]
    client.chat.completions.create(model="claude-x", messages=messages)
    (block,) = upstream.requests[0]["system"]
    assert block["text"].startswith("Be brief.\n\n--- Context [")
    assert block["text"].rstrip().endswith("---")
    assert block["cache_control"] == {"type": "ephemeral"}


async def test_thoughts_go_back_exactly_as_they_came(claude: Client, upstream: Upstream, stream: bool) -> None:
    upstream.will(call_tools(THOUGHT, text_block("Let me look."), OWN), say_text("Done."))
    reply = await claude.chat("Tidy this", agent="editor", stream=stream)
    assert reply.text == "Let me look.\n\nDone."
    assert reply.tool_calls == []
    assistant, results = upstream.requests[1]["messages"][-2:]
    assert assistant == {"role": "assistant", "content": [THOUGHT, text_block("Let me look."), OWN]}
    assert results["content"] == [{"type": "tool_result", "tool_use_id": "toolu_own", "content": STYLE_RESULT}]


async def test_a_thought_between_two_calls_keeps_its_place(claude: Client, upstream: Upstream, stream: bool) -> None:
    later = thought("And the names.", "bGF0ZXI=")
    names = tool_use(GET, "toolu_names", resource_id="house/names")
    upstream.will(call_tools(THOUGHT, text_block("First."), OWN, later, names), say_text("Done."))
    await claude.chat("Tidy this", agent="editor", stream=stream)
    assert upstream.requests[1]["messages"][-2]["content"] == [THOUGHT, text_block("First."), OWN, later, names]


async def test_a_mixed_turn_comes_back_with_everything_that_was_hidden(
    claude: Client, upstream: Upstream, stream: bool
) -> None:
    upstream.will(call_tools(THOUGHT, OWN, OSLO), say_text("Rain, and commas."))
    first = await claude.chat("Weather?", agent="editor", stream=stream, tools=[WEATHER])
    assert first.tool_calls == [("get_weather", {"city": "Oslo"})]
    (shown,) = first.message["tool_calls"]
    history: list[dict[str, Any]] = [
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": None, "tool_calls": [shown]},
        {"role": "tool", "tool_call_id": "toolu_oslo", "content": "Rain"},
    ]
    second = await claude.chat(history, agent="editor", stream=stream, tools=[WEATHER])
    assert second.text == "Rain, and commas."
    assistant, results = upstream.requests[1]["messages"][-2:]
    assert assistant["content"] == [THOUGHT, OWN, OSLO]
    assert [block["tool_use_id"] for block in results["content"]] == ["toolu_own", "toolu_oslo"]


async def test_usage_is_counted_with_what_the_cache_did(claude: Client, upstream: Upstream, stream: bool) -> None:
    upstream.will(call_tools(OWN), say_text("Done."))
    reply = await claude.chat(
        "Tidy", agent="editor", stream=stream, stream_options={"include_usage": True} if stream else None
    )
    usage = reply.usage
    assert usage is not None
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (20, 4, 24)
    assert usage["prompt_tokens_details"] == {"cached_tokens": 6}


@pytest.mark.parametrize(
    ("code", "kind", "raised"),
    [
        (400, "invalid_request_error", openai.BadRequestError),
        (404, "not_found_error", openai.NotFoundError),
        (429, "rate_limit_error", openai.RateLimitError),
        (529, "overloaded_error", openai.InternalServerError),
    ],
)
def test_errors_of_anthropic_are_those_of_openai(
    client: OpenAI, upstream: Upstream, code: int, kind: str, raised: type[openai.APIStatusError]
) -> None:
    upstream.will(fail(code, kind, "Not now.", retry_after="3"))
    with pytest.raises(raised) as failed:
        client.chat.completions.create(model="claude-x", messages=HELLO)
    assert (failed.value.status_code, failed.value.code) == (code, kind)
    assert "Not now." in failed.value.message
    assert failed.value.response.headers["retry-after"] == "3"


def test_a_refused_key_is_the_gateways_fault(client: OpenAI, upstream: Upstream) -> None:
    upstream.will(fail(401, "authentication_error", "invalid x-api-key"))
    with pytest.raises(openai.InternalServerError) as failed:
        client.chat.completions.create(model="claude-x", messages=HELLO)
    assert failed.value.code == "upstream_auth"


def test_what_cannot_be_carried_is_refused_before_anything_is_sent(client: OpenAI, upstream: Upstream) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(model="claude-x", messages=HELLO, seed=7)
    assert refused.value.param == "seed"
    assert upstream.seen == []


async def test_nothing_of_the_account_reaches_clients(claude: Client, upstream: Upstream) -> None:
    upstream.will(say_text("Done."))
    headers = (await claude.chat("Hi", agent="bare")).headers
    assert "anthropic-organization-id" not in headers
    assert headers["x-request-id"] == "req_1"


async def test_a_stream_that_breaks_off_ends_with_an_error(claude: Client, upstream: Upstream) -> None:
    whole = say_text("A long answer.").respond({"stream": True}, 1).pieces[0]
    assert isinstance(whole, bytes)
    for cut in range(1, whole.index(b"event: message_delta"), 211):
        upstream.will(Canned(Response(200, "text/event-stream", (whole[:cut],))))
        reply = await claude.chat("Hi", agent="bare", stream=True)
        assert not reply.done
        assert [error["code"] for error in reply.errors] == ["upstream_invalid"]


async def test_fallbacks_may_speak_another_dialect(start: Start, upstream: Upstream, stream: bool) -> None:
    upstreams = {
        "claude": {"kind": "anthropic", "base_url": upstream.base_url, "api_key": "k"},
        "other": {"kind": "openai", "base_url": upstream.base_url, "api_key": "k"},
    }
    routes = [{"model": "*", "upstream": "claude", "fallbacks": ["other"]}]
    gateway = start(upstreams=upstreams, routes=routes)
    upstream.will(fail(529, "overloaded_error", "Overloaded"), say("From the other."))
    assert (await gateway.chat("Hi", agent="editor", stream=stream)).text == "From the other."
    assert [seen.path for seen in upstream.seen] == ["/v1/messages", "/v1/chat/completions"]
    upstream.will(call_tools(THOUGHT, OWN), fail(529, "overloaded_error", "Overloaded"), say("Finished."))
    assert (await gateway.chat("Hi", agent="editor")).text == "Finished."


async def test_models_are_listed_in_openais_words(claude: Client, upstream: Upstream) -> None:
    listed = orjson.loads((await claude.get("/models")).raw)["data"]
    assert {"id": "m-large", "object": "model", "created": 0, "owned_by": "anthropic"} in [
        {name: card[name] for name in ("id", "object", "created", "owned_by")} for card in listed
    ]
