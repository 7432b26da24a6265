"""pydantic-ai, chat completions."""

import asyncio
from typing import Any, ClassVar

import openai
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelResponse, ToolCallPart
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from tests.clients.scenario import HEADERS, JSON_PLACE, KEY, MODEL, QUESTION, Place, ToolUse, get_weather
from tests.support.upstream import Reaction


class PydanticAiChat:
    place: ClassVar[Reaction] = JSON_PLACE

    def __init__(self, base_url: str) -> None:
        client = openai.AsyncOpenAI(base_url=base_url, api_key=KEY, default_headers=HEADERS, max_retries=0)
        self.model: Any = OpenAIChatModel(MODEL, provider=OpenAIProvider(openai_client=client))

    def ask(self) -> str:
        return str(asyncio.run(Agent(self.model).run(QUESTION)).output)

    def stream(self) -> str:
        async def run() -> str:
            async with Agent(self.model).run_stream(QUESTION) as result:
                return "".join([piece async for piece in result.stream_text(delta=True)])

        return asyncio.run(run())

    def use_tool(self) -> ToolUse:
        result = asyncio.run(Agent(self.model, tools=[get_weather]).run(QUESTION))
        parts = [part for one in result.all_messages() if isinstance(one, ModelResponse) for part in one.parts]
        calls = [(part.tool_name, part.args_as_dict()) for part in parts if isinstance(part, ToolCallPart)]
        return ToolUse(calls, str(result.output))

    def parse(self) -> Place:
        place = asyncio.run(Agent(self.model, output_type=NativeOutput(Place)).run(QUESTION)).output
        assert isinstance(place, Place)
        return place

    def fail(self) -> int | None:
        try:
            self.ask()
        except ModelHTTPError as error:
            return error.status_code
        return None
