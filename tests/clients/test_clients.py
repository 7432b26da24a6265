"""Clients of all three dialects, in Python and Node, against a running gateway: what each of them does every day.

Every case is asked for whole and as a stream. Clients of Responses and Messages meet two upstreams: one that speaks
chat completions only, so that they are translated, and one that speaks their own dialect. OpenAI's clients meet one of
Anthropic's in some cases, too.
"""

from dataclasses import dataclass
from importlib import import_module

import pytest

from tests.clients.node_adapter import FormNodeAdapter, NodeAdapter
from tests.clients.scenario import MESSAGES_MODEL, MODEL, QUESTION, RESPONSES_MODEL, ClientAdapter, MakeAdapter
from tests.clients.upstream_turns import break_off, read_results, refuse_for_now
from tests.support.gateway import STYLE, STYLE_RESULT, Client
from tests.support.upstream import Upstream, call, mixed, say, tool_call

CLIENTS = {
    "chat": {
        "openai": "openai_chat.OpenAiChat",
        "langchain": "langchain_openai_chat.LangChainOpenAi",
        "pydantic-ai": "pydantic_ai_chat.PydanticAiChat",
        "instructor": "instructor_chat.InstructorChat",
        "llama-index": "llama_index_chat.LlamaIndexChat",
        "llm": "llm_chat.LlmChat",
        "litellm": "litellm_chat.LitellmChat",
        "openai-agents": "openai_agents_chat.OpenAiAgentsChat",
        "node-openai": "openai",
        "node-ai-sdk": "ai-sdk-chat",
    },
    "responses": {
        "openai-responses": "openai_responses.OpenAiResponses",
        "langchain-responses": "langchain_responses.LangChainResponses",
        "pydantic-ai-responses": "pydantic_ai_responses.PydanticAiResponses",
        "openai-agents-responses": "openai_agents_responses.OpenAiAgentsResponses",
        "litellm-responses": "litellm_responses.LitellmResponses",
        "node-openai-responses": "openai-responses",
        "node-ai-sdk-responses": "ai-sdk-responses",
    },
    "messages": {
        "anthropic": "anthropic_messages.AnthropicMessages",
        "langchain-anthropic": "langchain_anthropic_messages.LangChainAnthropic",
        "pydantic-ai-anthropic": "pydantic_ai_messages.PydanticAiMessages",
        "llama-index-anthropic": "llama_index_messages.LlamaIndexMessages",
        "litellm-anthropic": "litellm_messages.LitellmMessages",
        "node-anthropic": "anthropic",
        "node-ai-sdk-anthropic": "ai-sdk-anthropic",
    },
}
MODELS = {"chat": MODEL, "responses": RESPONSES_MODEL, "messages": MESSAGES_MODEL}  # by what their upstreams speak
FORMS = ("anthropic",)  # clients of Node that get a Place by a named tool
OWN, OSLO = tool_call("get_context_resource", resource_id=STYLE), tool_call("get_weather", city="Oslo")

pytestmark = pytest.mark.filterwarnings("ignore")  # those of the clients are not ours


@dataclass(frozen=True)
class Pairing:
    """A client, and the dialect of the upstream behind the gateway."""

    client: str
    adapter: str
    upstream: str

    def __str__(self) -> str:
        return f"{self.client}-over-{self.upstream}"


PAIRINGS = [
    Pairing(name, adapter, upstream)
    for dialect, adapters in CLIENTS.items()
    for name, adapter in adapters.items()
    for upstream in dict.fromkeys(["chat", dialect])
]
# OpenAI's clients with a model of Anthropic's, for what is translated most: histories with calls, and formats.
OVER_ANTHROPIC = [
    Pairing(name, adapter, "messages")
    for dialect in ("chat", "responses")
    for name, adapter in CLIENTS[dialect].items()
]
over_anthropic_too = pytest.mark.parametrize("pairing", [*PAIRINGS, *OVER_ANTHROPIC], indirect=True, ids=str)


@pytest.fixture(params=PAIRINGS, ids=str)
def pairing(request: pytest.FixtureRequest) -> Pairing:
    found: Pairing = request.param
    return found


@pytest.fixture
def speaks(pairing: Pairing) -> str:
    """The dialect of the upstream."""
    return pairing.upstream


@pytest.fixture
def client(pairing: Pairing, request: pytest.FixtureRequest, gateway: Client) -> ClientAdapter:
    """Each client in turn."""
    model = MODELS[pairing.upstream]
    if pairing.client.startswith("node-"):
        adapter = FormNodeAdapter if pairing.adapter in FORMS else NodeAdapter
        return adapter(request.getfixturevalue("node"), pairing.adapter, model)
    module, _, name = pairing.adapter.partition(".")
    make: MakeAdapter = getattr(import_module(f"tests.clients.adapters.{module}"), name)
    return make(gateway.base_url, model)


def test_a_question_is_answered_with_context(client: ClientAdapter, upstream: Upstream, stream: bool) -> None:
    upstream.will(call("get_context_resource", resource_id=STYLE), say("Sunny, I think."))
    assert client.ask(stream=stream) == "Sunny, I think."
    first, second = upstream.requests
    assert "Write plainly." in str(first)
    assert QUESTION in str(first)
    assert read_results(second) == [STYLE_RESULT]


def test_a_stream_comes_whole_and_without_our_calls(client: ClientAdapter, upstream: Upstream) -> None:
    upstream.will(mixed(OWN, text="Let me see."), say("Sunny, I think."))
    # In the responses dialect, each turn's text is a message of its own.
    assert client.ask(stream=True).replace("\n\n", "") == "Let me see.Sunny, I think."


def test_the_client_s_own_tool_is_called(client: ClientAdapter, upstream: Upstream, stream: bool) -> None:
    upstream.will(mixed(OSLO), say("It is sunny."))
    used = client.use_tool(stream=stream)
    assert used.calls == [("get_weather", {"city": "Oslo"})]
    assert used.text == "It is sunny."
    assert read_results(upstream.requests[1]) == ["Sunny."]


@over_anthropic_too
def test_a_mixed_turn_makes_its_whole_round(client: ClientAdapter, upstream: Upstream, stream: bool) -> None:
    upstream.will(mixed(OWN, OSLO, text="Let me see."), say("It is sunny."))
    used = client.use_tool(stream=stream)
    assert used.calls == [("get_weather", {"city": "Oslo"})]
    assert used.text == "It is sunny."
    assert read_results(upstream.requests[1]) == [STYLE_RESULT, "Sunny."]


def test_a_stream_that_breaks_off_is_an_error(client: ClientAdapter, speaks: str, upstream: Upstream) -> None:
    upstream.will(break_off(say("Sunny, I th"), speaks))
    with pytest.raises(Exception, match="ended before it was complete"):
        client.ask(stream=True)


@over_anthropic_too
def test_an_answer_is_parsed(client: ClientAdapter, upstream: Upstream, stream: bool) -> None:
    upstream.will(client.place)
    assert client.parse(stream=stream).city == "Oslo"


def test_an_error_of_the_provider_is_the_client_s_own_error(
    client: ClientAdapter, speaks: str, upstream: Upstream, stream: bool
) -> None:
    upstream.will(refuse_for_now(speaks))
    assert client.fail(stream=stream) == 429
