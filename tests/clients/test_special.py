"""What only one client has: helpers that run tools by themselves, thinking, typed streams."""

# The types of replies differ between releases of the SDKs, and a wrong one fails here anyway.
# mypy: ignore-errors

from typing import Any

import anthropic
import openai
import pytest
from anthropic import beta_tool

from tests.clients.adapters.openai_agents_responses import OpenAiAgentsResponses
from tests.clients.node_adapter import NodeProcess
from tests.clients.scenario import (
    HEADERS,
    JSON_PLACE,
    KEY,
    MODEL,
    QUESTION,
    RESPONSES_MODEL,
    WEATHER_SCHEMA,
    Place,
    get_weather,
)
from tests.clients.upstream_turns import read_results
from tests.support.gateway import STYLE, STYLE_RESULT, Client
from tests.support.upstream import Upstream, call, mixed, say, tool_call

OWN, OSLO = tool_call("get_context_resource", resource_id=STYLE), tool_call("get_weather", city="Oslo")
ROME = tool_call("get_weather", city="Rome")
ASKED: Any = [{"role": "user", "content": QUESTION}]

pytestmark = pytest.mark.filterwarnings("ignore")  # those of the clients are not ours


@pytest.fixture
def claude(gateway: Client) -> anthropic.Anthropic:
    origin = gateway.base_url.removesuffix("/v1")
    return anthropic.Anthropic(base_url=origin, api_key=KEY, default_headers=HEADERS, max_retries=0)


def test_anthropic_s_tool_runner_runs_its_own_tools_and_not_ours(
    claude: anthropic.Anthropic, upstream: Upstream
) -> None:
    upstream.will(mixed(OWN, OSLO), say("It is sunny."))
    runner = claude.beta.messages.tool_runner(
        model=MODEL, max_tokens=500, messages=ASKED, tools=[beta_tool(get_weather)]
    )
    assert runner.until_done().content[-1].text == "It is sunny."
    assert read_results(upstream.requests[1]) == [STYLE_RESULT, "Sunny."]


def test_thinking_is_shown_and_comes_back(claude: anthropic.Anthropic, upstream: Upstream) -> None:
    tool: Any = {"name": "get_weather", "input_schema": WEATHER_SCHEMA}
    asked: Any = [{"role": "user", "content": "How warm is Oslo?"}]
    upstream.will(mixed(OSLO, reasoning_content="Oslo is in Norway."), say("It is sunny."))
    thinking: Any = {"type": "enabled", "budget_tokens": 1024}
    first = claude.messages.create(model=MODEL, max_tokens=2000, messages=asked, tools=[tool], thinking=thinking)
    assert [block.type for block in first.content] == ["thinking", "tool_use"]
    result = {"type": "tool_result", "tool_use_id": first.content[1].id, "content": "Sunny."}
    said = [*asked, {"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
    last = claude.messages.create(model=MODEL, max_tokens=2000, messages=said, tools=[tool], thinking=thinking)
    assert last.content[-1].text == "It is sunny."
    assert "Oslo is in Norway." in str(upstream.requests[1]["messages"])


def test_openai_s_stream_of_responses_ends_with_the_whole_response(gateway: Client, upstream: Upstream) -> None:
    upstream.will(call("get_context_resource", resource_id=STYLE), say("Sunny, I think."))
    client = openai.OpenAI(base_url=gateway.base_url, api_key=KEY, default_headers=HEADERS, max_retries=0)
    with client.responses.stream(model=MODEL, input=QUESTION) as stream:
        kinds = [event.type for event in stream]
        assert stream.get_final_response().output_text == "Sunny, I think."
    assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")
    assert kinds.count("response.created") == 1


def test_a_stored_response_is_retrieved(gateway: Client, upstream: Upstream) -> None:
    upstream.will(say("Sunny, I think."))
    client = openai.OpenAI(base_url=gateway.base_url, api_key=KEY, default_headers=HEADERS, max_retries=0)
    made = client.responses.create(model=MODEL, input=QUESTION)
    assert client.responses.retrieve(made.id).output_text == "Sunny, I think."


def test_anthropic_parses_structured_output(claude: anthropic.Anthropic, upstream: Upstream) -> None:
    upstream.will(JSON_PLACE)
    said = claude.messages.parse(model=MODEL, max_tokens=500, messages=ASKED, output_format=Place)
    assert said.parsed_output == Place(city="Oslo")
    assert upstream.requests[0]["response_format"]["type"] == "json_schema"


@pytest.mark.parametrize("model", [MODEL, RESPONSES_MODEL])
def test_a_mixed_turn_is_continued_by_the_id_of_its_response(
    gateway: Client, upstream: Upstream, model: str, stream: bool
) -> None:
    upstream.will(mixed(OWN, OSLO, text="Let me see."), mixed(OWN, ROME), say("Both are sunny."))
    chained = OpenAiAgentsResponses(gateway.base_url, model, auto_previous_response_id=True)
    used = chained.use_tool(stream=stream)
    assert used.calls == [("get_weather", {"city": "Oslo"}), ("get_weather", {"city": "Rome"})]
    assert used.text == "Both are sunny."
    sent = upstream.requests[2]
    assert read_results(sent)[-2:] == [STYLE_RESULT, "Sunny."]
    # An upstream that keeps responses itself gets what is new, the other one all that was said.
    assert len(read_results(sent)) == (2 if model == RESPONSES_MODEL else 4)


def test_node_retrieves_a_stored_response(node: NodeProcess, upstream: Upstream) -> None:
    upstream.will(say("Sunny, I think."))
    assert node.run("openai-responses", "retrieve") == "Sunny, I think."


def test_node_s_tool_runner_runs_its_own_tools_and_not_ours(node: NodeProcess, upstream: Upstream) -> None:
    upstream.will(mixed(OWN, OSLO), say("It is sunny."))
    assert node.run("anthropic", "runTools") == "It is sunny."
    assert read_results(upstream.requests[1]) == [STYLE_RESULT, "Sunny."]


def test_node_is_shown_thinking(node: NodeProcess, upstream: Upstream) -> None:
    upstream.will(say("It is sunny.", reasoning_content="Oslo is in Norway."))
    assert node.run("anthropic", "think", stream=True) == [["thinking", "Oslo is in Norway."], ["text", "It is sunny."]]
    assert upstream.requests[0]["reasoning_effort"] == "low"
