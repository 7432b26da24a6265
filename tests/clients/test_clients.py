"""Clients of all three dialects, in Python and Node, against a running gateway: what each of them does every day."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

from tests.clients.node_adapter import FormNodeAdapter, NodeAdapter
from tests.clients.scenario import QUESTION, ClientAdapter
from tests.support.gateway import STYLE, STYLE_RESULT, Client
from tests.support.upstream import Upstream, call, chunks, mixed, raw_events, say, status, tool_call

PYTHON = {
    "openai": "openai_chat.OpenAiChat",
    "langchain": "langchain_openai_chat.LangChainOpenAi",
    "pydantic-ai": "pydantic_ai_chat.PydanticAiChat",
    "instructor": "instructor_chat.InstructorChat",
    "llama-index": "llama_index_chat.LlamaIndexChat",
    "llm": "llm_chat.LlmChat",
    "litellm": "litellm_chat.LitellmChat",
    "openai-agents": "openai_agents_chat.OpenAiAgentsChat",
    "openai-responses": "openai_responses.OpenAiResponses",
    "langchain-responses": "langchain_responses.LangChainResponses",
    "pydantic-ai-responses": "pydantic_ai_responses.PydanticAiResponses",
    "openai-agents-responses": "openai_agents_responses.OpenAiAgentsResponses",
    "anthropic": "anthropic_messages.AnthropicMessages",
    "langchain-anthropic": "langchain_anthropic_messages.LangChainAnthropic",
    "pydantic-ai-anthropic": "pydantic_ai_messages.PydanticAiMessages",
    "llama-index-anthropic": "llama_index_messages.LlamaIndexMessages",
}
NODE = {
    "node-openai": "openai",
    "node-ai-sdk": "ai-sdk-chat",
    "node-openai-responses": "openai-responses",
    "node-ai-sdk-responses": "ai-sdk-responses",
    "node-anthropic": "anthropic",
    "node-ai-sdk-anthropic": "ai-sdk-anthropic",
}
FORMS = ("node-anthropic",)  # clients that get a Place by a named tool
OWN, OSLO = tool_call("get_context_resource", resource_id=STYLE), tool_call("get_weather", city="Oslo")

pytestmark = pytest.mark.filterwarnings("ignore")  # those of the clients are not ours


@pytest.fixture(params=[*PYTHON, *NODE])
def client(request: pytest.FixtureRequest, gateway: Client) -> ClientAdapter:
    """Each client in turn."""
    if request.param in NODE:
        adapter = FormNodeAdapter if request.param in FORMS else NodeAdapter
        return adapter(request.getfixturevalue("node"), NODE[request.param])
    module, _, name = PYTHON[request.param].partition(".")
    make: Callable[[str], ClientAdapter] = getattr(import_module(f"tests.clients.adapters.{module}"), name)
    return make(gateway.base_url)


def texts_of(request: dict[str, Any], role: str) -> list[str]:
    return [message["content"] for message in request["messages"] if message["role"] == role]


def test_a_question_is_answered_with_context(client: ClientAdapter, upstream: Upstream) -> None:
    upstream.will(call("get_context_resource", resource_id=STYLE), say("Sunny, I think."))
    assert client.ask() == "Sunny, I think."
    first, second = upstream.requests
    assert "Write plainly." in str(first["messages"][0]["content"])
    assert QUESTION in str(first["messages"][-1]["content"])
    assert texts_of(second, "tool") == [STYLE_RESULT]


def test_a_stream_comes_whole_and_without_our_calls(client: ClientAdapter, upstream: Upstream) -> None:
    upstream.will(mixed(OWN, text="Let me see."), say("Sunny, I think."))
    # In the responses dialect, each turn's text is a message of its own.
    assert client.stream().replace("\n\n", "") == "Let me see.Sunny, I think."


def test_the_client_s_own_tool_is_called(client: ClientAdapter, upstream: Upstream) -> None:
    upstream.will(mixed(OSLO), say("It is sunny."))
    used = client.use_tool()
    assert used.calls == [("get_weather", {"city": "Oslo"})]
    assert used.text == "It is sunny."
    assert texts_of(upstream.requests[1], "tool") == ["Sunny."]


def test_a_mixed_turn_makes_its_whole_round(client: ClientAdapter, upstream: Upstream) -> None:
    upstream.will(mixed(OWN, OSLO), say("It is sunny."))
    used = client.use_tool()
    assert used.calls == [("get_weather", {"city": "Oslo"})]
    assert used.text == "It is sunny."
    assert texts_of(upstream.requests[1], "tool") == [STYLE_RESULT, "Sunny."]


def test_a_stream_that_breaks_off_is_an_error(client: ClientAdapter, upstream: Upstream) -> None:
    upstream.will(raw_events(chunks({"role": "assistant", "content": "Sunny, "}, {"content": "I th"})))
    with pytest.raises(Exception, match="ended before it was complete"):
        client.stream()


def test_an_answer_is_parsed(client: ClientAdapter, upstream: Upstream) -> None:
    upstream.will(client.place)
    assert client.parse().city == "Oslo"


def test_an_error_of_the_provider_is_the_client_s_own_error(client: ClientAdapter, upstream: Upstream) -> None:
    upstream.will(status(429, retry_after="7", x_should_retry="false"))
    assert client.fail() == 429
