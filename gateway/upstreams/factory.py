"""The upstreams of a configuration; only the kinds that it names are loaded."""

from gateway.domain.upstream import Upstream
from gateway.settings import Settings, UpstreamSettings


def build_upstreams(settings: Settings) -> dict[str, Upstream]:
    """One object per upstream, by name; those without a key too, which routes leave out."""
    return {name: build_upstream(name, upstream, settings) for name, upstream in settings.upstreams.items()}


def build_upstream(name: str, upstream: UpstreamSettings, settings: Settings) -> Upstream:
    match upstream.kind:
        case "openai":
            from gateway.upstreams.openai import OpenAIUpstream

            return OpenAIUpstream(name, upstream, settings.limits)
        case "anthropic":
            from gateway.upstreams.anthropic import AnthropicUpstream

            return AnthropicUpstream(name, upstream, settings.limits)
        case "litellm":
            from gateway.upstreams.litellm.upstream import LitellmUpstream

            return LitellmUpstream(name, upstream)
        case "demo":
            from gateway.upstreams.demo.upstream import DemoUpstream

            return DemoUpstream(name)
