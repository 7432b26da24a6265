"""openai, chat completions."""

import json
from typing import Any, ClassVar

import openai

from tests.clients.scenario import HEADERS, JSON_PLACE, KEY, MODEL, QUESTION, WEATHER_TOOL, Place, ToolUse, get_weather
from tests.support.upstream import Reaction


class OpenAiChat:
    place: ClassVar[Reaction] = JSON_PLACE

    def __init__(self, base_url: str) -> None:
        self.client = openai.OpenAI(base_url=base_url, api_key=KEY, default_headers=HEADERS, max_retries=0)
        self.messages: list[Any] = [{"role": "user", "content": QUESTION}]

    def ask(self) -> str:
        completion = self.client.chat.completions.create(model=MODEL, messages=self.messages)
        return completion.choices[0].message.content or ""

    def stream(self) -> str:
        chunks = self.client.chat.completions.create(model=MODEL, messages=self.messages, stream=True)
        return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)

    def use_tool(self) -> ToolUse:
        tools: Any = [WEATHER_TOOL]
        completion = self.client.chat.completions.create(model=MODEL, messages=self.messages, tools=tools)
        message: Any = completion.choices[0].message
        calls = [(call.function.name, json.loads(call.function.arguments)) for call in message.tool_calls]
        results = [
            {"role": "tool", "tool_call_id": call.id, "content": get_weather(**arguments)}
            for call, (_, arguments) in zip(message.tool_calls, calls, strict=True)
        ]
        messages = [*self.messages, message, *results]
        completion = self.client.chat.completions.create(model=MODEL, messages=messages, tools=tools)
        return ToolUse(calls, completion.choices[0].message.content or "")

    def parse(self) -> Place:
        completion = self.client.chat.completions.parse(model=MODEL, messages=self.messages, response_format=Place)
        place = completion.choices[0].message.parsed
        assert place is not None
        return place

    def fail(self) -> int | None:
        try:
            self.ask()
        except openai.APIStatusError as error:
            return error.status_code
        return None
