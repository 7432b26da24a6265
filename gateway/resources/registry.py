"""The known resource types. Built-ins and plugins share one entry-point group."""

from collections.abc import Iterable, Sequence
from importlib.metadata import EntryPoint

from gateway.plugins import PLUGIN_ERRORS, list_plugins
from gateway.resources.base import ResourceType
from gateway.resources.brand_voice import BrandVoiceType
from gateway.resources.document import DocumentType
from gateway.resources.external_link import ExternalLinkType
from gateway.resources.glossary import GlossaryType
from gateway.resources.http_tool import HttpToolType
from gateway.resources.mcp_server import McpServerType
from gateway.resources.retriever import RetrieverType
from gateway.resources.text import TextType

PREFIX = "resource-"  # the group contains other extension points too

# As in pyproject; a source tree that was never installed has no entry points of its own.
BUILT_IN: tuple[type[ResourceType], ...] = (
    BrandVoiceType,
    TextType,
    DocumentType,
    ExternalLinkType,
    GlossaryType,
    McpServerType,
    HttpToolType,
    RetrieverType,
)

DECLARED = ("alias", "name", "description", "data")  # what every type says about itself


class ResourceRegistry:
    """Resource types by alias."""

    def __init__(self, types: Iterable[ResourceType]) -> None:
        self._types: dict[str, ResourceType] = {}
        for entry in types:
            if entry.alias in self._types:
                raise ValueError(
                    f"two resource types have the alias {entry.alias!r}: {self._types[entry.alias]!r}, {entry!r}"
                )
            faults = [] if entry.console is None else list(entry.console.list_faults(entry.alias))
            if faults:
                raise ValueError(f"the console's files of the resource type {entry.alias!r}: {'; '.join(faults)}")
            self._types[entry.alias] = entry

    def get(self, alias: str) -> ResourceType | None:
        return self._types.get(alias)

    def list_aliases(self) -> tuple[str, ...]:
        return tuple(self._types)


def load_registry(exclude: Sequence[str] = ()) -> ResourceRegistry:
    """Built-ins first, then plugins by name, without the types in `exclude`."""
    loaded = [_load_plugin(point) for point in list_plugins(PREFIX)]
    types = dict.fromkeys([*BUILT_IN, *loaded])  # a built-in that is also an entry point counts once
    unknown = set(exclude) - {kind.alias for kind in types}
    if unknown:
        raise ValueError(f"unknown resource types to exclude: {', '.join(sorted(unknown))}")
    return ResourceRegistry(kind() for kind in types if kind.alias not in exclude)


def _load_plugin(point: EntryPoint) -> type[ResourceType]:
    try:
        kind = point.load()
    except PLUGIN_ERRORS as error:
        raise ValueError(f"plugin {point.name!r} ({point.value}) cannot be loaded: {error}") from error
    if not (isinstance(kind, type) and issubclass(kind, ResourceType)):
        raise ValueError(f"plugin {point.name!r} ({point.value}) is not a ResourceType")
    missing = [name for name in DECLARED if not hasattr(kind, name)]
    if missing:
        raise ValueError(f"plugin {point.name!r} ({point.value}) does not declare {', '.join(missing)}")
    return kind
