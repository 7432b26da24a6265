"""The site of a gateway, made of its parts; loaded once the gateway listens (`gateway/late_modules.py`)."""

from collections.abc import Callable

from starlette.applications import Starlette
from starlette.types import ASGIApp

from gateway.edge.console import ConsoleEndpoint
from gateway.edge.health import HealthEndpoint
from gateway.edge.models import ModelsEndpoint
from gateway.edge.passthrough import PassthroughEndpoint, PassthroughPaths
from gateway.edge.passthrough_rights import PassthroughRights
from gateway.edge.plugin_files import PluginFiles
from gateway.edge.site import SiteApps, build_site
from gateway.edge.stored_responses import StoredResponsesEndpoint
from gateway.parts import GatewayParts


def compose_site(
    gateway: GatewayParts, draining: Callable[[], bool], management: ASGIApp, mcp: ASGIApp | None
) -> Starlette:
    """Everything but chat; `mcp` is None if it is switched off."""
    settings, policies, pipeline, limiter = gateway.settings, gateway.policies, gateway.pipeline, gateway.limiter
    paths, rights = PassthroughPaths(settings.passthrough), PassthroughRights(policies, pipeline.objects)
    return build_site(
        access=gateway.access,
        health=HealthEndpoint(
            policies, lambda: gateway.store.ok, draining, gateway.jobs.describe, gateway.access.is_from_admin
        ),
        metrics=gateway.metrics,
        models=ModelsEndpoint(gateway.list_enabled(), policies, default=settings.defaults.model, limiter=limiter),
        apps=SiteApps(
            PassthroughEndpoint(gateway.routes, paths, limiter, settings.limits, rights, gateway.access.streams),
            management,
            ConsoleEndpoint(plugins=PluginFiles(gateway.types)) if settings.console else None,
            mcp,
            StoredResponsesEndpoint(pipeline.responses, gateway.routes, limiter),
        ),
    )
