"""openai, responses."""

import json
from typing import Any, ClassVar

import openai

from tests.clients.scenario import (
    HEADERS,
    JSON_PLACE,
    KEY,
    MODEL,
    QUESTION,
    WEATHER_SCHEMA,
    Place,
    ToolUse,
    get_weather,
)
from tests.support.upstream import Reaction

WEATHER: Any = {"type": "function", "name": "get_weather", "parameters": WEATHER_SCHEMA, "strict": False}


class OpenAiResponses:
    place: ClassVar[Reaction] = JSON_PLACE

    def __init__(self, base_url: str) -> None:
        self.client = openai.OpenAI(base_url=base_url, api_key=KEY, default_headers=HEADERS, max_retries=0)

    def ask(self) -> str:
        return self.client.responses.create(model=MODEL, input=QUESTION).output_text

    def stream(self) -> str:
        events = self.client.responses.create(model=MODEL, input=QUESTION, stream=True)
        return "".join(event.delta for event in events if event.type == "response.output_text.delta")

    def use_tool(self) -> ToolUse:
        first: Any = self.client.responses.create(model=MODEL, input=QUESTION, tools=[WEATHER])
        made = [item for item in first.output if item.type == "function_call"]
        calls = [(item.name, json.loads(item.arguments)) for item in made]
        results = [
            {"type": "function_call_output", "call_id": item.call_id, "output": get_weather(**arguments)}
            for item, (_, arguments) in zip(made, calls, strict=True)
        ]
        conversation: Any = [{"role": "user", "content": QUESTION}, *first.output, *results]
        last = self.client.responses.create(model=MODEL, input=conversation, tools=[WEATHER])
        return ToolUse(calls, last.output_text)

    def parse(self) -> Place:
        place = self.client.responses.parse(model=MODEL, input=QUESTION, text_format=Place).output_parsed
        assert place is not None
        return place

    def fail(self) -> int | None:
        try:
            self.ask()
        except openai.APIStatusError as error:
            return error.status_code
        return None
