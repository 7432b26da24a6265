"""The OpenAI Agents SDK over chat completions."""

import asyncio
import json
from typing import Any, ClassVar

import openai
from agents import Agent, OpenAIChatCompletionsModel, RunConfig, Runner, function_tool
from agents.items import ToolCallItem

from tests.clients.scenario import HEADERS, JSON_PLACE, KEY, MODEL, QUESTION, Place, ToolUse, get_weather
from tests.support.upstream import Reaction


class OpenAiAgentsChat:
    place: ClassVar[Reaction] = JSON_PLACE

    def __init__(self, base_url: str) -> None:
        client = openai.AsyncOpenAI(base_url=base_url, api_key=KEY, default_headers=HEADERS, max_retries=0)
        self.model: Any = self.make_model(client)
        self.config = RunConfig(tracing_disabled=True)

    def make_model(self, client: openai.AsyncOpenAI) -> Any:
        return OpenAIChatCompletionsModel(MODEL, client)

    def _run(self, **said: Any) -> Any:
        return asyncio.run(Runner.run(Agent(name="tester", model=self.model, **said), QUESTION, run_config=self.config))

    def ask(self) -> str:
        return str(self._run().final_output)

    def stream(self) -> str:
        async def run() -> str:
            result = Runner.run_streamed(Agent(name="tester", model=self.model), QUESTION, run_config=self.config)
            pieces = [
                event.data.delta
                async for event in result.stream_events()
                if event.type == "raw_response_event" and event.data.type == "response.output_text.delta"
            ]
            return "".join(pieces)

        return asyncio.run(run())

    def use_tool(self) -> ToolUse:
        result = self._run(tools=[function_tool(get_weather)])
        items: list[Any] = [one.raw_item for one in result.new_items if isinstance(one, ToolCallItem)]
        return ToolUse([(one.name, json.loads(one.arguments)) for one in items], str(result.final_output))

    def parse(self) -> Place:
        place = self._run(output_type=Place).final_output
        assert isinstance(place, Place)
        return place

    def fail(self) -> int | None:
        try:
            self.ask()
        except openai.APIStatusError as error:
            return error.status_code
        return None
