"""litellm as a client."""

import json
from typing import Any, ClassVar

import litellm

from tests.clients.scenario import HEADERS, JSON_PLACE, KEY, MODEL, QUESTION, WEATHER_TOOL, Place, ToolUse, get_weather
from tests.support.upstream import Reaction


class LitellmChat:
    place: ClassVar[Reaction] = JSON_PLACE

    def __init__(self, base_url: str) -> None:
        self.settings: dict[str, Any] = {
            "model": f"openai/{MODEL}",
            "api_base": base_url,
            "api_key": KEY,
            "extra_headers": HEADERS,
            "max_retries": 0,
        }
        self.messages: list[Any] = [{"role": "user", "content": QUESTION}]

    def _complete(self, **more: Any) -> Any:
        return litellm.completion(**self.settings, **{"messages": self.messages, **more})

    def ask(self) -> str:
        return str(self._complete().choices[0].message.content)

    def stream(self) -> str:
        return "".join(chunk.choices[0].delta.content or "" for chunk in self._complete(stream=True))

    def use_tool(self) -> ToolUse:
        message = self._complete(tools=[WEATHER_TOOL]).choices[0].message
        calls = [(call.function.name, json.loads(call.function.arguments)) for call in message.tool_calls]
        results = [
            {"role": "tool", "tool_call_id": call.id, "content": get_weather(**arguments)}
            for call, (_, arguments) in zip(message.tool_calls, calls, strict=True)
        ]
        messages = [*self.messages, message, *results]
        return ToolUse(calls, str(self._complete(tools=[WEATHER_TOOL], messages=messages).choices[0].message.content))

    def parse(self) -> Place:
        return Place.model_validate_json(self._complete(response_format=Place).choices[0].message.content)

    def fail(self) -> int | None:
        try:
            self.ask()
        except litellm.exceptions.RateLimitError as error:
            return int(error.status_code)
        return None
