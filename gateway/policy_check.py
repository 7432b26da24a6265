"""Policies as a gateway with these settings would load them, without running one."""

from pathlib import Path

from gateway.collectors.registry import get_option_models, load_collectors
from gateway.domain.snapshot import Snapshot
from gateway.errors import Fault, Faults
from gateway.extraction.extract import DocumentCache
from gateway.links.cache import LinkCache
from gateway.policies.file_policies import load_policies
from gateway.policies.materials import PolicyMaterials
from gateway.resources.registry import ResourceRegistry, load_registry
from gateway.settings import Settings
from gateway.stores.memory_ephemeral import MemoryEphemeralStore
from gateway.tools.servers import ToolServers


def load_type_registry(settings: Settings) -> ResourceRegistry:
    try:
        return load_registry(settings.resources.exclude)
    except ValueError as error:
        raise Faults([Fault("config", 1, "resources", str(error))]) from error


def check_policies(settings: Settings) -> Snapshot:
    """The snapshot that the policies give; raises Faults. Links stay unfetched."""
    links = LinkCache(MemoryEphemeralStore(), settings.links)
    materials, servers = PolicyMaterials(DocumentCache(settings.documents), links), ToolServers(settings.tool_servers)
    options, registry = get_option_models(load_collectors(settings.collectors)), load_type_registry(settings)
    return load_policies(Path(settings.policies), registry, materials, 1, servers, options)
