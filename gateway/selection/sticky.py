"""Picks that stay in a session while they are relevant enough, so that less of a prompt changes between requests."""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b

import msgspec
from msgspec.structs import replace

from gateway.domain.candidate import Candidate
from gateway.domain.collector import Category, FoundItem
from gateway.domain.resource import Mode
from gateway.domain.selection import NOT_IN_SCOPE, Omission, PlacedResource, Selection, StickySelection
from gateway.domain.session import MAX_STICKY, StickyPick
from gateway.selection.pricing import Pricing

# Measured with `gateway cache-report`: docs/decisions/037-sticky-picks.md.
KEEP_MESSAGES = 4  # user messages for which a pick counts as relevant
KEEP_SCORE = 0.05  # the probability from which it counts as relevant, however long ago it was picked
STALE_SHARE = 0.5  # of the room for picks that those may take that are no longer relevant


class PickRoom(msgspec.Struct, frozen=True):
    """The tokens that picks may cost, and how many of them the new ones leave."""

    total: int
    left: int
    pricing: Pricing
    frame: int = 0  # tokens around the picks of one message, if these have a block of their own


def keep_picks(
    plain: Selection,
    former: Sequence[StickyPick],
    digests: Sequence[str],
    room: int,
    pricing: Pricing,
    *,
    apart: bool = False,
) -> StickySelection:
    """The selection for a question with the picks of earlier requests that stay: these first, then the new ones.

    What the question itself needs is paid first. `digests` are those of all user messages, `room` is what all that
    depends on the question may cost. With `apart`, the picks of each message have a block of their own.
    """
    last, prices = len(digests) - 1, pricing.prices
    unsearched = [one for one in plain.volatile if not is_pick(one.candidate)]
    new = {one.candidate.resource.id: one for one in plain.volatile if is_pick(one.candidate)}
    left_out = (one for one in (*plain.catalogue, *plain.dropped) if is_pick(one.candidate))
    others = {one.candidate.resource.id: one for one in left_out if one.reason not in NOT_IN_SCOPE}
    here = [one for one in former if one.message <= last and one.digest == digests[one.message]]
    found = [one.tokens for one in plain.volatile if one.category is not Category.NAMED]
    found += [one.tokens for one in plain.tools if is_pick(one.candidate)]
    # What the last text of a block saves depends on which one is the last.
    unspent = min(room - sum(found), plain.budget - plain.count_tokens() - plain.saved)
    if not any(not isinstance(one.candidate.resource.data, FoundItem) for one in plain.volatile):
        unspent -= prices.frame(resources=True, anything=True)
    left = 0 if is_scarce(new.values(), others.values()) else unspent
    frame = prices.frame(resources=True, anything=True) if apart else 0
    stays = choose_stays(here, new, others, last, PickRoom(room, left, pricing, frame))
    placed = {one.id: new.get(one.id) or place_again(others[one.id].candidate, one, last, pricing) for one in stays}
    placed |= {identity: one for identity, one in new.items() if identity not in placed}
    selection = replace(
        plain,
        volatile=(*unsearched, *placed.values()),
        catalogue=tuple(clear_reason(one, placed.keys()) for one in plain.catalogue),
        dropped=tuple(one for one in plain.dropped if one.candidate.resource.id not in placed),
    )
    known = {one.id: renew_pick(one, one.id in new, last) for one in stays}
    for identity, one in placed.items():
        if not one.truncated:  # it may be cut in another place next time
            known.setdefault(identity, StickyPick(identity, last, digests[last], last))
        else:
            known.pop(identity, None)
    return StickySelection(selection, tuple(known.values())[-MAX_STICKY:])


def is_pick(candidate: Candidate) -> bool:
    """Whether only a search among resources may have brought it."""
    resource = candidate.resource
    return resource.mode is Mode.SEMANTIC and not candidate.named and not isinstance(resource.data, FoundItem)


def is_scarce(new: Iterable[PlacedResource], others: Iterable[Omission]) -> bool:
    """Whether the budget does not even suffice for what the question needs."""
    return any(one.truncated for one in new) or any(one.reason == "over_budget" for one in others)


def choose_stays(
    here: Sequence[StickyPick],
    new: Mapping[str, PlacedResource],
    others: Mapping[str, Omission],
    last: int,
    room: PickRoom,
) -> list[StickyPick]:
    """Those that stay, in their order.

    What is no longer relevant goes all at once, when it takes too much: each time that something goes, all that
    follows it in the prompt has to be read again.
    """
    prices = {one.id: room.pricing.price(others[one.id].candidate) for one in here if one.id in others}
    waiting = [one for one in here if one.id in prices and one.id not in new]
    stale = [one for one in waiting if not is_relevant(one, others[one.id], last)]
    framed = {one.message for one in here if one.id in new}  # messages whose block there is anyway
    blocks = {one.message for one in waiting} - framed
    is_full = sum(prices[one.id] for one in waiting) + room.frame * len(blocks) > room.left
    if is_full or sum(prices[one.id] for one in stale) > STALE_SHARE * room.total:
        waiting = [one for one in waiting if one not in stale]
    stays, left = {one.id for one in here if one.id in new}, room.left
    for one in sorted(waiting, key=lambda pick: -(others[pick.id].candidate.score or 0.0)):
        price = prices[one.id] + (0 if one.message in framed else room.frame)
        if price <= left:
            left -= price
            stays.add(one.id)
            framed.add(one.message)
    return [one for one in here if one.id in stays]


def is_relevant(pick: StickyPick, omission: Omission, last: int) -> bool:
    """Whether a pick of an earlier request is relevant enough; a search that was late says nothing against it."""
    score = omission.candidate.score
    return omission.reason == "late" or last - pick.picked <= KEEP_MESSAGES or (score or 0.0) >= KEEP_SCORE


def place_again(candidate: Candidate, pick: StickyPick, last: int, pricing: Pricing) -> PlacedResource:
    ago = last - pick.picked
    when = "one message ago" if ago == 1 else f"{ago} messages ago" if ago else "for this message"
    now = "" if candidate.score is None else f", relevant with probability {candidate.score:.2f} now"
    kept = replace(candidate, via="sticky", why=f"stays in the session: picked {when}{now}")
    return PlacedResource(kept, candidate.resource.text or "", pricing.price(candidate), category=Category.SEMANTIC)


def clear_reason(omission: Omission, placed: Iterable[str]) -> Omission:
    """What is offered without the reason for not placing it, if it is placed."""
    return replace(omission, reason=None) if omission.candidate.resource.id in placed else omission


def renew_pick(pick: StickyPick, picked: bool, last: int) -> StickyPick:
    """A pick with the message that picked it last; that is noted now and then, since it costs a write."""
    return replace(pick, picked=last) if picked and last - pick.picked > KEEP_MESSAGES // 2 else pick


def digest_texts(texts: Iterable[str], secret: bytes) -> list[str]:
    """Short hashes of user texts, which themselves are not kept; keyed, so that nobody can try out what was said."""
    key = secret[: blake2b.MAX_KEY_SIZE]
    return [blake2b(text.encode("utf-8", "replace"), digest_size=8, key=key).hexdigest() for text in texts]
