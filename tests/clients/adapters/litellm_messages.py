"""litellm as a client of messages."""

from tests.clients.adapters.litellm_chat import LitellmChat


class LitellmMessages(LitellmChat):
    def __init__(self, base_url: str, model: str) -> None:
        super().__init__(base_url, model)
        self.settings |= {"model": f"anthropic/{model}", "api_base": base_url.removesuffix("/v1")}
