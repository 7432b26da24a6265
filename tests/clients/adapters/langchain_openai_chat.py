"""langchain-openai, chat completions."""

from typing import Any, ClassVar

import openai
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from tests.clients.scenario import HEADERS, JSON_PLACE, KEY, QUESTION, Place, StatusAdapter, ToolUse, get_weather
from tests.support.upstream import Reaction


class LangChainOpenAi(StatusAdapter):
    place: ClassVar[Reaction] = JSON_PLACE
    failure: ClassVar[type[Exception]] = openai.APIStatusError

    def __init__(self, base_url: str, model: str, **options: Any) -> None:
        self.model: Any = ChatOpenAI(
            base_url=base_url, api_key=SecretStr(KEY), model=model, default_headers=HEADERS, max_retries=0, **options
        )

    def ask(self, *, stream: bool) -> str:
        if not stream:
            return str(self.model.invoke(QUESTION).text)
        return "".join(str(chunk.text) for chunk in self.model.stream(QUESTION))

    def use_tool(self, *, stream: bool) -> ToolUse:
        model, asked = self.model.bind_tools([get_weather]), HumanMessage(QUESTION)
        say = (lambda messages: add_chunks(model.stream(messages))) if stream else model.invoke
        said = say([asked])
        calls = [(call["name"], call["args"]) for call in said.tool_calls]
        results = [ToolMessage(get_weather(**call["args"]), tool_call_id=call["id"]) for call in said.tool_calls]
        return ToolUse(calls, str(say([asked, said, *results]).text))

    def parse(self, *, stream: bool) -> Place:
        model = self.model.with_structured_output(Place)
        place = list(model.stream(QUESTION))[-1] if stream else model.invoke(QUESTION)
        assert isinstance(place, Place)
        return place


def add_chunks(chunks: Any) -> Any:
    """The message that chunks add up to, as LangChain's users make it."""
    first, *rest = chunks
    for chunk in rest:
        first += chunk
    return first
