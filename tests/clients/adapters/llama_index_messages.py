"""LlamaIndex, messages."""

from typing import Any, ClassVar

import anthropic
from llama_index.core.llms import ChatMessage
from llama_index.llms.anthropic import Anthropic

from tests.clients.adapters.llama_index_chat import LlamaIndexChat
from tests.clients.scenario import HEADERS, JSON_PLACE, KEY, MODEL, QUESTION
from tests.support.upstream import Reaction

KNOWN = {MODEL: "claude-haiku-4-5"}  # it looks up the window of its model, so it has to know it


class LlamaIndexMessages(LlamaIndexChat):
    place: ClassVar[Reaction] = JSON_PLACE
    failure = anthropic.APIStatusError

    def __init__(self, base_url: str, model: str) -> None:
        self.llm: Any = Anthropic(
            model=KNOWN.get(model, model),
            base_url=base_url.removesuffix("/v1"),
            api_key=KEY,
            default_headers=HEADERS,
            max_retries=0,
        )
        self.asked = ChatMessage(role="user", content=QUESTION)
