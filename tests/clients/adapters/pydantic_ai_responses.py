"""pydantic-ai, responses."""

from typing import Any

import openai
from pydantic_ai.models.openai import OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

from tests.clients.adapters.pydantic_ai_chat import PydanticAiChat
from tests.clients.scenario import HEADERS, KEY


class PydanticAiResponses(PydanticAiChat):
    def __init__(self, base_url: str, model: str) -> None:
        client = openai.AsyncOpenAI(base_url=base_url, api_key=KEY, default_headers=HEADERS, max_retries=0)
        self.model: Any = OpenAIResponsesModel(model, provider=OpenAIProvider(openai_client=client))
