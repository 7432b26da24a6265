"""What a collector is asked and what it finds: texts for one request, which nobody else's request shares."""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, ClassVar, Protocol

import msgspec

from gateway.domain.principal import Principal
from gateway.domain.resource import Mode
from gateway.domain.retriever import NO_RETRIEVERS, ScopeRetrievers
from gateway.domain.scope import Scope
from gateway.domain.search import Query, Question, SearchResult
from gateway.domain.snapshot import Snapshot


class Category(StrEnum):
    """What tokens are spent on."""

    ALWAYS = "always"
    NAMED = "named"  # by the request or the session
    TOOLS = "tools"  # the schemas of our tools
    CATALOGUE = "catalogue"
    FOCUS = "focus"
    SEMANTIC = "semantic"
    RELATIONS = "relations"
    ACTIVITY = "activity"
    KNOWLEDGE = "knowledge"
    TASK = "task"  # what a recipe asks for
    ITEMS = "items"
    FRAME = "frame"  # markers around blocks


class CollectorScope(msgspec.Struct, frozen=True):
    """What decides whether a collector has anything to do, looked at once per scope and not per request.

    Requests of different users, sessions and questions share one, so only what is in the scope's key (`make_scope_key`)
    may be looked at, such as agent, profile, prompt, node and readers.
    """

    workspace: str
    scope: Scope
    snapshot: Snapshot
    # Of the resources in the contexts that apply, whoever may read them; where the tools cannot be called, what is on
    # demand counts as semantic.
    modes: frozenset[Mode]
    types: frozenset[str]  # the same for resource types
    options: Any  # the collector's checked options


class CollectorOrder(msgspec.Struct):
    """What a collector is asked."""

    workspace: str
    principal: Principal  # with the tier of its key
    readers: frozenset[str]  # every identity of the caller; check it before anything is ranked
    scope: Scope
    snapshot: Snapshot
    question: Question | None  # None: the user has said nothing
    query: Query  # the question, split into sentences
    searchable: tuple[str, ...]  # ids of the resources that semantic search may pick from
    options: Any
    room: int  # tokens that its category can spend at most
    seconds: float  # after which it is left out
    read_messages: Callable[[], Sequence[str]] = list  # the texts of the user's messages
    retrievers: ScopeRetrievers = NO_RETRIEVERS  # that the caller may read

    @property
    def user(self) -> str:
        """Whose preferences count: those of the user that the key acts for, else the key's own."""
        return self.scope.request.user or self.principal.name

    @property
    def actor(self) -> str:
        """Whose activity counts."""
        return self.principal.name_actor(self.scope.request.user)


class FoundPart(msgspec.Struct):
    """One of the things that the text of an item is about."""

    id: str
    type: str
    title: str
    score: float


class ShrinkableText(Protocol):
    """A text that is not cut at its sentences: it knows itself what to leave out."""

    def shrink(self, count: Callable[[str], int], limit: int, whole: int = 0) -> "FoundItem | None":
        """The longest form whose text has at most `limit` tokens, a part of every longer one; None if there is none.

        `whole` is about what all of it would take, if that is known.
        """
        ...


class FoundItem(msgspec.Struct):
    """A text that a collector proposes for this one request."""

    id: str  # of a node, entity or passage; what hints include and exclude
    kind: str  # "node", "entity", "passage" …
    type: str  # page, task, person …
    title: str
    text: str
    score: float  # 0..1, comparable within a category
    why: str  # one sentence for a person
    via: str = ""  # the collector's name if empty
    breadcrumb: tuple[str, ...] = ()  # titles from the root down to its parent
    modified: float | None = None  # seconds since 1970
    distance: int | None = None  # steps in the tree from the focus
    affinity: float | None = None  # how much the user has to do with it, 0..1
    source: str = ""  # where a passage is from
    origin: str = ""  # id of the resource that found it
    truncate: str = "extractive"  # "keep_start", "keep_end", "summarize" or "none" too
    required: bool = False  # never left out by the budget
    layer: int | None = None  # its place in a recipe: lower ones come first, whatever their score
    stated: bool = False  # the request itself contains it, so that it is left out
    max_tokens: int | None = None  # that it may take however much room there is
    shrinkable: ShrinkableText | None = None  # in place of `truncate`
    parts: tuple[FoundPart, ...] = ()  # the best first
    counts: Mapping[str, int] = msgspec.field(default_factory=dict)  # of what is in it, for receipts


class Findings(msgspec.Struct):
    """What one collector found."""

    items: tuple[FoundItem, ...] = ()
    considered: int = 0  # what it looked at and the caller may read
    search: SearchResult | None = None  # picks among the scope's own resources
    degraded: str | None = None  # a word of CONTRACT §5.1 if something was missing
    total_available: int | None = None  # of which `items` are the best; None: it does not say
    truncated: bool = False  # its own limits kept something out
    unread: int = 0  # nodes that were not read: the texts of all together are too large
    note: str = ""  # stands in its section where there is nothing to show: "No entities found."
    counts: Mapping[str, int] = msgspec.field(default_factory=dict)  # for receipts: entities, relationships, axioms
    missed: Mapping[str, str] = msgspec.field(default_factory=dict)  # ids of retrievers that did not answer, and why
    complete: bool = True  # False: the same question may find more later, so that nobody keeps it


NO_FINDINGS = Findings()  # of a collector that had nothing to look for: its section does not speak of it


class CollectorOutcome(msgspec.Struct):
    """How one collector did for a request."""

    name: str
    category: Category
    findings: Findings
    failure: str | None = None  # "late" or "failed": it was left out


class CollectorReport(msgspec.Struct):
    """What is told about a collector in previews and receipts."""

    name: str
    category: Category
    considered: int = 0
    included: int = 0  # of what it found
    failure: str | None = None
    total_available: int | None = None
    truncated: bool = False
    note: str = ""
    counts: Mapping[str, int] = msgspec.field(default_factory=dict)


class Collector(Protocol):
    """Proposes texts for a request. Concurrent with others, under one deadline; a late or failing one is left out."""

    name: ClassVar[str]
    category: ClassVar[Category]
    priority: ClassVar[int]  # a lower number comes first among collectors of a category
    degraded: ClassVar[str]  # the word of CONTRACT §5.1 that stands for its failure
    shared: ClassVar[bool]  # it finds the same for all who share candidates, query and selection settings
    options: ClassVar[type[Any]]  # a pydantic model with `extra="forbid"`: limits and settings, all with defaults

    def applies(self, scope: CollectorScope) -> bool:
        """Whether it could find anything for requests of this scope; asked once per scope."""
        ...

    async def collect(self, order: CollectorOrder) -> Findings:
        """What it finds; it may raise and take as long as it likes, but nobody waits beyond the deadline."""
        ...
