"""litellm as a client."""

import json
from typing import Any, ClassVar

import litellm

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


class LitellmChat(StatusAdapter):
    place: ClassVar[Reaction] = JSON_PLACE
    failure = litellm.exceptions.RateLimitError

    def __init__(self, base_url: str, model: str) -> None:
        self.settings: dict[str, Any] = {
            "model": f"openai/{model}",
            "api_base": base_url,
            "api_key": KEY,
            "extra_headers": HEADERS,
            "max_retries": 0,
        }
        self.messages: list[Any] = [{"role": "user", "content": QUESTION}]

    def _complete(self, stream: bool, **more: Any) -> Any:
        """The message; that of a stream as litellm builds it from chunks."""
        said = litellm.completion(**self.settings, **{"messages": self.messages, "stream": stream, **more})
        built: Any = litellm.stream_chunk_builder(list(said), messages=self.messages) if stream else said
        return built.choices[0].message

    def ask(self, *, stream: bool) -> str:
        return str(self._complete(stream).content)

    def use_tool(self, *, stream: bool) -> ToolUse:
        message = self._complete(stream, tools=[WEATHER_TOOL])
        calls = [(call.function.name, json.loads(call.function.arguments)) for call in message.tool_calls]
        results = [
            {"role": "tool", "tool_call_id": call.id, "content": get_weather(**arguments)}
            for call, (_, arguments) in zip(message.tool_calls, calls, strict=True)
        ]
        messages = [*self.messages, message, *results]
        return ToolUse(calls, str(self._complete(stream, tools=[WEATHER_TOOL], messages=messages).content))

    def parse(self, *, stream: bool) -> Place:
        return Place.model_validate_json(self._complete(stream, response_format=Place).content)
