"""The known resource types. Built-ins and plugins come in through one entry-point group."""

from collections.abc import Iterable, Sequence
from importlib.metadata import EntryPoint, entry_points

from gateway.resources.base import ResourceType
from gateway.resources.brand_voice import BrandVoiceType
from gateway.resources.document import DocumentType
from gateway.resources.external_link import ExternalLinkType
from gateway.resources.glossary import GlossaryType
from gateway.resources.text import TextType

GROUP = "gateway.plugins"
PREFIX = "resource-"  # the group serves other extension points too

# What pyproject lists; a source tree that was never installed has no entry points of its own.
BUILT_IN: tuple[type[ResourceType], ...] = (BrandVoiceType, TextType, DocumentType, ExternalLinkType, GlossaryType)

# What running somebody else's module may reasonably raise.
BROKEN = (
    ImportError,
    AttributeError,
    SyntaxError,
    NameError,
    TypeError,
    ValueError,
    LookupError,
    RuntimeError,
    OSError,
)


class Registry:
    """Resource types by alias."""

    def __init__(self, types: Iterable[ResourceType]) -> None:
        self._types: dict[str, ResourceType] = {}
        for entry in types:
            if entry.alias in self._types:
                raise ValueError(
                    f"two resource types are called {entry.alias!r}: {self._types[entry.alias]!r}, {entry!r}"
                )
            self._types[entry.alias] = entry

    def get(self, alias: str) -> ResourceType | None:
        return self._types.get(alias)

    def aliases(self) -> tuple[str, ...]:
        return tuple(self._types)


def default_registry(exclude: Sequence[str] = ()) -> Registry:
    """Built-ins first, then plugins by name; types named in `exclude` do not exist."""
    points = sorted(entry_points(group=GROUP), key=lambda point: point.name)
    loaded = [_load(point) for point in points if point.name.startswith(PREFIX)]
    types = dict.fromkeys([*BUILT_IN, *loaded])  # a built-in that entry points deliver too counts once
    unknown = set(exclude) - {kind.alias for kind in types}
    if unknown:
        raise ValueError(f"no resource type to exclude is called {', '.join(sorted(unknown))}")
    return Registry(kind() for kind in types if kind.alias not in exclude)


def _load(point: EntryPoint) -> type[ResourceType]:
    try:
        kind = point.load()
    except BROKEN as error:
        raise ValueError(f"plugin {point.name!r} ({point.value}) cannot be loaded: {error}") from error
    if not (isinstance(kind, type) and issubclass(kind, ResourceType)):
        raise ValueError(f"plugin {point.name!r} ({point.value}) is not a ResourceType")
    return kind
