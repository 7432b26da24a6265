"""One category takes what fits: a strict prefix by rank."""

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from gateway.domain.candidate import Candidate
from gateway.domain.collector import Category, FoundItem
from gateway.domain.selection import Notice, Omission, PlacedResource
from gateway.selection.allotment import Need
from gateway.selection.cutter import PLAIN_CUTTER, Cutter
from gateway.selection.found import make_found_resource
from gateway.selection.pricing import Pricing
from gateway.selection.truncate import LONG_TOKENS, LOOKED_AT

WORTH_CUTTING = 50  # tokens that must remain for a truncated text to be of use
SURPLUS = 8  # tokens by which the beginning of a text may cost more than it does as a part of the whole


class CategoryFill(msgspec.Struct):
    """What one category got for its tokens."""

    placed: tuple[PlacedResource, ...]
    left: tuple[Omission, ...]
    spent: int
    warnings: tuple[Notice, ...] = ()

    @property
    def exhausted(self) -> bool:
        """Whether it has nothing left to place."""
        return not self.left


NOTHING_FILLED = CategoryFill((), (), 0)


def fill(
    candidates: Sequence[Candidate], room: int, category: Category, pricing: Pricing, cutter: Cutter = PLAIN_CUTTER
) -> CategoryFill:
    """A strict prefix by rank: after the first resource that does not fit completely, nothing more is placed.

    Required and mandatory resources are paid first and never left out, so that they can only overdraw the budget.
    """
    if not candidates:
        return NOTHING_FILLED
    owed = sum(pricing.price(candidate) for candidate in candidates if is_fixed(candidate))
    remaining = room - owed
    placed: list[PlacedResource] = []
    left: list[Omission] = []
    for candidate in candidates:
        text = candidate.resource.text or ""
        if is_fixed(candidate):
            placed.append(PlacedResource(candidate, text, pricing.price(candidate), category=category))
            continue
        room_left = limit_room(candidate, remaining)
        tokens = None if left else price_within(candidate, room_left, pricing)
        if tokens is not None:
            placed.append(PlacedResource(candidate, text, tokens, category=category))
            remaining -= tokens
        else:
            part = None if left else truncate_candidate(candidate, room_left, category, pricing, cutter)
            if part is not None:
                placed.append(part)
                remaining -= part.tokens
            left.append(Omission(candidate, "over_budget"))
    warnings = [warn_overdrawn(category, owed, room)] if owed > room else []
    if left:
        warnings.append(warn_left(category, left, room, pricing))
    warnings += [warn_long(one) for one in placed if one.truncated and not one.summarized and is_long(one)]
    return CategoryFill(tuple(placed), tuple(left), room - remaining, tuple(warnings))


def measure_need(candidates: Sequence[Candidate], room: int, pricing: Pricing) -> Need:
    """What `fill` would spend on all candidates; one that has reached its own limit takes nothing more in any room."""
    owed = total = sum(pricing.price(candidate) for candidate in candidates if is_fixed(candidate))
    for candidate in candidates:
        if is_fixed(candidate):
            continue
        room_left = limit_room(candidate, room - total)
        tokens = price_within(candidate, room_left, pricing)
        if tokens is None:
            return Need(total + room_left, True) if room_left < room - total else Need(owed, False)
        total += tokens
    return Need(total, True)


def is_fixed(candidate: Candidate) -> bool:
    return candidate.resource.required or candidate.mandatory


def limit_room(candidate: Candidate, remaining: int) -> int:
    """The tokens that one candidate may take of what is left."""
    item = candidate.resource.data
    return min(remaining, item.max_tokens) if isinstance(item, FoundItem) and item.max_tokens is not None else remaining


def price_within(candidate: Candidate, room: int, pricing: Pricing) -> int | None:
    """The tokens of a candidate, None if it does not fit."""
    tokens = None if is_too_long(candidate, room, pricing) else pricing.price(candidate)
    return tokens if tokens is not None and tokens <= room else None


def is_too_long(candidate: Candidate, room: int, pricing: Pricing) -> bool:
    """Whether a text is so long, or if it can be shrunk its first lines already, that there is no room for it.

    Most of such a text is never placed, and to count it takes longer than to count what is.
    """
    item, text = candidate.resource.data, candidate.resource.text or ""
    if len(text) <= LONG_TOKENS * room:
        return False
    if not isinstance(item, FoundItem) or item.shrinkable is None:
        return len(text) > LOOKED_AT  # even if somebody has counted it: the same request gets the same text
    end = text.find("\n", LONG_TOKENS * max(0, room))
    return end > 0 and pricing.price_start(candidate.resource, end) > room + SURPLUS


def truncate_candidate(
    candidate: Candidate, remaining: int, category: Category, pricing: Pricing, cutter: Cutter
) -> PlacedResource | None:
    """The part of a resource that fits, if enough room is left to be worth it."""
    resource = candidate.resource
    if remaining < WORTH_CUTTING or resource.truncate == "none":
        return None
    item = resource.data
    counted: dict[str, int] = {}

    def count(text: str) -> int:
        if text not in counted:
            counted[text] = pricing.cost(resource, text)
        return counted[text]

    if isinstance(item, FoundItem) and item.shrinkable is not None:
        short = item.shrinkable.shrink(count, remaining, max(pricing.estimate(candidate), remaining + 1))
        if short is None:
            return None
        smaller = replace(candidate, resource=make_found_resource(short))
        return PlacedResource(smaller, short.text, count(short.text), truncated=True, category=category)
    if resource.id in pricing.known:
        counted[resource.text or ""] = pricing.price(candidate)
    text, summarized = cutter.cut(resource.text or "", remaining, count, resource.truncate)
    if not text:
        return None
    return PlacedResource(candidate, text, count(text), truncated=True, category=category, summarized=summarized)


def is_long(placed: PlacedResource) -> bool:
    """Whether only a part of a text was looked at before it was cut."""
    item, room = placed.candidate.resource.data, LONG_TOKENS * placed.tokens
    is_shrunk = isinstance(item, FoundItem) and item.shrinkable is not None
    return not is_shrunk and len(placed.candidate.resource.text or "") > max(LOOKED_AT, room)


def warn_long(placed: PlacedResource) -> Notice:
    resource = placed.candidate.resource
    message = f"{resource.id} has {len(resource.text or '')} characters; about {LOOKED_AT} were looked at."
    return Notice("content_too_large", placed.category, message)


def warn_overdrawn(category: Category, owed: int, room: int) -> Notice:
    message = f"Required resources need {owed} tokens, {owed - room} more than the budget."
    return Notice("over_budget", category, message)


def warn_left(category: Category, left: Sequence[Omission], room: int, pricing: Pricing) -> Notice:
    """That something did not fit, whether it was cut or left out."""
    first = left[0].candidate.resource.id
    which = f"{first} and {len(left) - 1} more" if len(left) > 1 else first
    about = "" if all(one.candidate.resource.id in pricing.known for one in left) else "about "
    tokens = sum(pricing.estimate(one.candidate) for one in left)
    message = f"Cut or left out of `{category}`: {which}, {about}{tokens} tokens in full; {room} were available."
    return Notice("over_budget", category, message)
