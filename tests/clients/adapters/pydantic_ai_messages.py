"""pydantic-ai, messages."""

from typing import Any, ClassVar

import anthropic
from pydantic_ai import Agent
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.providers.anthropic import AnthropicProvider

from tests.clients.adapters.pydantic_ai_chat import PydanticAiChat
from tests.clients.scenario import HEADERS, KEY, Place
from tests.support.upstream import Reaction, call


class PydanticAiMessages(PydanticAiChat):
    place: ClassVar[Reaction] = call("final_result", city="Oslo")

    def __init__(self, base_url: str, model: str) -> None:
        origin = base_url.removesuffix("/v1")
        client = anthropic.AsyncAnthropic(base_url=origin, api_key=KEY, default_headers=HEADERS, max_retries=0)
        self.model: Any = AnthropicModel(model, provider=AnthropicProvider(anthropic_client=client))

    def make_parser(self) -> Agent[Any, Any]:
        return Agent(self.model, output_type=Place)
