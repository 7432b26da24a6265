"""Candidates become a Selection: what is placed, what is offered, what is dropped."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from gateway.domain.candidate import Assignment, Candidate
from gateway.domain.collector import CollectorOutcome, CollectorReport
from gateway.domain.resource import Mode
from gateway.domain.scope import Scope
from gateway.domain.search import SearchResult
from gateway.domain.selection import Notice, Omission, PlacedResource, Selection
from gateway.selection.found import make_found_candidate
from gateway.selection.truncate import truncate

WORTH_CUTTING = 50  # tokens that must remain for a truncated text to be of use

EntryCost = Callable[[str, str], int]  # name, text → tokens of the entry


@dataclass(frozen=True, slots=True)
class Pricing:
    """What entries cost; whole resources are counted once for all selections of a scope."""

    cost: EntryCost
    known: dict[str, int] = field(default_factory=dict)  # tokens by resource id

    def price(self, candidate: Candidate) -> int:
        resource = candidate.resource
        tokens = self.known.get(resource.id)
        if tokens is None:
            tokens = self.known[resource.id] = self.cost(resource.name, resource.text or "")
        return tokens


@dataclass(frozen=True, slots=True)
class CategoryFill:
    """What one category got for its tokens."""

    placed: tuple[PlacedResource, ...]
    left: tuple[Omission, ...]
    spent: int
    warnings: tuple[Notice, ...] = ()


@dataclass(frozen=True, slots=True)
class SelectionTerms:
    """The conditions of a selection."""

    budget: int
    offers: bool  # the two tools can be registered
    pricing: Pricing


@dataclass(frozen=True, slots=True)
class Proposal:
    """Everything that collectors propose for one scope."""

    candidates: tuple[Candidate, ...]  # by priority
    dropped: tuple[Omission, ...] = ()
    sources: tuple[Assignment, ...] = ()
    degraded: frozenset[str] = frozenset()

    @property
    def searchable(self) -> tuple[str, ...]:
        """Ids of the resources that semantic search may pick from."""
        return tuple(one.resource.id for one in self.candidates if is_searchable(one))


def propose(
    candidates: Iterable[Candidate],
    dropped: Iterable[Omission] = (),
    sources: tuple[Assignment, ...] = (),
    degraded: frozenset[str] = frozenset(),
) -> Proposal:
    """The candidates by priority; those of equal priority keep their order."""
    ranked = sorted(candidates, key=lambda candidate: candidate.resource.priority)  # stable
    return Proposal(tuple(ranked), tuple(dropped), sources, degraded)


def is_searchable(candidate: Candidate) -> bool:
    return candidate.resource.mode is Mode.SEMANTIC and not candidate.named


def choose_budget(scope: Scope, default: int) -> int:
    """The first of request, agent, profile and settings; a request is capped at its agent's maximum."""
    sources = [source.budget for source in (scope.agent, scope.profile) if source is not None]
    configured = next((budget.total for budget in sources if budget.total is not None), default)
    if scope.request.budget is None:
        return configured
    maxima = [budget.maximum for budget in sources if budget.maximum is not None]
    return min([scope.request.budget, *maxima[:1]])


class Offer(NamedTuple):
    """What the tools can reach, and what is dropped."""

    catalogue: Sequence[Omission]
    dropped: Sequence[Omission]


class ScopeFills(NamedTuple):
    """What a scope places and offers whatever is asked, and the tokens that are left for what a search finds."""

    stable: CategoryFill
    named: CategoryFill
    room: int
    offered: Offer


def select(
    proposal: Proposal,
    terms: SelectionTerms,
    outcomes: Sequence[CollectorOutcome] = (),
    fills: ScopeFills | None = None,
) -> Selection:
    """Always resources first, then what the caller named, then what collectors found; the rest is offered.

    Semantic resources stay in the catalogue whether they are picked or not, so that it is the same from turn to turn.
    """
    stable, volatile, room, offered = fills if fills is not None else fill_scope(proposal, terms)
    found = next((one.findings.search for one in outcomes if one.findings.search is not None), None)
    picks = fill_picks(proposal, found, room, terms) if found is not None else NO_PICKS
    others = fill_found(outcomes, 0 if picks.fill.left else max(0, room - picks.fill.spent), terms)
    dropped = tuple(picks.explain(one) for one in offered.dropped if one.candidate.resource.id not in picks.placed)
    return Selection(
        stable=stable.placed,
        volatile=(*volatile.placed, *picks.fill.placed, *others.placed),
        catalogue=tuple(picks.explain(one) for one in offered.catalogue),
        dropped=(*dropped, *others.left),
        sources=proposal.sources,
        budget=terms.budget,
        warnings=(*stable.warnings, *volatile.warnings, *picks.fill.warnings, *others.warnings),
        degraded=proposal.degraded | picks.degraded | find_degraded(outcomes),
        collectors=tuple(map(make_report, outcomes)),
    )


def make_report(outcome: CollectorOutcome) -> CollectorReport:
    """What is told about a collector."""
    findings = outcome.findings
    return CollectorReport(
        outcome.name,
        outcome.category,
        findings.considered,
        len(findings.items) + (len(findings.search.picks) if findings.search is not None else 0),
        outcome.failure,
        findings.total_available,
        findings.truncated,
        findings.note,
        findings.counts,
    )


def find_degraded(outcomes: Sequence[CollectorOutcome]) -> frozenset[str]:
    return frozenset(one.findings.degraded for one in outcomes if one.findings.degraded is not None)


def fill_found(outcomes: Sequence[CollectorOutcome], room: int, terms: SelectionTerms) -> CategoryFill:
    """What collectors found besides resources, category by category, the best first."""
    placed: tuple[PlacedResource, ...] = ()
    left: tuple[Omission, ...] = ()
    warnings: tuple[Notice, ...] = ()
    spent = 0
    for category in dict.fromkeys(one.category for one in outcomes if one.findings.items):
        items = [
            make_found_candidate(item, one.name)
            for one in outcomes
            if one.category is category
            for item in one.findings.items
        ]
        items.sort(key=lambda one: -(one.score or 0.0))  # stable: by the collectors' priority
        filled = fill(items, 0 if left else room - spent, category, Pricing(terms.pricing.cost))
        placed, left = (*placed, *filled.placed), (*left, *filled.left)
        spent, warnings = spent + filled.spent, (*warnings, *filled.warnings)
    return CategoryFill(placed, left, spent, warnings)


def fill_scope(proposal: Proposal, terms: SelectionTerms) -> ScopeFills:
    """What is placed whatever is asked; truncating a long text takes time, so a scope does it once."""
    ranked = proposal.candidates
    always = [candidate for candidate in ranked if candidate.resource.mode is Mode.ALWAYS]
    named = [candidate for candidate in ranked if candidate.resource.mode is not Mode.ALWAYS and candidate.named]
    stable = fill(always, terms.budget, "always", terms.pricing)
    # What one category could not use stays unused: with a larger budget it would need it again.
    room = 0 if stable.left else max(0, terms.budget - stable.spent)
    volatile = fill(named, room, "named", terms.pricing)
    left = {one.candidate.resource.id for one in (*stable.left, *volatile.left)}
    if not terms.offers:  # nothing more can be had of what was truncated, so it does not keep others out
        left -= {one.candidate.resource.id for one in (*stable.placed, *volatile.placed)}
    room = 0 if left else max(0, terms.budget - stable.spent - volatile.spent)
    return ScopeFills(stable, volatile, room, offer(proposal, (stable, volatile), terms.offers))


def offer(proposal: Proposal, fills: Sequence[CategoryFill], offers: bool) -> Offer:
    """Without tools, everything that was not placed at least in part is dropped."""
    ranked = proposal.candidates
    waiting = (Omission(one) for one in ranked if one.resource.mode is not Mode.ALWAYS and not one.named)
    catalogue = [*waiting, *(left for filled in fills for left in filled.left)]
    if offers:
        return Offer(sort_catalogue(catalogue, ranked), proposal.dropped)
    placed = {one.candidate.resource.id for filled in fills for one in filled.placed}
    lost = [left for left in catalogue if left.candidate.resource.id not in placed]
    lost_for_good = (Omission(left.candidate, left.reason or "no_tools") for left in lost)
    return Offer((), (*proposal.dropped, *lost_for_good))


def fill(candidates: Sequence[Candidate], budget: int, category: str, pricing: Pricing) -> CategoryFill:
    """A strict prefix by rank: after the first resource that does not fit completely, nothing more is placed.

    Required and mandatory resources are paid first and never left out, so that they can only overdraw the budget.
    """
    priced = [(candidate, pricing.price(candidate)) for candidate in candidates]
    owed = sum(tokens for candidate, tokens in priced if is_fixed(candidate))
    remaining = budget - owed
    placed: list[PlacedResource] = []
    left: list[Omission] = []
    for candidate, tokens in priced:
        text = candidate.resource.text or ""
        if is_fixed(candidate):
            placed.append(PlacedResource(candidate, text, tokens))
        elif not left and tokens <= remaining:
            placed.append(PlacedResource(candidate, text, tokens))
            remaining -= tokens
        else:
            cut = None if left else truncate_candidate(candidate, remaining, pricing.cost)
            if cut is not None:
                placed.append(cut)
                remaining -= cut.tokens
            left.append(Omission(candidate, "over_budget"))
    warnings = (warn_overdrawn(category, owed, budget),) if owed > budget else ()
    return CategoryFill(tuple(placed), tuple(left), budget - remaining, warnings)


def is_fixed(candidate: Candidate) -> bool:
    return candidate.resource.required or candidate.mandatory


def truncate_candidate(candidate: Candidate, remaining: int, cost: EntryCost) -> PlacedResource | None:
    """The part of a resource that fits, if enough room is left to be worth it."""
    resource = candidate.resource
    if remaining < WORTH_CUTTING or resource.truncate == "none":
        return None
    text = truncate(resource.text or "", remaining, lambda part: cost(resource.name, part), resource.truncate)
    return PlacedResource(candidate, text, cost(resource.name, text), truncated=True) if text else None


def warn_overdrawn(category: str, owed: int, budget: int) -> Notice:
    return Notice(
        "over_budget", category, f"Required resources need {owed} tokens, {owed - budget} more than the budget."
    )


NOTHING_FOUND = SearchResult()


@dataclass(frozen=True, slots=True)
class PickOutcome:
    """The searchable resources: placed within the remaining budget, or omitted with a reason and a score."""

    fill: CategoryFill
    placed: frozenset[str] = frozenset()
    searchable: frozenset[str] = frozenset()
    reasons: Mapping[str, str | None] = field(default_factory=dict)
    scores: Mapping[str, float] = field(default_factory=dict)
    found: SearchResult = NOTHING_FOUND

    @property
    def degraded(self) -> frozenset[str]:
        return frozenset({"semantic"} if self.found.reason in ("late", "unavailable") else ())

    def explain(self, omission: Omission) -> Omission:
        """The omission with its score, and the reason why it was not picked."""
        identity = omission.candidate.resource.id
        if identity not in self.searchable or identity in self.placed:
            return omission
        found = self.found
        missed = "late" if found.reason == "late" or identity in found.pending else "below_threshold"
        searched = found.reason in (None, "late")
        reason = self.reasons.get(identity) or omission.reason or (missed if searched else None)
        score = self.scores.get(identity)
        candidate = omission.candidate if score is None else replace(omission.candidate, score=score)
        return Omission(candidate, reason)


def fill_picks(proposal: Proposal, found: SearchResult, room: int, terms: SelectionTerms) -> PickOutcome:
    """Place what a search found within the remaining budget.

    The scarcer the room, the fewer come in: a good one whole says more than several cut short.
    """
    searchable = {one.resource.id: one for one in proposal.candidates if is_searchable(one)}
    share = room / terms.budget if terms.budget else 0
    worth: list[Candidate] = []
    reasons: dict[str, str | None] = {}
    for pick in found.picks:
        candidate = searchable.get(pick.resource)
        if candidate is None:
            continue
        if pick.needs and pick.needs >= share and not is_fixed(candidate):
            reasons[pick.resource] = "over_budget"
        else:
            worth.append(replace(candidate, score=pick.score, via=pick.via, why=pick.why))
    filled = fill(worth, room, "semantic", terms.pricing)
    reasons |= {left.candidate.resource.id: left.reason for left in filled.left}
    scores = {**dict(found.scores), **{pick.resource: pick.score for pick in found.picks}}
    placed = frozenset(one.candidate.resource.id for one in filled.placed)
    return PickOutcome(filled, placed, frozenset(searchable), reasons, scores, found)


def sort_catalogue(catalogue: Iterable[Omission], ranked: Sequence[Candidate]) -> list[Omission]:
    """The catalogue in the order of its resources, whatever the reason for each entry."""
    position = {candidate.resource.id: place for place, candidate in enumerate(ranked)}
    return sorted(catalogue, key=lambda left: position[left.candidate.resource.id])


NO_PICKS = PickOutcome(CategoryFill((), (), 0))
