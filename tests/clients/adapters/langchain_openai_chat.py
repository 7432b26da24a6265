"""langchain-openai, chat completions."""

from typing import ClassVar

import openai
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from tests.clients.scenario import HEADERS, JSON_PLACE, KEY, MODEL, QUESTION, Place, ToolUse, get_weather
from tests.support.upstream import Reaction


class LangChainOpenAi:
    place: ClassVar[Reaction] = JSON_PLACE

    def __init__(self, base_url: str) -> None:
        self.model = ChatOpenAI(
            base_url=base_url, api_key=SecretStr(KEY), model=MODEL, default_headers=HEADERS, max_retries=0
        )

    def ask(self) -> str:
        return str(self.model.invoke(QUESTION).text)

    def stream(self) -> str:
        return "".join(str(chunk.text) for chunk in self.model.stream(QUESTION))

    def use_tool(self) -> ToolUse:
        model, asked = self.model.bind_tools([get_weather]), HumanMessage(QUESTION)
        said = model.invoke([asked])
        calls = [(call["name"], call["args"]) for call in said.tool_calls]
        results = [ToolMessage(get_weather(**call["args"]), tool_call_id=call["id"]) for call in said.tool_calls]
        return ToolUse(calls, str(model.invoke([asked, said, *results]).text))

    def parse(self) -> Place:
        place = self.model.with_structured_output(Place).invoke(QUESTION)
        assert isinstance(place, Place)
        return place

    def fail(self) -> int | None:
        try:
            self.ask()
        except openai.APIStatusError as error:
            return error.status_code
        return None
