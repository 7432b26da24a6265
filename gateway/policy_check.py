"""Policies as a gateway with these settings would load them, without running one."""

from collections.abc import Iterator
from pathlib import Path

from gateway.collectors.registry import CollectorClasses, get_option_models, load_collectors
from gateway.domain.name_pattern import matches_pattern
from gateway.domain.snapshot import Snapshot
from gateway.domain.summary import SUMMARIZE
from gateway.errors import Fault, Faults
from gateway.extraction.extract import DocumentCache
from gateway.links.cache import LinkCache
from gateway.policies.context_compiler import PolicySource
from gateway.policies.file_policies import load_snapshot
from gateway.policies.materials import Materials, PolicyMaterials
from gateway.resources.registry import ResourceRegistry, load_registry
from gateway.retrievers.service import Retrievers, open_retrievers
from gateway.settings import Settings
from gateway.stores.memory_ephemeral import MemoryEphemeralStore
from gateway.tools.servers import ToolServers


def load_type_registry(settings: Settings) -> ResourceRegistry:
    try:
        return load_registry(settings.resources.exclude)
    except ValueError as error:
        raise Faults([Fault("config", 1, "resources", str(error))]) from error


def make_policy_source(
    settings: Settings, classes: CollectorClasses, materials: Materials, servers: ToolServers, retrievers: Retrievers
) -> PolicySource:
    """What policies are compiled from; raises Faults for resource types that cannot be used."""
    return PolicySource(
        Path(settings.policies),
        load_type_registry(settings),
        materials,
        servers,
        collectors=get_option_models(classes),
        retrievers=retrievers,
    )


def list_summary_warnings(settings: Settings, snapshot: Snapshot) -> Iterator[str]:
    """A sentence for what policies want to have summarized, if nobody can do it."""
    resources = [one.id for one in snapshot.resources.values() if one.truncate == SUMMARIZE]
    layers = (layer for recipe in snapshot.recipes.values() for layer in recipe.layers)
    if not resources and not any(layer.truncate == SUMMARIZE for layer in layers):
        return
    model, which = settings.summaries.model, resources[0] if resources else "a recipe"
    more = f" and {len(resources) - 1} more" if len(resources) > 1 else ""
    if model is None:
        reason = "no model is configured under `summaries`"
    elif not any(matches_pattern(route.model, model) for route in settings.routes):
        reason = f"no route leads to the model {model!r} of `summaries`"
    else:
        return
    yield f"{which}{more}: `truncate: summarize` works as `extractive`, because {reason}"


def check_policies(settings: Settings) -> Snapshot:
    """The snapshot that the policies give; raises Faults. Links stay unfetched."""
    links = LinkCache(MemoryEphemeralStore(), settings.links)
    materials, servers = PolicyMaterials(DocumentCache(settings.documents), links), ToolServers(settings.tool_servers)
    classes, retrievers = load_collectors(settings.collectors), open_retrievers(settings, servers.guard)
    return load_snapshot(make_policy_source(settings, classes, materials, servers, retrievers), 1)
