"""LlamaIndex, messages."""

from typing import Any, ClassVar

import anthropic
from llama_index.core.llms import ChatMessage
from llama_index.llms.anthropic import Anthropic

from tests.clients.adapters.llama_index_chat import LlamaIndexChat
from tests.clients.scenario import HEADERS, JSON_PLACE, KEY, QUESTION
from tests.support.upstream import Reaction


class LlamaIndexMessages(LlamaIndexChat):
    place: ClassVar[Reaction] = JSON_PLACE

    def __init__(self, base_url: str) -> None:
        self.llm: Any = Anthropic(
            # It looks up the window of its model, so it has to know it.
            model="claude-sonnet-4-5",
            base_url=base_url.removesuffix("/v1"),
            api_key=KEY,
            default_headers=HEADERS,
            max_retries=0,
        )
        self.asked = ChatMessage(role="user", content=QUESTION)

    def fail(self) -> int | None:
        try:
            self.ask()
        except anthropic.APIStatusError as error:
            return int(error.status_code)
        return None
