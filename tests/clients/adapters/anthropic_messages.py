"""anthropic, messages."""

from typing import Any, ClassVar

import anthropic

from tests.clients.scenario import HEADERS, KEY, MODEL, QUESTION, WEATHER_SCHEMA, Place, ToolUse, get_weather
from tests.support.upstream import Reaction, call

WEATHER: Any = {"name": "get_weather", "description": "The weather of a city", "input_schema": WEATHER_SCHEMA}
FORM: Any = {"name": "place", "description": "Where somebody is", "input_schema": WEATHER_SCHEMA}


class AnthropicMessages:
    place: ClassVar[Reaction] = call("place", city="Oslo")

    def __init__(self, base_url: str) -> None:
        origin = base_url.removesuffix("/v1")
        self.client = anthropic.Anthropic(base_url=origin, api_key=KEY, default_headers=HEADERS, max_retries=0)
        self.messages: list[Any] = [{"role": "user", "content": QUESTION}]

    def _create(self, **said: Any) -> Any:
        return self.client.messages.create(**{"model": MODEL, "max_tokens": 500, "messages": self.messages, **said})

    def ask(self) -> str:
        return join_text(self._create())

    def stream(self) -> str:
        with self.client.messages.stream(model=MODEL, max_tokens=500, messages=self.messages) as stream:
            return "".join(stream.text_stream)

    def use_tool(self) -> ToolUse:
        first = self._create(tools=[WEATHER])
        made = [block for block in first.content if block.type == "tool_use"]
        results = [
            {"type": "tool_result", "tool_use_id": block.id, "content": get_weather(**block.input)} for block in made
        ]
        said = [{"role": "assistant", "content": first.content}, {"role": "user", "content": results}]
        last = self._create(tools=[WEATHER], messages=[*self.messages, *said])
        return ToolUse([(block.name, block.input) for block in made], join_text(last))

    def parse(self) -> Place:
        said = self._create(tools=[FORM], tool_choice={"type": "tool", "name": "place"})
        return Place.model_validate(next(block.input for block in said.content if block.type == "tool_use"))

    def fail(self) -> int | None:
        try:
            self.ask()
        except anthropic.APIStatusError as error:
            return int(error.status_code)
        return None


def join_text(message: Any) -> str:
    return "".join(block.text for block in message.content if block.type == "text")
