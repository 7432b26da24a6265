"""openai, responses."""

import json
from typing import Any, ClassVar

import openai

from tests.clients.scenario import (
    HEADERS,
    JSON_PLACE,
    KEY,
    QUESTION,
    WEATHER_FUNCTION,
    Place,
    StatusAdapter,
    ToolUse,
    get_weather,
)
from tests.support.upstream import Reaction

WEATHER: Any = {"type": "function", **WEATHER_FUNCTION}


class OpenAiResponses(StatusAdapter):
    place: ClassVar[Reaction] = JSON_PLACE
    failure = openai.APIStatusError

    def __init__(self, base_url: str, model: str) -> None:
        self.client = openai.OpenAI(base_url=base_url, api_key=KEY, default_headers=HEADERS, max_retries=0)
        self.model = model

    def ask(self, *, stream: bool) -> str:
        said: Any = self.client.responses.create(model=self.model, input=QUESTION, stream=stream)
        if not stream:
            return str(said.output_text)
        return "".join(event.delta for event in said if event.type == "response.output_text.delta")

    def _parse(self, stream: bool, **said: Any) -> Any:
        """The response that the helpers for typed replies make."""
        asked = {"model": self.model, "input": QUESTION, **said}
        if not stream:
            return self.client.responses.parse(**asked)
        with self.client.responses.stream(**asked) as events:
            return events.get_final_response()

    def use_tool(self, *, stream: bool) -> ToolUse:
        first = self._parse(stream, tools=[WEATHER])
        made = [item for item in first.output if item.type == "function_call"]
        calls = [(item.name, json.loads(item.arguments)) for item in made]
        results = [
            {"type": "function_call_output", "call_id": item.call_id, "output": get_weather(**arguments)}
            for item, (_, arguments) in zip(made, calls, strict=True)
        ]
        conversation = [{"role": "user", "content": QUESTION}, *first.output, *results]
        return ToolUse(calls, self._parse(stream, input=conversation, tools=[WEATHER]).output_text)

    def parse(self, *, stream: bool) -> Place:
        place = self._parse(stream, text_format=Place).output_parsed
        assert isinstance(place, Place)
        return place
