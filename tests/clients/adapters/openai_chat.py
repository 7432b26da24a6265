"""openai, chat completions."""

import json
from typing import Any, ClassVar

import openai

from tests.clients.scenario import (
    HEADERS,
    JSON_PLACE,
    KEY,
    QUESTION,
    WEATHER_TOOL,
    Place,
    StatusAdapter,
    ToolUse,
    get_weather,
)
from tests.support.upstream import Reaction


class OpenAiChat(StatusAdapter):
    place: ClassVar[Reaction] = JSON_PLACE
    failure = openai.APIStatusError

    def __init__(self, base_url: str, model: str) -> None:
        self.client = openai.OpenAI(base_url=base_url, api_key=KEY, default_headers=HEADERS, max_retries=0)
        self.messages: list[Any] = [{"role": "user", "content": QUESTION}]
        self.model = model

    def ask(self, *, stream: bool) -> str:
        said: Any = self.client.chat.completions.create(model=self.model, messages=self.messages, stream=stream)
        if not stream:
            return str(said.choices[0].message.content)
        return "".join(chunk.choices[0].delta.content or "" for chunk in said if chunk.choices)

    def _parse(self, stream: bool, **said: Any) -> Any:
        """The message that the helpers for typed replies make."""
        asked = {"model": self.model, "messages": self.messages, **said}
        if not stream:
            return self.client.chat.completions.parse(**asked).choices[0].message
        with self.client.chat.completions.stream(**asked) as events:
            return events.get_final_completion().choices[0].message

    def use_tool(self, *, stream: bool) -> ToolUse:
        message = self._parse(stream, tools=[WEATHER_TOOL])
        calls = [(call.function.name, json.loads(call.function.arguments)) for call in message.tool_calls]
        results = [
            {"role": "tool", "tool_call_id": call.id, "content": get_weather(**arguments)}
            for call, (_, arguments) in zip(message.tool_calls, calls, strict=True)
        ]
        last = self._parse(stream, tools=[WEATHER_TOOL], messages=[*self.messages, message, *results])
        return ToolUse(calls, last.content)

    def parse(self, *, stream: bool) -> Place:
        place = self._parse(stream, response_format=Place).parsed
        assert isinstance(place, Place)
        return place
