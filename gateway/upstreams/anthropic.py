"""Anthropic's Messages, over the same connections as OpenAI's endpoints (decision 015)."""

from datetime import datetime
from typing import Any, Final

from gateway.domain.dialect import DialectName
from gateway.domain.upstream import Capabilities
from gateway.settings import LimitSettings, UpstreamSettings
from gateway.upstreams.openai import OpenAIUpstream

ADDRESS: Final = "https://api.anthropic.com/v1"
VERSION_HEADER: Final = "anthropic-version"
NATIVE: Final[frozenset[DialectName]] = frozenset({"messages"})


class AnthropicUpstream(OpenAIUpstream):
    """One account at Anthropic, or an endpoint that speaks Messages like it."""

    models_path = "/models?limit=1000"

    def __init__(self, name: str, settings: UpstreamSettings, limits: LimitSettings) -> None:
        address = settings.base_url or ADDRESS
        super().__init__(name, settings.model_copy(update={"base_url": address}), limits)
        self.capabilities = Capabilities(
            tools=settings.tools,
            system_anywhere=settings.system_anywhere is True,
            developer=settings.developer is not False,  # translations write system instead
            cache_marker=True,
            dialects=NATIVE,
            max_tokens=settings.max_tokens,
        )

    @staticmethod
    def get_default_header(settings: UpstreamSettings) -> tuple[str, str]:
        return (VERSION_HEADER, settings.version)

    async def list_models(self, bearer: str | None = None) -> list[dict[str, Any]]:
        return [describe_model(card) for card in await super().list_models(bearer)]


def describe_model(card: dict[str, Any]) -> dict[str, Any]:
    """A card of Anthropic's in OpenAI's words."""
    try:
        created = int(datetime.fromisoformat(str(card.get("created_at"))).timestamp())
    except (ValueError, OverflowError):
        created = 0
    return {**card, "created": created, "owned_by": "anthropic"}
