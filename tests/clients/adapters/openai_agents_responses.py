"""The OpenAI Agents SDK over responses, which is its default."""

from typing import Any

import openai
from agents import OpenAIResponsesModel

from tests.clients.adapters.openai_agents_chat import OpenAiAgentsChat
from tests.clients.scenario import MODEL


class OpenAiAgentsResponses(OpenAiAgentsChat):
    def make_model(self, client: openai.AsyncOpenAI) -> Any:
        return OpenAIResponsesModel(MODEL, client)
