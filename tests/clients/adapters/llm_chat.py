"""simonw/llm with a model of its built-in plugin that points at the gateway."""

import json
from typing import Any, ClassVar

import llm
import openai
from llm.default_plugins.openai_models import Chat

from tests.clients.scenario import HEADERS, JSON_PLACE, KEY, QUESTION, Place, StatusAdapter, ToolUse, get_weather
from tests.support.upstream import Reaction


class LlmChat(StatusAdapter):
    place: ClassVar[Reaction] = JSON_PLACE
    failure = openai.APIStatusError

    def __init__(self, base_url: str, model: str) -> None:
        self.model: Any = Chat(
            model, api_base=base_url, headers=HEADERS, supports_schema=True, supports_tools=True, can_stream=True
        )
        self.model.key = KEY

    def ask(self, *, stream: bool) -> str:
        return "".join(self.model.prompt(QUESTION, stream=stream))

    def use_tool(self, *, stream: bool) -> ToolUse:
        calls: list[tuple[str, dict[str, Any]]] = []
        chain = self.model.chain(
            QUESTION,
            tools=[llm.Tool.function(get_weather)],
            before_call=lambda tool, call: calls.append((call.name, call.arguments)),
            stream=stream,
        )
        *_, last = chain.responses()
        return ToolUse(calls, last.text())

    def parse(self, *, stream: bool) -> Place:
        return Place.model_validate(json.loads(self.model.prompt(QUESTION, schema=Place, stream=stream).text()))
