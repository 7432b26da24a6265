"""simonw/llm with a model of its built-in plugin that points at the gateway."""

import json
from typing import Any, ClassVar

import llm
import openai
from llm.default_plugins.openai_models import Chat

from tests.clients.scenario import HEADERS, JSON_PLACE, KEY, MODEL, QUESTION, Place, ToolUse, get_weather
from tests.support.upstream import Reaction


class LlmChat:
    place: ClassVar[Reaction] = JSON_PLACE

    def __init__(self, base_url: str) -> None:
        self.model: Any = Chat(
            MODEL, api_base=base_url, headers=HEADERS, supports_schema=True, supports_tools=True, can_stream=True
        )
        self.model.key = KEY

    def ask(self) -> str:
        return str(self.model.prompt(QUESTION, stream=False).text())

    def stream(self) -> str:
        return "".join(self.model.prompt(QUESTION, stream=True))

    def use_tool(self) -> ToolUse:
        calls: list[tuple[str, dict[str, Any]]] = []
        chain = self.model.chain(
            QUESTION,
            tools=[llm.Tool.function(get_weather)],
            before_call=lambda tool, call: calls.append((call.name, call.arguments)),
            stream=False,
        )
        return ToolUse(calls, chain.text())

    def parse(self) -> Place:
        return Place.model_validate(json.loads(self.model.prompt(QUESTION, schema=Place, stream=False).text()))

    def fail(self) -> int | None:
        try:
            self.ask()
        except openai.APIStatusError as error:
            return error.status_code
        return None
