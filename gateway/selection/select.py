"""Candidates become a Selection: what is placed, what is offered, what is dropped."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from gateway.domain.candidate import Assignment, Candidate
from gateway.domain.resource import Mode
from gateway.domain.scope import Scope
from gateway.domain.search import Pick, SearchResult
from gateway.domain.selection import Omission, Selection
from gateway.selection.budget import Cost, fill, is_fixed


@dataclass(frozen=True, slots=True)
class Terms:
    """Under what conditions to select."""

    budget: int
    offers: bool  # the two tools can be registered
    cost: Cost


def budget_of(scope: Scope, default: int) -> int:
    """The first of request, agent, profile and settings; a request is held to the maximum of its agent."""
    sources = [source.budget for source in (scope.agent, scope.profile) if source is not None]
    configured = next((budget.total for budget in sources if budget.total is not None), default)
    if scope.asked.budget is None:
        return configured
    maxima = [budget.maximum for budget in sources if budget.maximum is not None]
    return min([scope.asked.budget, *maxima[:1]])


def select(
    candidates: Sequence[Candidate], dropped: Iterable[Omission], sources: tuple[Assignment, ...], terms: Terms
) -> Selection:
    """Always resources first, then what the caller named; what does not fit is offered through the tools."""
    ranked = sorted(candidates, key=lambda candidate: candidate.resource.priority)  # stable
    always = [candidate for candidate in ranked if candidate.resource.mode is Mode.ALWAYS]
    named = [candidate for candidate in ranked if candidate.resource.mode is not Mode.ALWAYS and candidate.named]
    offered = [Omission(c) for c in ranked if c.resource.mode is not Mode.ALWAYS and not c.named]
    stable = fill(always, terms.budget, "always", terms.cost)
    # Room that always resources could not use stays empty: with a larger budget they would take it back.
    room = 0 if stable.left else max(0, terms.budget - stable.spent)
    volatile = fill(named, room, "named", terms.cost)
    catalogue = (*offered, *stable.left, *volatile.left)
    if not terms.offers:
        shortened = {placed.candidate.resource.id for placed in (*stable.placed, *volatile.placed)}
        lost = [left for left in catalogue if left.candidate.resource.id not in shortened]
        catalogue, dropped = (), (*dropped, *(Omission(left.candidate, left.reason or "no_tools") for left in lost))
    return Selection(
        stable=stable.placed,
        volatile=volatile.placed,
        catalogue=tuple(in_order(catalogue, ranked)),
        dropped=tuple(dropped),
        sources=sources,
        budget=terms.budget,
        warnings=(*stable.warnings, *volatile.warnings),
    )


def with_picks(selection: Selection, found: SearchResult, cost: Cost) -> Selection:
    """The selection with what a search by meaning found, within the room that is left.

    Semantic resources stay in the catalogue whether they are picked or not, so that it is the same from turn to turn.
    """
    spent = sum(placed.tokens for placed in (*selection.stable, *selection.volatile))
    full = any(left.reason == "over_budget" for left in (*selection.catalogue, *selection.dropped))
    reachable = {
        left.candidate.resource.id: left.candidate
        for left in (*selection.catalogue, *selection.dropped)
        if left.findable
    }
    room = 0 if full else max(0, selection.budget - spent)
    picked, spare = worthwhile(found.picks, reachable, room / selection.budget if selection.budget else 0)
    filled = fill(picked, room, "semantic", cost)
    placed = {one.candidate.resource.id for one in filled.placed}
    reasons = {left.candidate.resource.id: left.reason for left in filled.left} | dict.fromkeys(spare, "over_budget")
    scores = {**dict(found.scores), **{pick.resource: pick.score for pick in found.picks}}

    def explained(left: Omission) -> Omission:
        identity = left.candidate.resource.id
        if identity not in reachable or identity in placed:
            return left
        missed = "late" if found.reason == "late" or identity in found.pending else "below_threshold"
        reason = reasons.get(identity) or left.reason or (None if found.reason not in (None, "late") else missed)
        return Omission(replace(left.candidate, score=scores.get(identity)), reason)

    return replace(
        selection,
        volatile=(*selection.volatile, *filled.placed),
        catalogue=tuple(map(explained, selection.catalogue)),
        dropped=tuple(explained(left) for left in selection.dropped if left.candidate.resource.id not in placed),
        warnings=(*selection.warnings, *filled.warnings),
        degraded=selection.degraded | ({"semantic"} if found.reason in ("late", "unavailable") else frozenset()),
    )


def worthwhile(
    picks: Sequence[Pick], reachable: Mapping[str, Candidate], share: float
) -> tuple[list[Candidate], list[str]]:
    """What is worth its place where so much of the budget is left, and the ids of what is not.

    The scarcer the room, the fewer come in: a good one whole says more than several cut short.
    """
    picked: list[Candidate] = []
    spare: list[str] = []
    for pick in picks:
        candidate = reachable.get(pick.resource)
        if candidate is None:
            continue
        if pick.needs and pick.needs >= share and not is_fixed(candidate):
            spare.append(pick.resource)
        else:
            picked.append(replace(candidate, score=pick.score, via=pick.via, why=pick.why))
    return picked, spare


def in_order(catalogue: Iterable[Omission], ranked: Sequence[Candidate]) -> list[Omission]:
    """The catalogue in the order of its resources, whatever sent them there."""
    position = {candidate.resource.id: place for place, candidate in enumerate(ranked)}
    return sorted(catalogue, key=lambda left: position[left.candidate.resource.id])
