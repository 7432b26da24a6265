"""The OpenAI Agents SDK over chat completions."""

import asyncio
import json
from typing import Any, ClassVar

import openai
from agents import Agent, OpenAIChatCompletionsModel, RunConfig, Runner, function_tool
from agents.items import ToolCallItem

from tests.clients.scenario import HEADERS, JSON_PLACE, KEY, QUESTION, Place, StatusAdapter, ToolUse, get_weather
from tests.support.upstream import Reaction


class OpenAiAgentsChat(StatusAdapter):
    place: ClassVar[Reaction] = JSON_PLACE
    failure = openai.APIStatusError

    def __init__(self, base_url: str, model: str, **options: Any) -> None:
        client = openai.AsyncOpenAI(base_url=base_url, api_key=KEY, default_headers=HEADERS, max_retries=0)
        self.model: Any = self.make_model(model, client)
        self.options: dict[str, Any] = {"run_config": RunConfig(tracing_disabled=True), **options}
        self.pieces: list[str] = []  # what a stream said, piece by piece

    def make_model(self, model: str, client: openai.AsyncOpenAI) -> Any:
        return OpenAIChatCompletionsModel(model, client)

    def _run(self, stream: bool, **said: Any) -> Any:
        return asyncio.run(self._run_agent(stream, Agent(name="tester", model=self.model, **said)))

    async def _run_agent(self, stream: bool, agent: Agent[Any]) -> Any:
        if not stream:
            return await Runner.run(agent, QUESTION, **self.options)
        result = Runner.run_streamed(agent, QUESTION, **self.options)
        async for event in result.stream_events():
            if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                self.pieces.append(event.data.delta)
        return result

    def ask(self, *, stream: bool) -> str:
        result = self._run(stream)
        return "".join(self.pieces) if stream else str(result.final_output)

    def use_tool(self, *, stream: bool) -> ToolUse:
        result = self._run(stream, tools=[function_tool(get_weather)])
        items: list[Any] = [one.raw_item for one in result.new_items if isinstance(one, ToolCallItem)]
        return ToolUse([(one.name, json.loads(one.arguments)) for one in items], str(result.final_output))

    def parse(self, *, stream: bool) -> Place:
        place = self._run(stream, output_type=Place).final_output
        assert isinstance(place, Place)
        return place
