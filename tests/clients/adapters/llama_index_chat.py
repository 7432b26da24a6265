"""LlamaIndex, chat completions."""

from typing import Any, ClassVar

import openai
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike

from tests.clients.scenario import HEADERS, KEY, MODEL, QUESTION, Place, ToolUse, get_weather
from tests.support.upstream import Reaction, call


class LlamaIndexChat:
    place: ClassVar[Reaction] = call("Place", city="Oslo")

    def __init__(self, base_url: str) -> None:
        self.llm: Any = OpenAILike(
            model=MODEL, api_base=base_url, api_key=KEY, default_headers=HEADERS, max_retries=0,
            is_chat_model=True, is_function_calling_model=True,
        )  # fmt: skip
        self.asked = ChatMessage(role="user", content=QUESTION)

    def ask(self) -> str:
        return str(self.llm.chat([self.asked]).message.content)

    def stream(self) -> str:
        return "".join(piece.delta or "" for piece in self.llm.stream_chat([self.asked]))

    def use_tool(self) -> ToolUse:
        tool = FunctionTool.from_defaults(get_weather)
        said = self.llm.chat_with_tools([tool], chat_history=[self.asked])
        chosen = self.llm.get_tool_calls_from_response(said)
        results = [
            ChatMessage(
                role="tool", content=get_weather(**one.tool_kwargs), additional_kwargs={"tool_call_id": one.tool_id}
            )
            for one in chosen
        ]
        last = self.llm.chat_with_tools([tool], chat_history=[self.asked, said.message, *results])
        return ToolUse([(one.tool_name, one.tool_kwargs) for one in chosen], str(last.message.content))

    def parse(self) -> Place:
        place = self.llm.as_structured_llm(Place).chat([self.asked]).raw
        assert isinstance(place, Place)
        return place

    def fail(self) -> int | None:
        try:
            self.ask()
        except openai.APIStatusError as error:
            return error.status_code
        return None
