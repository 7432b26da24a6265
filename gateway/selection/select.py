"""Candidates become a Selection: what is placed, what is offered, what is dropped."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gateway.domain.candidate import Assignment, Candidate
from gateway.domain.resource import Mode
from gateway.domain.scope import Scope
from gateway.domain.selection import Left, Selection
from gateway.selection.budget import Cost, fill


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
    candidates: Sequence[Candidate], dropped: Iterable[Left], sources: tuple[Assignment, ...], terms: Terms
) -> Selection:
    """Always resources first, then what the caller named; what does not fit is offered through the tools."""
    ranked = sorted(candidates, key=lambda candidate: candidate.resource.priority)  # stable
    always = [candidate for candidate in ranked if candidate.resource.mode is Mode.ALWAYS]
    named = [candidate for candidate in ranked if candidate.resource.mode is not Mode.ALWAYS and candidate.named]
    offered = [Left(c) for c in ranked if c.resource.mode is not Mode.ALWAYS and not c.named]
    stable = fill(always, terms.budget, "always", terms.cost)
    # Room that always resources could not use stays empty: with a larger budget they would take it back.
    room = 0 if stable.left else max(0, terms.budget - stable.spent)
    volatile = fill(named, room, "named", terms.cost)
    catalogue = (*offered, *stable.left, *volatile.left)
    if not terms.offers:
        shortened = {placed.candidate.resource.id for placed in (*stable.placed, *volatile.placed)}
        lost = [left for left in catalogue if left.candidate.resource.id not in shortened]
        catalogue, dropped = (), (*dropped, *(Left(left.candidate, left.reason or "no_tools") for left in lost))
    return Selection(
        stable=stable.placed,
        volatile=volatile.placed,
        catalogue=tuple(in_order(catalogue, ranked)),
        dropped=tuple(dropped),
        sources=sources,
        budget=terms.budget,
        warnings=(*stable.warnings, *volatile.warnings),
    )


def in_order(catalogue: Iterable[Left], ranked: Sequence[Candidate]) -> list[Left]:
    """The catalogue in the order of its resources, whatever sent them there."""
    position = {candidate.resource.id: place for place, candidate in enumerate(ranked)}
    return sorted(catalogue, key=lambda left: position[left.candidate.resource.id])
