"""The real `openai` client's responses, pointed at the gateway as an application would point it."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel

from tests.support.gateway import STYLE, STYLE_RESULT, Client
from tests.support.upstream import Upstream, mixed, reply, say, status, tool_call

GET = "get_context_resource"
OWN, OSLO = tool_call(GET, "own", resource_id=STYLE), tool_call("get_weather", "oslo", city="Oslo")
EDITOR = {"x-context-agent": "editor"}
WEATHER: Any = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather of a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "strict": False,
}


class Verdict(BaseModel):
    ok: bool


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


def test_create_with_an_own_call_reads_like_any_other(client: OpenAI, upstream: Upstream) -> None:
    upstream.will(mixed(OWN, reasoning_content="Hm."), say("Done."))
    response = client.responses.create(model="m-large", input="Tidy this", instructions="Be brief.")
    assert (response.output_text, response.status, response.instructions) == ("Done.", "completed", "Be brief.")
    assert [item.type for item in response.output] == ["reasoning", "message"]
    assert response.usage is not None
    assert (response.usage.total_tokens, response.tools) == (24, [])
    assert upstream.requests[0]["instructions"].startswith("Be brief.\n\n--- Context [")


async def test_the_async_client_gets_the_same(aclient: AsyncOpenAI, upstream: Upstream) -> None:
    upstream.will(mixed(OWN), say("Done."))
    assert (await aclient.responses.create(model="m-large", input="Tidy this")).output_text == "Done."


def test_a_plain_stream_is_iterated(client: OpenAI, upstream: Upstream) -> None:
    upstream.will(mixed(OWN, text="Hm."), say("Done."))
    events = list(client.responses.create(model="m-large", input="Tidy this", stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert (events[0].type, events[-1].type) == ("response.created", "response.completed")
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(deltas) == "Hm.Done."


def test_the_stream_helper_builds_the_response(client: OpenAI, upstream: Upstream) -> None:
    upstream.will(mixed(OWN, text="Hm."), say("Done."))
    with client.responses.stream(model="m-large", input="Tidy this") as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_response()
    assert final.output_text == "Hm.Done."
    assert kinds.count("response.completed") == 1


def test_structured_output_is_parsed(client: OpenAI, upstream: Upstream) -> None:
    upstream.will(mixed(OWN, text="Let me look."), say('{"ok": true}'))
    response = client.responses.parse(model="m-large", input="Fine?", text_format=Verdict)
    assert response.output_parsed == Verdict(ok=True)
    assert upstream.requests[1]["text"]["format"]["type"] == "json_schema"


def test_structured_output_is_streamed(client: OpenAI, upstream: Upstream) -> None:
    upstream.will(mixed(OWN, text="Let me look."), say('{"ok": true}'))
    with client.responses.stream(model="m-large", input="Fine?", text_format=Verdict) as stream:
        stream.until_done()
        assert stream.get_final_response().output_parsed == Verdict(ok=True)


def test_text_that_waits_stays_before_the_calls_that_follow_it(client: OpenAI, upstream: Upstream) -> None:
    upstream.will(mixed(OWN, OSLO, text='{"ok": true}'))
    with client.responses.stream(model="m-large", input="Fine?", text_format=Verdict, tools=[WEATHER]) as stream:
        told = [event.item.type for event in stream if event.type == "response.output_item.added"]
        items = [item.type for item in stream.get_final_response().output]
    assert (told, items) == (["message", "function_call"], ["message", "function_call"])


def test_a_client_tool_by_its_items(client: OpenAI, upstream: Upstream) -> None:
    upstream.will(mixed(OWN, OSLO, reasoning_content="Hm."), say("Sunny."))
    asked: list[Any] = [{"role": "user", "content": "Weather?"}]
    first = client.responses.create(model="m-large", input=asked, tools=[WEATHER])
    (call,) = [item for item in first.output if item.type == "function_call"]
    assert (call.name, call.call_id) == ("get_weather", "oslo")
    back = [*asked, *first.output, {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}]
    second = client.responses.create(model="m-large", input=back, tools=[WEATHER])
    assert second.output_text == "Sunny."
    sent = upstream.requests[1]["input"]
    assert [item.get("type", "message") for item in sent] == [
        "message",
        "reasoning",
        "function_call",
        "function_call",
        "function_call_output",
        "function_call_output",
    ]
    assert (sent[1]["encrypted_content"], sent[4]["output"]) == ("enc1", STYLE_RESULT)


def test_a_client_tool_by_the_previous_response(client: OpenAI, upstream: Upstream) -> None:
    upstream.will(mixed(OWN, OSLO), say("Sunny."))
    with client.responses.stream(model="m-large", input="Weather?", tools=[WEATHER]) as stream:
        first = stream.get_final_response()
    output: Any = {"type": "function_call_output", "call_id": "oslo", "output": "sunny"}
    second = client.responses.create(model="m-large", input=[output], tools=[WEATHER], previous_response_id=first.id)
    assert (second.output_text, second.previous_response_id) == ("Sunny.", first.id)
    assert [item["output"] for item in upstream.requests[1]["input"]] == [STYLE_RESULT, "sunny"]


def test_a_response_is_retrieved_listed_and_deleted(client: OpenAI, upstream: Upstream) -> None:
    upstream.will(mixed(OWN).but(top={"id": "resp_kept"}), say("Done."), reply(b'{"deleted":true}'))
    made = client.responses.create(model="m-large", input="Tidy this")
    assert client.responses.retrieve(made.id) == made
    (item,) = client.responses.input_items.list(made.id).data
    assert item.type == "message"
    with pytest.raises(openai.BadRequestError):
        client.responses.cancel(made.id)
    client.responses.delete(made.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(made.id)


def test_errors_are_the_sdk_s_own(client: OpenAI, upstream: Upstream) -> None:
    upstream.will(status(429))
    with pytest.raises(openai.RateLimitError):
        client.responses.create(model="m-large", input="Hi")
    with pytest.raises(openai.BadRequestError, match="Background"):
        client.responses.create(model="m-large", input="Hi", background=True)
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(model="m-large", input="Hi", extra_headers={"x-context-agent": "nobody"})
    assert caught.value.code == "unknown_agent"


def test_a_stream_that_breaks_raises(client: OpenAI, upstream: Upstream) -> None:
    upstream.will(mixed(OWN), *[status(400)])
    with pytest.raises(openai.APIError, match="failed in the middle"):
        list(client.responses.create(model="m-large", input="Hi", stream=True))
