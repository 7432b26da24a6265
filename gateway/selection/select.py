"""Candidates become a Selection: what is placed, what is offered, what is dropped."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from gateway.domain.candidate import Assignment, Candidate
from gateway.domain.collector import Category
from gateway.domain.resource import Mode
from gateway.domain.retriever import NO_RETRIEVERS, Retriever, ScopeRetrievers
from gateway.domain.scope import Scope
from gateway.domain.selection import NO_VIEW, CatalogueView, CategoryCost, Notice, Omission, Selection
from gateway.selection.allotment import NO_SHARES, Allotment, BudgetShares, allot
from gateway.selection.catalogue import CatalogueFit, fit_catalogue
from gateway.selection.cutter import PLAIN_CUTTER, Cutter
from gateway.selection.fill import NOTHING_FILLED, CategoryFill, fill
from gateway.selection.picks import is_matched, is_searchable
from gateway.selection.pricing import BlockPrices, Pricing
from gateway.selection.tool_rules import add_brought, is_tool, list_waiting

NO_CATEGORIES: frozenset[Category] = frozenset()


class SelectionTerms(msgspec.Struct, frozen=True):
    """The conditions of a selection."""

    budget: int
    offers: bool  # the two tools can be registered
    pricing: Pricing
    shares: BudgetShares = NO_SHARES
    categories: frozenset[Category] = NO_CATEGORIES  # that collectors of the scope may need
    nodes: bool = False  # the tools reach nodes, too


class Proposal(msgspec.Struct, frozen=True):
    """Everything that is proposed for one scope."""

    candidates: tuple[Candidate, ...]  # by priority
    dropped: tuple[Omission, ...] = ()
    sources: tuple[Assignment, ...] = ()
    degraded: frozenset[str] = frozenset()

    @property
    def resources(self) -> list[Candidate]:
        """Those that are texts, or are looked up when a model asks for it."""
        texts = [one for one in self.candidates if not is_tool(one)]
        return [one for one in texts if not is_looked_up(one)]

    @property
    def looked_up(self) -> list[Candidate]:
        """The retrievers that every request asks."""
        return [one for one in self.candidates if is_looked_up(one)]

    @property
    def tools(self) -> list[Candidate]:
        """The tools of servers and endpoints that are in reach."""
        return [one for one in self.candidates if is_tool(one)]

    def list_searchable(self, *, fetchable: bool) -> tuple[str, ...]:
        """Ids of the resources that semantic search may pick from; `fetchable`: what is on demand is left to tools."""
        return tuple(one.resource.id for one in self.candidates if is_searchable(one, fetchable=fetchable))

    def list_retrievers(self, *, fetchable: bool) -> ScopeRetrievers:
        """The retrievers that requests ask by themselves."""
        others = (one for one in self.candidates if isinstance(one.resource.data, Retriever) and not is_looked_up(one))
        matched = (one.resource for one in others if is_matched(one, fetchable=fetchable))
        found = ScopeRetrievers(tuple(one.resource for one in self.looked_up), tuple(matched))
        return found if found.always or found.matched else NO_RETRIEVERS


def propose(
    candidates: Iterable[Candidate],
    dropped: Iterable[Omission] = (),
    sources: tuple[Assignment, ...] = (),
    degraded: frozenset[str] = frozenset(),
) -> Proposal:
    """The candidates by priority; those of equal priority keep their order."""
    ranked = sorted(candidates, key=lambda candidate: candidate.resource.priority)  # stable
    return Proposal(tuple(ranked), tuple(dropped), sources, degraded)


def is_looked_up(candidate: Candidate) -> bool:
    """Whether every request asks it: it has no text of its own that could be placed or offered."""
    resource = candidate.resource
    return isinstance(resource.data, Retriever) and (candidate.named or resource.mode is Mode.ALWAYS)


def choose_budget(scope: Scope, default: int) -> int:
    """The first of request, recipe, agent, profile and settings; a request is capped at its agent's maximum."""
    sources = [source.budget for source in (scope.agent, scope.profile) if source is not None]
    asked = [scope.recipe.budget] if scope.recipe is not None else []
    configured = next((budget.total for budget in (*asked, *sources) if budget.total is not None), default)
    if scope.request.budget is None:
        return configured
    maxima = [budget.maximum for budget in sources if budget.maximum is not None]
    return min([scope.request.budget, *maxima[:1]])


class Offer(NamedTuple):
    """What the tools can reach, and what is dropped."""

    catalogue: Sequence[Omission]
    dropped: Sequence[Omission]


class ScopeFills(msgspec.Struct, frozen=True):
    """What a scope places and offers whatever is asked, and what is left for collectors."""

    stable: CategoryFill
    named: CategoryFill
    offered: Offer
    tools: CategoryFill  # of servers and endpoints
    callable: Sequence[Candidate]  # all of those in reach
    view: CatalogueView
    costs: tuple[CategoryCost, ...]  # of our own tools, catalogue and markers
    warnings: tuple[Notice, ...]
    allotment: Allotment
    carry: int  # that flows on to the volatile categories
    listed: bool  # the two tools are registered

    @property
    def room(self) -> int:
        """Tokens that collectors may spend together."""
        return self.allotment.measure_rest(self.carry)


def fill_scope(proposal: Proposal, terms: SelectionTerms, cutter: Cutter = PLAIN_CUTTER) -> ScopeFills:
    """What is placed whatever is asked; truncating a long text takes time, so a scope does it once."""
    ranked = proposal.resources
    waiting = terms.nodes or any(one.resource.mode is not Mode.ALWAYS and not one.named for one in ranked)
    # Tools are needed if something waits for them, or as soon as something does not fit. Where collectors compete, what
    # tools would need is reserved even so: otherwise they would lose it again as soon as everything else fits.
    if not terms.offers or not (waiting or terms.categories):
        # With tools this counts only if everything fits: what it cuts is cut again below.
        filled = _fill_first(proposal, terms, PLAIN_CUTTER if terms.offers else cutter, tools=False)
        if filled.complete or not terms.offers:
            return _finish(proposal, terms, filled, offers=False)
    filled = _fill_first(proposal, terms, cutter, tools=True)
    needed = terms.pricing.prices.price_offer(len(ranked))
    return _finish(proposal, terms, filled, offers=needed <= filled.allotment.measure_offer(filled.carry))


class FirstFills(NamedTuple):
    """The resources that are placed whatever is asked."""

    stable: CategoryFill
    named: CategoryFill
    allotment: Allotment
    carry: int

    @property
    def complete(self) -> bool:
        return self.stable.exhausted and self.named.exhausted


def _fill_first(proposal: Proposal, terms: SelectionTerms, cutter: Cutter, *, tools: bool) -> FirstFills:
    ranked, called = proposal.resources, len(proposal.tools) > 0 and terms.offers
    always = [one for one in ranked if one.resource.mode is Mode.ALWAYS]
    named = [one for one in ranked if one.resource.mode is not Mode.ALWAYS and one.named]
    present = {*terms.categories, *([Category.ALWAYS] if always else []), *([Category.NAMED] if named else [])}
    present |= {Category.TOOLS, Category.CATALOGUE} if tools else {Category.TOOLS} if called else set()
    prices, searches = terms.pricing.prices, Category.SEMANTIC in terms.categories
    frame = prices.frame(resources=bool(always), anything=tools)
    frame += prices.frame(resources=bool(named) or searches, anything=bool(terms.categories))
    allotment = allot(max(0, terms.budget - frame), terms.shares, present)
    carry = allotment.start
    stable = fill(always, allotment.measure_room(Category.ALWAYS, carry), Category.ALWAYS, terms.pricing, cutter)
    carry = allotment.pass_on(Category.ALWAYS, carry, stable.spent, stable.exhausted)
    volatile = fill(named, allotment.measure_room(Category.NAMED, carry), Category.NAMED, terms.pricing, cutter)
    carry = allotment.pass_on(Category.NAMED, carry, volatile.spent, volatile.exhausted)
    return FirstFills(stable, volatile, allotment, carry)


def _finish(proposal: Proposal, terms: SelectionTerms, filled: FirstFills, *, offers: bool) -> ScopeFills:
    """The scope's fills with tools and catalogue, if they fit."""
    stable, named, allotment, carry = filled
    prices, hidden = terms.pricing.prices, len(proposal.resources)
    offered = offer(proposal, (stable, named), offers, "over_budget" if terms.offers else "no_tools")
    listed = offers and (bool(offered.catalogue) or terms.nodes)
    missed = terms.offers and not listed and (not filled.complete or len(offered.dropped) > len(proposal.dropped))
    called = proposal.tools
    needs = prices.price_offer(hidden) if listed or missed else 0
    tools = fill_tools(called, measure_tools(allotment, carry, prices, needs), terms) if called else NOTHING_FILLED
    warnings = [*stable.warnings, *named.warnings, *tools.warnings]
    costs: list[CategoryCost] = []
    fit = NO_CATALOGUE
    if listed:
        costs.append(CategoryCost(Category.TOOLS, prices.schemas))
        carry = allotment.pass_on(Category.TOOLS, carry, prices.schemas + tools.spent, True)
        if not tools.exhausted:
            carry = allotment.reserve(Category.CATALOGUE, carry, needs - prices.schemas)
        if offered.catalogue:
            fit = fit_catalogue(offered.catalogue, allotment.measure_room(Category.CATALOGUE, carry), prices)
            costs.append(CategoryCost(Category.CATALOGUE, fit.spent))
        carry = allotment.pass_on(Category.CATALOGUE, carry, fit.spent, fit.whole)
        warnings += fit.warnings
    elif missed:
        message = (
            f"The tools need {needs} tokens and have {allotment.measure_offer(carry)}: what is not placed cannot be"
        )
        warnings.append(Notice("over_budget", Category.TOOLS, f"{message} fetched."))
        carry = allotment.pass_on(Category.TOOLS, 0, tools.spent, False)
    else:
        carry = allotment.pass_on(Category.TOOLS, carry, tools.spent, tools.exhausted or not terms.offers)
        carry = allotment.pass_on(Category.CATALOGUE, carry, 0, True)
    frame = prices.frame(resources=bool(stable.placed), anything=bool(fit.spent))
    costs += [CategoryCost(Category.FRAME, frame)] if frame else []
    return ScopeFills(
        stable, named, offered, tools, called, fit.view, tuple(costs), tuple(warnings), allotment, carry, listed
    )


def measure_tools(allotment: Allotment, carry: int, prices: BlockPrices, needs: int) -> int:
    """The tokens that tools of servers may spend: what ours, if they are needed, and the least catalogue leave."""
    room = allotment.measure_room(Category.TOOLS, carry)
    return room if not needs else max(0, min(room - prices.schemas, allotment.measure_offer(carry) - needs))


def fill_tools(tools: Sequence[Candidate], room: int, terms: SelectionTerms) -> CategoryFill:
    """The tools that are registered whatever is asked, and what those bring; none if none can be registered."""
    wanted = add_brought([one for one in tools if one.named or one.resource.mode is Mode.ALWAYS], tools)
    if terms.offers:
        return fill(wanted, room, Category.TOOLS, terms.pricing)
    return CategoryFill((), tuple(Omission(one, "no_tools") for one in wanted), 0)


NO_CATALOGUE = CatalogueFit(NO_VIEW, 0, True)


def offer(proposal: Proposal, fills: Sequence[CategoryFill], offers: bool, reason: str) -> Offer:
    """Without tools, everything that was not placed at least in part is dropped."""
    ranked = proposal.resources
    waiting = (Omission(one) for one in ranked if one.resource.mode is not Mode.ALWAYS and not one.named)
    catalogue = [*waiting, *(left for filled in fills for left in filled.left)]
    if offers:
        return Offer(sort_catalogue(catalogue, ranked), proposal.dropped)
    placed = {one.candidate.resource.id for filled in fills for one in filled.placed}
    lost = [left for left in catalogue if left.candidate.resource.id not in placed]
    return Offer((), (*proposal.dropped, *(Omission(left.candidate, left.reason or reason) for left in lost)))


def sort_catalogue(catalogue: Iterable[Omission], ranked: Sequence[Candidate]) -> list[Omission]:
    """The catalogue in the order of its resources, whatever the reason for each entry."""
    position = {candidate.resource.id: place for place, candidate in enumerate(ranked)}
    return sorted(catalogue, key=lambda left: position[left.candidate.resource.id])


def select_stable(proposal: Proposal, terms: SelectionTerms, fills: ScopeFills) -> Selection:
    """The selection of a request for which nothing is collected; the markers of its volatile block are not counted."""
    return Selection(
        stable=fills.stable.placed,
        volatile=fills.named.placed,
        catalogue=tuple(fills.offered.catalogue),
        fetches=fills.listed,
        dropped=(*fills.offered.dropped, *fills.tools.left),
        tools=fills.tools.placed,
        waiting=tuple(list_waiting(fills.callable, fills.tools.placed)) if fills.callable else (),
        sources=proposal.sources,
        budget=terms.budget,
        warnings=fills.warnings,
        degraded=proposal.degraded,
        view=fills.view,
        costs=fills.costs,
    )
