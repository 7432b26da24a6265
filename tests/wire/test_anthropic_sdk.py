"""The real `anthropic` client, pointed at the gateway as an application would point it.

To import it takes two seconds, so that is left to whoever runs these tests: every worker of pytest reads this file.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.anthropic_upstream import call_tools, fail, say_text, text_block, thought, tool_use
from tests.support.gateway import STYLE, STYLE_RESULT, Client
from tests.support.spoken import MESSAGES_MODEL
from tests.support.upstream import Upstream, mixed, reply, say, tool_call

if TYPE_CHECKING:
    from anthropic import Anthropic, AsyncAnthropic

GET = "get_context_resource"
EDITOR = {"x-context-agent": "editor"}
HELLO: Any = [{"role": "user", "content": "Tidy this"}]
THOUGHT = thought("I need the style guide.")
OWN = tool_use(GET, "toolu_own", resource_id=STYLE)
OSLO = tool_use("get_weather", "toolu_oslo", city="Oslo")
WEATHER: Any = {
    "name": "get_weather",
    "description": "The weather of a city",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
}
ASKED: Any = {"model": MESSAGES_MODEL, "max_tokens": 100, "messages": HELLO}


@pytest.fixture
def client(gateway: Client) -> Iterator[Anthropic]:
    from anthropic import Anthropic

    address = gateway.base_url.removesuffix("/v1")
    with Anthropic(base_url=address, api_key="unused", max_retries=0, default_headers=EDITOR) as client:
        yield client


@pytest.fixture
async def aclient(gateway: Client) -> AsyncIterator[AsyncAnthropic]:
    from anthropic import AsyncAnthropic

    address = gateway.base_url.removesuffix("/v1")
    async with AsyncAnthropic(base_url=address, api_key="unused", max_retries=0, default_headers=EDITOR) as client:
        yield client


def test_a_message_with_an_own_call_reads_like_any_other(client: Anthropic, upstream: Upstream) -> None:
    import anthropic

    upstream.will(call_tools(THOUGHT, OWN), say_text("Done."))
    message = client.messages.create(**ASKED, thinking={"type": "adaptive"})
    assert [block.type for block in message.content] == ["thinking", "text"]
    assert (message.id, message.stop_reason, message.usage.output_tokens) == ("msg_1", "end_turn", 4)
    assert message._request_id == "req_2"
    assert upstream.headers[0]["anthropic-version"] == anthropic._constants.ANTHROPIC_API_VERSION
    assert upstream.requests[1]["messages"][1]["content"] == [THOUGHT, OWN]


async def test_a_stream_is_put_together_by_the_helper(aclient: AsyncAnthropic, upstream: Upstream) -> None:
    upstream.will(call_tools(THOUGHT, text_block("Let me look."), OWN), say_text("Done."))
    async with aclient.messages.stream(**ASKED) as stream:
        text = "".join([piece async for piece in stream.text_stream])
        message = await stream.get_final_message()
    assert text == "Let me look.\n\nDone."
    assert message.content[0].to_dict() == THOUGHT
    assert (message.usage.input_tokens, message.usage.output_tokens) == (10, 4)


def test_a_client_tool_and_a_mixed_turn(client: Anthropic, upstream: Upstream) -> None:
    upstream.will(call_tools(THOUGHT, OWN, OSLO), say_text("Rain."))
    first = client.messages.create(**ASKED, tools=[WEATHER])
    assert [block.type for block in first.content] == ["thinking", "tool_use"]
    result: Any = {"type": "tool_result", "tool_use_id": first.content[1].id, "content": "Rain"}
    history: Any = [*HELLO, {"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
    second = client.messages.create(**{**ASKED, "messages": history}, tools=[WEATHER])
    assert second.content[0].to_dict()["text"] == "Rain."
    sent = upstream.requests[1]["messages"]
    assert [block["type"] for block in sent[1]["content"]] == ["thinking", "tool_use", "tool_use"]
    assert [block["content"] for block in sent[2]["content"]] == [STYLE_RESULT, "Rain"]


def test_a_chat_upstream_serves_the_same_client(client: Anthropic, upstream: Upstream) -> None:
    own = tool_call(GET, "own_1", resource_id=STYLE)
    upstream.will(mixed(own, reasoning_content="Hm."), say("Done."), mixed(own), say("Streamed."))
    message = client.messages.create(**{**ASKED, "model": "m-large"})
    assert [block.type for block in message.content] == ["thinking", "text"]
    with client.messages.stream(**{**ASKED, "model": "m-large"}) as stream:
        assert stream.get_final_text() == "Streamed."
        assert stream.get_final_message().usage.input_tokens == 20
    assert upstream.seen[0].path == "/v1/chat/completions"


def test_errors_are_the_client_s_own(client: Anthropic, upstream: Upstream) -> None:
    import anthropic

    upstream.will(fail(529, "overloaded_error", "Overloaded"))
    with pytest.raises(anthropic.APIStatusError) as busy:
        client.messages.create(**ASKED)
    assert (busy.value.status_code, busy.value.type) == (529, "overloaded_error")
    with pytest.raises(anthropic.BadRequestError) as refused:
        client.messages.create(**ASKED, extra_headers={"x-context-agent": "nobody"})
    assert refused.value.error_code == "unknown_agent"
    upstream.will(call_tools(OWN), fail(400, "invalid_request_error", "Too long"))
    with client.messages.stream(**ASKED) as stream, pytest.raises(anthropic.APIStatusError, match="Too long"):
        stream.get_final_message()


def test_tokens_are_counted_with_what_the_gateway_adds(client: Anthropic, upstream: Upstream) -> None:
    upstream.will(reply(b'{"input_tokens": 42}'))
    asked = {name: value for name, value in ASKED.items() if name != "max_tokens"}
    assert client.messages.count_tokens(**asked).input_tokens == 42
    (seen,) = upstream.seen
    assert seen.path == "/v1/messages/count_tokens"
    assert seen.json.keys() == {"model", "messages", "system", "tools"}
    assert "Write plainly." in seen.json["system"][0]["text"]
    estimated = client.messages.count_tokens(**{**asked, "model": "m-large"}).input_tokens
    assert 100 < estimated < 1000
    assert len(upstream.seen) == 1
