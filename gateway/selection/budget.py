"""One budget over everything that wants to be placed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gateway.domain.candidate import Candidate
from gateway.domain.selection import Notice, Omission, PlacedResource
from gateway.selection.truncate import truncate

WORTH_CUTTING = 50  # tokens that must remain for a truncated text to be of use

Cost = Callable[[str, str], int]  # name, text → tokens of the entry


@dataclass(frozen=True, slots=True)
class Filled:
    """What one category got for its tokens."""

    placed: tuple[PlacedResource, ...]
    left: tuple[Omission, ...]
    spent: int
    warnings: tuple[Notice, ...] = ()


def fill(candidates: Sequence[Candidate], budget: int, category: str, cost: Cost) -> Filled:
    """A strict prefix by rank: after the first that does not fit whole, nothing more is placed.

    Required and mandatory resources are paid first and never left out, so that they can only overdraw the budget.
    """
    priced = [(candidate, cost(candidate.resource.name, candidate.resource.text or "")) for candidate in candidates]
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
            cut = None if left else shortened(candidate, remaining, cost)
            if cut is not None:
                placed.append(cut)
                remaining -= cut.tokens
            left.append(Omission(candidate, "over_budget"))
    warnings = (overdrawn(category, owed, budget),) if owed > budget else ()
    return Filled(tuple(placed), tuple(left), budget - remaining, warnings)


def is_fixed(candidate: Candidate) -> bool:
    return candidate.resource.required or candidate.mandatory


def shortened(candidate: Candidate, remaining: int, cost: Cost) -> PlacedResource | None:
    """The part of a resource that fits, if enough room is left to be worth it."""
    resource = candidate.resource
    if remaining < WORTH_CUTTING or resource.truncate == "none":
        return None
    text = truncate(resource.text or "", remaining, lambda part: cost(resource.name, part), resource.truncate)
    return PlacedResource(candidate, text, cost(resource.name, text), truncated=True) if text else None


def overdrawn(category: str, owed: int, budget: int) -> Notice:
    return Notice(
        "over_budget", category, f"Required resources take {owed} tokens, {owed - budget} more than the budget allows."
    )
