"""The upstreams of a configuration."""

from gateway.domain.upstream import Upstream
from gateway.settings import Settings
from gateway.upstreams.anthropic import AnthropicUpstream
from gateway.upstreams.demo.upstream import DemoUpstream
from gateway.upstreams.litellm.upstream import LitellmUpstream
from gateway.upstreams.openai import OpenAIUpstream


def build_upstreams(settings: Settings) -> dict[str, Upstream]:
    """One object per upstream, by name; those without a key too, which routes leave out."""
    built: dict[str, Upstream] = {}
    for name, upstream in settings.upstreams.items():
        match upstream.kind:
            case "openai":
                built[name] = OpenAIUpstream(name, upstream, settings.limits)
            case "anthropic":
                built[name] = AnthropicUpstream(name, upstream, settings.limits)
            case "litellm":
                built[name] = LitellmUpstream(name, upstream)
            case "demo":
                built[name] = DemoUpstream(name)
    return built
