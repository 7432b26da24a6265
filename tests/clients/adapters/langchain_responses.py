"""langchain-openai, responses."""

from tests.clients.adapters.langchain_openai_chat import LangChainOpenAi


class LangChainResponses(LangChainOpenAi):
    def __init__(self, base_url: str, model: str) -> None:
        super().__init__(base_url, model, use_responses_api=True)
