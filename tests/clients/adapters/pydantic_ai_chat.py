"""pydantic-ai, chat completions."""

import asyncio
from typing import Any, ClassVar

import openai
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelResponse, ToolCallPart
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from tests.clients.scenario import HEADERS, JSON_PLACE, KEY, QUESTION, Place, StatusAdapter, ToolUse, get_weather
from tests.support.upstream import Reaction


class PydanticAiChat(StatusAdapter):
    place: ClassVar[Reaction] = JSON_PLACE
    failure = ModelHTTPError

    def __init__(self, base_url: str, model: str) -> None:
        client = openai.AsyncOpenAI(base_url=base_url, api_key=KEY, default_headers=HEADERS, max_retries=0)
        self.model: Any = OpenAIChatModel(model, provider=OpenAIProvider(openai_client=client))

    def ask(self, *, stream: bool) -> str:
        async def read_stream() -> str:
            async with Agent(self.model).run_stream(QUESTION) as result:
                return "".join([piece async for piece in result.stream_text(delta=True)])

        return asyncio.run(read_stream()) if stream else self._run(False, Agent(self.model)).output

    def _run(self, stream: bool, agent: Agent[Any, Any]) -> Any:
        return asyncio.run(agent.run(QUESTION, event_stream_handler=exhaust if stream else None))

    def use_tool(self, *, stream: bool) -> ToolUse:
        result = self._run(stream, Agent(self.model, tools=[get_weather]))
        parts = [part for one in result.all_messages() if isinstance(one, ModelResponse) for part in one.parts]
        calls = [(part.tool_name, part.args_as_dict()) for part in parts if isinstance(part, ToolCallPart)]
        return ToolUse(calls, str(result.output))

    def make_parser(self) -> Agent[Any, Any]:
        return Agent(self.model, output_type=NativeOutput(Place))

    def parse(self, *, stream: bool) -> Place:
        place = self._run(stream, self.make_parser()).output
        assert isinstance(place, Place)
        return place


async def exhaust(context: Any, events: Any) -> None:
    """Take all events of a stream; without a handler there is none."""
    async for _ in events:
        pass
