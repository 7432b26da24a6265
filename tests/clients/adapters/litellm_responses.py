"""litellm as a client of responses."""

from tests.clients.adapters.litellm_chat import LitellmChat
from tests.clients.scenario import MODEL

KNOWN = {MODEL: "gpt-4.1"}  # to models that it does not know it pretends to stream


class LitellmResponses(LitellmChat):
    def __init__(self, base_url: str, model: str) -> None:
        super().__init__(base_url, model)
        self.settings["model"] = f"openai/responses/{KNOWN.get(model, model)}"
