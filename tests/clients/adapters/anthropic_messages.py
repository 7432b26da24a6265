"""anthropic, messages."""

from typing import Any, ClassVar

import anthropic

from tests.clients.scenario import HEADERS, KEY, QUESTION, WEATHER_SCHEMA, Place, StatusAdapter, ToolUse, get_weather
from tests.support.upstream import Reaction, call

WEATHER: Any = {"name": "get_weather", "description": "The weather of a city", "input_schema": WEATHER_SCHEMA}
FORM: Any = {"name": "place", "description": "Where somebody is", "input_schema": WEATHER_SCHEMA}


class AnthropicMessages(StatusAdapter):
    place: ClassVar[Reaction] = call("place", city="Oslo")
    failure = anthropic.APIStatusError

    def __init__(self, base_url: str, model: str) -> None:
        origin = base_url.removesuffix("/v1")
        self.client = anthropic.Anthropic(base_url=origin, api_key=KEY, default_headers=HEADERS, max_retries=0)
        self.messages: list[Any] = [{"role": "user", "content": QUESTION}]
        self.model = model

    def _create(self, stream: bool, **said: Any) -> Any:
        asked = {"model": self.model, "max_tokens": 500, "messages": self.messages, **said}
        if not stream:
            return self.client.messages.create(**asked)
        with self.client.messages.stream(**asked) as events:
            pieces = "".join(events.text_stream)
            message = events.get_final_message()
        assert pieces == join_text(message)
        return message

    def ask(self, *, stream: bool) -> str:
        return join_text(self._create(stream))

    def use_tool(self, *, stream: bool) -> ToolUse:
        first = self._create(stream, tools=[WEATHER])
        made = [block for block in first.content if block.type == "tool_use"]
        results = [
            {"type": "tool_result", "tool_use_id": block.id, "content": get_weather(**block.input)} for block in made
        ]
        said = [{"role": "assistant", "content": first.content}, {"role": "user", "content": results}]
        last = self._create(stream, tools=[WEATHER], messages=[*self.messages, *said])
        return ToolUse([(block.name, block.input) for block in made], join_text(last))

    def parse(self, *, stream: bool) -> Place:
        said = self._create(stream, tools=[FORM], tool_choice={"type": "tool", "name": "place"})
        return Place.model_validate(next(block.input for block in said.content if block.type == "tool_use"))


def join_text(message: Any) -> str:
    return "".join(block.text for block in message.content if block.type == "text")
