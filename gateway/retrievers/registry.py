"""The known kinds of retrievers. The built-in one and plugins share one entry-point group."""

from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint
from typing import Any, ClassVar, Protocol, Self

import msgspec
from pydantic import BaseModel

from gateway.domain.retriever import FoundPassage
from gateway.errors import Fault, Faults
from gateway.links.guard import LinkGuard
from gateway.plugins import GROUP, PLUGIN_ERRORS, list_plugins
from gateway.settings_sections import RetrieverSettings

PREFIX = "retriever-"  # the group contains other extension points too
# As in pyproject; a source tree that was never installed has no entry points of its own.
BUILT_IN: Mapping[str, str] = {"retriever-http": "gateway.retrievers.http_retriever:HttpRetriever"}
DECLARED = ("name", "options", "open", "search")


class RetrieverParts(msgspec.Struct, frozen=True):
    """What a retriever may use."""

    workspace: str  # whose questions it is asked
    guard: LinkGuard = msgspec.field(default_factory=LinkGuard)  # admits addresses that a policy names
    endpoints: Mapping[str, RetrieverSettings] = msgspec.field(default_factory=dict)  # of the configuration


class RetrieverPlugin(Protocol):
    """What an entry point names: a class of retrievers."""

    name: ClassVar[str]
    options: ClassVar[type[BaseModel]]  # with `extra="forbid"`: what a policy may say

    @classmethod
    def open(cls, options: Any, parts: RetrieverParts) -> Self:
        """A retriever with checked options, which is kept as long as there is room; it must be cheap to make."""
        ...

    async def search(self, question: str, limit: int) -> Sequence[FoundPassage]:
        """At most `limit` passages, best first; it may raise, and is cancelled when it takes too long."""
        ...


RetrieverClasses = Mapping[str, type[RetrieverPlugin]]  # by name


def load_retrievers() -> RetrieverClasses:
    """The built-in class, then those of plugins by name; raises Faults for one that cannot be used."""
    points = {name: EntryPoint(name, value, GROUP) for name, value in BUILT_IN.items()}
    points |= {one.name: one for one in list_plugins(PREFIX) if one.name not in BUILT_IN}
    classes: dict[str, type[RetrieverPlugin]] = {}
    try:
        for point in points.values():
            found = load_retriever_class(point)
            if found.name in classes:
                raise ValueError(f"two retrievers have the name {found.name!r}; the second is {point.value}")
            classes[found.name] = found
    except ValueError as error:
        raise Faults([Fault("config", 1, "retrievers", str(error))]) from error
    return classes


def load_retriever_class(point: EntryPoint) -> type[RetrieverPlugin]:
    where = f"plugin {point.name!r} ({point.value})"
    try:
        found: Any = point.load()
    except PLUGIN_ERRORS as error:
        raise ValueError(f"{where} cannot be loaded: {error}") from error
    missing = [name for name in DECLARED if not hasattr(found, name)]
    if not isinstance(found, type) or missing:
        lacks = f", it lacks {', '.join(missing)}" if missing else ""
        raise ValueError(f"{where} is not a retriever{lacks}")
    plugin: type[RetrieverPlugin] = found
    return plugin
