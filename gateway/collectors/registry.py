"""The known collectors and who uses which. Built-ins and plugins share one entry-point group."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from importlib.metadata import EntryPoint
from typing import Any, NamedTuple, Protocol, Self

import msgspec
from pydantic import BaseModel, ConfigDict, ValidationError

from gateway.collector_settings import CollectorSection
from gateway.domain.agent import CollectorSettings
from gateway.domain.collector import Category, Collector, CollectorScope
from gateway.domain.content import ContentReader
from gateway.domain.resource import Mode
from gateway.domain.scope import Scope
from gateway.domain.snapshot import Snapshot
from gateway.errors import Fault, Faults
from gateway.knowledge.service import KnowledgeService
from gateway.plugins import GROUP, PLUGIN_ERRORS, list_plugins
from gateway.retrievers.service import Retrievers
from gateway.semantic.node_search import NodeSearch
from gateway.semantic.searcher import SemanticSearcher
from gateway.validation import format_suggestion

SEMANTIC = "semantic"  # the collector that searches among the resources of a scope
PREFIX = "collector-"  # the group contains other extension points too
# As in pyproject; a source tree that was never installed has no entry points of its own.
BUILT_IN: Mapping[str, str] = {
    "collector-semantic": "gateway.collectors.semantic:SemanticCollector",
    "collector-retrievers": "gateway.collectors.retrievers:RetrieverCollector",
    "collector-recipe": "gateway.collectors.recipe:RecipeCollector",
    "collector-world": "gateway.collectors.world:WorldCollector",
    "collector-focus": "gateway.collectors.focus:FocusCollector",
    "collector-included": "gateway.collectors.included:IncludedCollector",
    "collector-preferences": "gateway.collectors.preferences:PreferenceCollector",
    "collector-nodes": "gateway.collectors.node_search:NodeCollector",
    "collector-relations": "gateway.collectors.relations:RelationCollector",
    "collector-activity": "gateway.collectors.activity:ActivityCollector",
    "collector-knowledge": "gateway.collectors.knowledge:KnowledgeCollector",
}
FACTS = ("name", "category", "priority", "degraded", "shared", "options")
DEGRADED_WORDS = frozenset({"content", "graph", "links", "mcp", "models", "receipt", "semantic", "session", "store"})
UNSET = CollectorSettings()


class NoOptions(BaseModel):
    """The options of a collector that has none; the base of those that have some."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class CollectorParts(msgspec.Struct, frozen=True):
    """What a collector may be made of; a part that is None is not configured."""

    searcher: SemanticSearcher | None = None
    content: ContentReader | None = None
    nodes: NodeSearch | None = None
    knowledge: KnowledgeService | None = None
    retrievers: Retrievers | None = None


class CollectorPlugin(Collector, Protocol):
    """What an entry point names: a class of collectors."""

    @classmethod
    def open(cls, parts: CollectorParts) -> Self | None:
        """A collector of this class; None if what it needs is not configured."""
        ...


class OptionFault(NamedTuple):
    """Where the configuration of a collector is wrong, and how."""

    path: str
    message: str


class AppliedCollector(msgspec.Struct, frozen=True):
    """A collector that has something to do for a scope."""

    collector: Collector
    options: Any
    priority: int
    said: str  # the options as text, to tell them apart

    @classmethod
    def make(cls, collector: Collector, settings: CollectorSettings) -> Self:
        """A collector as it is set."""
        options = collector.options(**settings.options)
        priority = collector.priority if settings.priority is None else settings.priority
        return cls(collector, options, priority, repr(options))


class ScopeCollectors(msgspec.Struct, frozen=True):
    """The collectors of a scope, by priority."""

    applied: tuple[AppliedCollector, ...] = ()
    shared: bool = True  # all of them find the same for everyone
    key: Hashable = ()  # tells apart scopes whose shared collectors are set differently

    @property
    def categories(self) -> frozenset[Category]:
        return frozenset(one.collector.category for one in self.applied)

    @property
    def searches(self) -> bool:
        """Whether resources of the scope are searched."""
        return any(one.collector.name == SEMANTIC for one in self.applied)

    def drop(self, name: str) -> "ScopeCollectors":
        """Without one that turns out to have nothing to do."""
        if all(one.collector.name != name for one in self.applied):
            return self
        return make_scope_collectors([one for one in self.applied if one.collector.name != name])

    def drop_shared(self) -> "ScopeCollectors":
        """Without those that only look for resources of the scope: there are none."""
        return make_scope_collectors([one for one in self.applied if not one.collector.shared])


NO_COLLECTORS = ScopeCollectors()


def make_scope_collectors(applied: Sequence[AppliedCollector]) -> ScopeCollectors:
    if not applied:
        return NO_COLLECTORS
    key = tuple((one.collector.name, one.said) for one in applied)
    return ScopeCollectors(tuple(applied), all(one.collector.shared for one in applied), key)


Levels = Mapping[str, CollectorSettings]  # by the collector's name


class CollectorRegistry(msgspec.Struct, frozen=True, eq=False, dict=True):
    """Every collector that is configured, and what the configuration says about it."""

    collectors: tuple[Collector, ...] = ()
    configured: Levels = msgspec.field(default_factory=dict)
    workspaces: Mapping[str, Levels] = msgspec.field(default_factory=dict)

    @cached_property
    def _known(self) -> dict[tuple[str, str], AppliedCollector | None]:
        """By name and configured workspace, where no agent says otherwise; None: it is not enabled."""
        return {}

    def choose(
        self,
        workspace: str,
        scope: Scope,
        snapshot: Snapshot,
        contexts: Iterable[str] = (),
        *,
        fetchable: bool = True,
    ) -> ScopeCollectors:
        """The collectors that have something to do for a scope to which these contexts apply.

        Without `fetchable` the tools cannot be called: what is on demand is then searched for like what is semantic.
        """
        if not (self.collectors and scope.request.inject):
            return NO_COLLECTORS
        traits = [snapshot.get_traits(alias) for alias in dict.fromkeys(contexts)]
        modes = frozenset(mode for one in traits for mode in one.modes)
        modes |= {Mode.SEMANTIC} if Mode.ON_DEMAND in modes and not fetchable else set()
        types = frozenset(kind for one in traits for kind in one.types)
        applied = []
        for collector in self.collectors:
            # Whoever does not take part gets what is mandatory, and nothing that others find.
            if not (scope.takes_part or collector.shared):
                continue
            one = self._configure(collector, workspace, scope)
            if one is not None and collector.applies(
                CollectorScope(workspace, scope, snapshot, modes, types, one.options)
            ):
                applied.append(one)
        return make_scope_collectors(sorted(applied, key=lambda one: one.priority))  # stable

    def _configure(self, collector: Collector, workspace: str, scope: Scope) -> AppliedCollector | None:
        """A collector as it is set for a scope; None: it is not enabled. What no agent says is looked at once."""
        name = collector.name
        key = (name, workspace if workspace in self.workspaces else "")
        shared = scope.agent is None or name not in scope.agent.collectors
        if shared and key in self._known:
            return self._known[key]
        settings = self.resolve(name, workspace, scope)
        made = None if settings.enabled is False else AppliedCollector.make(collector, settings)
        if shared:
            self._known[key] = made
        return made

    def resolve(self, name: str, workspace: str, scope: Scope) -> CollectorSettings:
        """What agent, workspace and configuration say about a collector, the narrowest first."""
        own = scope.agent.collectors.get(name, UNSET) if scope.agent is not None else UNSET
        here = self.workspaces.get(workspace, {}).get(name, UNSET)
        return own.override(here).override(self.configured.get(name, UNSET))


CollectorClasses = Mapping[str, type[CollectorPlugin]]  # by name


def load_collector_classes() -> dict[str, type[CollectorPlugin]]:
    """The classes of the built-ins, then of plugins by name; raises ValueError for one that cannot be used."""
    points = {name: EntryPoint(name, value, GROUP) for name, value in BUILT_IN.items()}
    points |= {one.name: one for one in list_plugins(PREFIX) if one.name not in BUILT_IN}
    classes: dict[str, type[CollectorPlugin]] = {}
    for point in points.values():
        found = load_collector_class(point)
        if found.name in classes:
            raise ValueError(f"two collectors have the name {found.name!r}; the second is {point.value}")
        classes[found.name] = found
    return classes


def load_collectors(configured: Mapping[str, CollectorSection]) -> dict[str, type[CollectorPlugin]]:
    """The classes of collectors by name; raises Faults if one cannot be used or is configured wrongly."""
    try:
        classes = load_collector_classes()
    except ValueError as error:
        raise Faults([Fault("config", 1, "collectors", str(error))]) from error
    wrong = [Fault("config", 1, path, message) for path, message in find_option_faults(classes, configured)]
    if wrong:
        raise Faults(wrong)
    return classes


def load_collector_class(point: EntryPoint) -> type[CollectorPlugin]:
    where = f"plugin {point.name!r} ({point.value})"
    try:
        found: Any = point.load()
    except PLUGIN_ERRORS as error:
        raise ValueError(f"{where} cannot be loaded: {error}") from error
    missing = [name for name in (*FACTS, "open", "applies", "collect") if not hasattr(found, name)]
    if not isinstance(found, type) or missing:
        lacks = f", it lacks {', '.join(missing)}" if missing else ""
        raise ValueError(f"{where} is not a collector{lacks}")
    plugin: type[CollectorPlugin] = found
    if not isinstance(plugin.category, Category) or plugin.degraded not in DEGRADED_WORDS:
        raise ValueError(f"{where} needs a `category` and one of {', '.join(sorted(DEGRADED_WORDS))} as `degraded`")
    return plugin


def open_collectors(
    classes: Iterable[type[CollectorPlugin]], parts: CollectorParts, configured: Mapping[str, CollectorSection]
) -> CollectorRegistry:
    """The collectors whose parts are there."""
    opened = (one.open(parts) for one in classes)
    workspaces: dict[str, dict[str, CollectorSettings]] = {}
    for name, section in configured.items():
        for workspace, own in section.workspaces.items():
            workspaces.setdefault(workspace, {})[name] = own.to_settings()
    everywhere = {name: section.to_settings() for name, section in configured.items()}
    return CollectorRegistry(tuple(one for one in opened if one is not None), everywhere, workspaces)


def get_option_models(classes: CollectorClasses) -> dict[str, type[BaseModel]]:
    """What the options of each collector are checked against."""
    return {name: one.options for name, one in classes.items()}


def find_option_faults(
    classes: Mapping[str, type[CollectorPlugin]], configured: Mapping[str, CollectorSection]
) -> Iterator[OptionFault]:
    """What is wrong with the configured options."""
    for name, section in configured.items():
        if name not in classes:
            yield OptionFault(f"collectors.{name}", f"no collector has this name{format_suggestion(name, classes)}")
            continue
        levels = {f"collectors.{name}": section.to_settings()}
        levels |= {f"collectors.{name}.workspaces.{one}": own.to_settings() for one, own in section.workspaces.items()}
        for path, settings in levels.items():
            try:
                classes[name].options.model_validate(settings.options)
            except ValidationError as error:
                for detail in error.errors(include_url=False, include_input=False):
                    yield OptionFault(".".join([path, *map(str, detail["loc"])]), detail["msg"])
