"""The OpenAI Agents SDK over responses, which is its default."""

from typing import Any

import openai
from agents import OpenAIResponsesModel

from tests.clients.adapters.openai_agents_chat import OpenAiAgentsChat


class OpenAiAgentsResponses(OpenAiAgentsChat):
    def make_model(self, model: str, client: openai.AsyncOpenAI) -> Any:
        return OpenAIResponsesModel(model, client)
