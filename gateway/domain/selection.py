"""What is injected, offered or dropped, each with its reason."""

from collections.abc import Iterable
from itertools import chain

import msgspec
from msgspec.structs import replace

from gateway.domain.candidate import Assignment, Candidate
from gateway.domain.collector import Category, CollectorReport, FoundItem
from gateway.domain.scope import RequestItem
from gateway.domain.session import StickyPick

NOT_IN_SCOPE = frozenset({"language", "excluded", "overridden"})  # reasons to leave out what no budget would bring back


class PlacedResource(msgspec.Struct):
    """A resource whose text goes into the request."""

    candidate: Candidate
    text: str
    tokens: int
    truncated: bool = False
    category: Category = Category.ALWAYS  # that paid for it
    summarized: bool = False  # truncated, by a model that wrote a summary of it


class Omission(msgspec.Struct):
    """A resource whose text is not placed, and why: offered through the tools or dropped."""

    candidate: Candidate
    reason: str | None = None  # over_budget, below_threshold, language, excluded, overridden, late, no_tools


class Notice(msgspec.Struct):
    """Something a person should know about a selection that was made all the same."""

    code: str
    category: str
    message: str


class CatalogueView(msgspec.Struct, frozen=True):
    """How many entries of the catalogue the model sees, and how many of them with their descriptions."""

    listed: int
    described: int
    told: bool = True  # False: not even that there are any


class CategoryCost(msgspec.Struct):
    """Tokens besides those of placed resources: schemas, catalogue, markers, items."""

    category: Category
    tokens: int


class SectionNote(msgspec.Struct):
    """What a section says in which nothing is placed."""

    category: Category
    text: str


NO_VIEW = CatalogueView(0, 0, told=False)


class Selection(msgspec.Struct):
    """The outcome for one request."""

    stable: tuple[PlacedResource, ...] = ()  # the same from turn to turn
    volatile: tuple[PlacedResource, ...] = ()  # depends on the question
    items: tuple[RequestItem, ...] = ()  # text given by the caller, part of the volatile block
    tools: tuple[PlacedResource, ...] = ()  # tools of servers and endpoints that are registered
    waiting: tuple[Omission, ...] = ()  # tools that another question, the caller or another tool may bring
    catalogue: tuple[Omission, ...] = ()  # reachable through the tools
    fetches: bool = False  # the two tools are registered: for the catalogue, or for nodes
    dropped: tuple[Omission, ...] = ()
    sources: tuple[Assignment, ...] = ()
    budget: int = 0
    warnings: tuple[Notice, ...] = ()
    degraded: frozenset[str] = frozenset()
    collectors: tuple[CollectorReport, ...] = ()  # on those that ran for it
    view: CatalogueView = NO_VIEW
    costs: tuple[CategoryCost, ...] = ()
    notes: tuple[SectionNote, ...] = ()  # of sections in which nothing is placed
    saved: int = 0  # tokens by which the texts of the volatile block cost less than their prices where they stand

    @property
    def tokens(self) -> dict[str, int]:
        """All that is added to the request, by category."""
        sums: dict[str, int] = {}
        spent: Iterable[PlacedResource | CategoryCost] = (*self.stable, *self.volatile, *self.tools, *self.costs)
        for one in spent:
            name = one.category.value
            sums[name] = sums.get(name, 0) + one.tokens
        if self.saved:
            sums[Category.FRAME.value] -= self.saved
        return sums

    def count_tokens(self) -> int:
        """All that is added to the request."""
        placed = sum(one.tokens for one in chain(self.stable, self.volatile, self.tools))
        return placed + sum(one.tokens for one in self.costs) - self.saved

    def attribute(self, candidate: Candidate) -> Candidate:
        """The candidate with the entity that brought it; candidates themselves serve every scope with its contexts."""
        for source in self.sources:
            if source.level is candidate.level and source.context == candidate.resource.context:
                why = candidate.why or f"assigned to {source.level} {source.entity}"
                return replace(candidate, entity=candidate.entity or source.entity, why=why)
        return candidate

    def list_reachable(self) -> frozenset[str]:
        """Ids of the resources that the caller may read in this scope, placed or not."""
        placed = (one.candidate for one in (*self.stable, *self.volatile, *self.tools))
        omitted = (*self.catalogue, *self.dropped, *self.waiting)
        left = (one.candidate for one in omitted if one.reason not in NOT_IN_SCOPE)
        every = (candidate.resource for candidate in chain(placed, left))
        # What collectors found is no resource: its id may be that of one.
        return frozenset(resource.id for resource in every if not isinstance(resource.data, FoundItem))


class StickySelection(msgspec.Struct, frozen=True):
    """A selection with the picks of earlier requests that stay, and the picks that the session remembers."""

    selection: Selection
    picks: tuple[StickyPick, ...]
