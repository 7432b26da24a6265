"""langchain-openai, responses."""

from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from tests.clients.adapters.langchain_openai_chat import LangChainOpenAi
from tests.clients.scenario import HEADERS, KEY, MODEL


class LangChainResponses(LangChainOpenAi):
    def __init__(self, base_url: str) -> None:
        self.model = ChatOpenAI(
            base_url=base_url, api_key=SecretStr(KEY), model=MODEL, default_headers=HEADERS, max_retries=0,
            use_responses_api=True,
        )  # fmt: skip
