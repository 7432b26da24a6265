"""LlamaIndex, chat completions."""

from typing import Any, ClassVar

import openai
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike

from tests.clients.scenario import HEADERS, KEY, QUESTION, Place, StatusAdapter, ToolUse, get_weather
from tests.support.upstream import Reaction, call


class LlamaIndexChat(StatusAdapter):
    place: ClassVar[Reaction] = call("Place", city="Oslo")
    failure: ClassVar[type[Exception]] = openai.APIStatusError

    def __init__(self, base_url: str, model: str) -> None:
        self.llm: Any = OpenAILike(
            model=model, api_base=base_url, api_key=KEY, default_headers=HEADERS, max_retries=0,
            is_chat_model=True, is_function_calling_model=True,
        )  # fmt: skip
        self.asked = ChatMessage(role="user", content=QUESTION)

    def ask(self, *, stream: bool) -> str:
        if not stream:
            return str(self.llm.chat([self.asked]).message.content)
        return "".join(piece.delta or "" for piece in self.llm.stream_chat([self.asked]))

    def use_tool(self, *, stream: bool) -> ToolUse:
        tool = FunctionTool.from_defaults(get_weather)

        def say(*history: ChatMessage) -> Any:
            if not stream:
                return self.llm.chat_with_tools([tool], chat_history=list(history))
            return list(self.llm.stream_chat_with_tools([tool], chat_history=list(history)))[-1]

        said = say(self.asked)
        chosen = self.llm.get_tool_calls_from_response(said)
        results = [
            ChatMessage(
                role="tool", content=get_weather(**one.tool_kwargs), additional_kwargs={"tool_call_id": one.tool_id}
            )
            for one in chosen
        ]
        last = say(self.asked, said.message, *results)
        return ToolUse([(one.tool_name, one.tool_kwargs) for one in chosen], str(last.message.content))

    def parse(self, *, stream: bool) -> Place:
        llm = self.llm.as_structured_llm(Place)
        place = (list(llm.stream_chat([self.asked]))[-1] if stream else llm.chat([self.asked])).raw
        return Place.model_validate(place, from_attributes=True)
