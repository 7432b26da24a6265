"""langchain-anthropic, messages."""

from typing import Any, ClassVar

import anthropic
from langchain_anthropic import ChatAnthropic

from tests.clients.adapters.langchain_openai_chat import LangChainOpenAi
from tests.clients.scenario import HEADERS, KEY
from tests.support.upstream import Reaction, call


class LangChainAnthropic(LangChainOpenAi):
    place: ClassVar[Reaction] = call("Place", city="Oslo")
    failure = anthropic.APIStatusError

    def __init__(self, base_url: str, model: str) -> None:
        self.model: Any = ChatAnthropic(
            base_url=base_url.removesuffix("/v1"), api_key=KEY, model=model, default_headers=HEADERS, max_retries=0
        )
