"""What a search found among the resources of a scope, placed within its room or omitted with a reason and a score."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from gateway.domain.candidate import Candidate
from gateway.domain.collector import Category
from gateway.domain.resource import Mode
from gateway.domain.retriever import Retriever
from gateway.domain.search import Pick, SearchResult
from gateway.domain.selection import Notice, Omission
from gateway.selection.tool_rules import add_brought, is_tool

NOTHING_FOUND = SearchResult()
OVER_BUDGET = "over_budget"
PREFETCH = "prefetch"  # how a receipt says that a search brought what only the tools could have fetched


def is_searchable(candidate: Candidate, *, fetchable: bool = True) -> bool:
    """Whether a search decides about a text; where the tools cannot be called, about what is on demand too."""
    return is_matched(candidate, fetchable=fetchable) and not isinstance(candidate.resource.data, Retriever)


def is_matched(candidate: Candidate, *, fetchable: bool) -> bool:
    """Whether it depends on the question: a text that is placed, or a retriever that is asked."""
    mode = candidate.resource.mode
    return (mode is Mode.SEMANTIC or (mode is Mode.ON_DEMAND and not fetchable)) and not candidate.named


class RankedPicks(msgspec.Struct, frozen=True):
    """The picks that compete for the budget, and what is known about the other searchable resources."""

    sure: tuple[Candidate, ...] = ()  # placed before anything else of their category
    likely: tuple[Candidate, ...] = ()  # placed after it, since how many of them come in depends on the room
    searchable: frozenset[str] = frozenset()
    reasons: Mapping[str, str | None] = msgspec.field(default_factory=dict)
    scores: Mapping[str, float] = msgspec.field(default_factory=dict)
    found: SearchResult = NOTHING_FOUND

    @property
    def degraded(self) -> frozenset[str]:
        return frozenset({"semantic"} if self.found.reason in ("late", "unavailable") else ())

    def explain(self, omission: Omission, placed: frozenset[str], left: Mapping[str, str | None]) -> Omission:
        """The omission with its score, and the reason why it was not picked."""
        identity = omission.candidate.resource.id
        if identity not in self.searchable or identity in placed:
            return omission
        found = self.found
        missed = "late" if found.reason == "late" or identity in found.pending else "below_threshold"
        searched = found.reason in (None, "late")
        reason = left.get(identity) or self.reasons.get(identity) or omission.reason or (missed if searched else None)
        score = self.scores.get(identity)
        candidate = omission.candidate if score is None else replace(omission.candidate, score=score)
        return Omission(candidate, reason)

    def warn(self) -> Iterator[Notice]:
        """That picks wait for a larger budget."""
        waiting = [identity for identity, reason in self.reasons.items() if reason == OVER_BUDGET]
        if waiting:
            which = f"{waiting[0]} and {len(waiting) - 1} more" if len(waiting) > 1 else waiting[0]
            message = f"Left out of `{Category.SEMANTIC}`: {which}; too little of the budget is left for more picks."
            yield Notice(OVER_BUDGET, Category.SEMANTIC, message)


NO_PICKS = RankedPicks()


def rank_picks(
    candidates: Sequence[Candidate],
    found: SearchResult,
    share: float,
    taken: frozenset[str] = frozenset(),
    *,
    callable_: bool = True,
) -> RankedPicks:
    """The picks in the order in which they are placed, where `share` of the budget is left for what depends on it.

    The scarcer the room, the fewer come in: a good one whole says more than several cut short. What is `taken` is there
    anyway; tools come with those that they bring, if any can be registered (`callable_`).
    """
    searchable = {one.resource.id: one for one in candidates if is_searchable(one, fetchable=callable_)}
    sure: list[Candidate] = []
    likely: list[Candidate] = []
    reasons: dict[str, str | None] = {}
    for pick in found.picks:
        candidate = searchable.get(pick.resource)
        if candidate is None or (is_tool(candidate) and not callable_):
            continue
        fixed = candidate.resource.required or candidate.mandatory
        if pick.needs and pick.needs >= share and not fixed:
            reasons[pick.resource] = OVER_BUDGET
        else:
            group = likely if pick.needs and not fixed else sure
            group.append(take_pick(candidate, pick))
    if any(map(is_tool, (*sure, *likely))):
        # What is there anyway brings others all the same: with less room they would have come with it.
        sure = add_brought(sure, candidates)
        known = {one.resource.id for one in sure}
        free = [one for one in candidates if one.resource.id not in known]
        likely = add_brought([one for one in likely if one.resource.id not in known], free)
        sure, likely = ([one for one in group if one.resource.id not in taken] for group in (sure, likely))
    scores = {**dict(found.scores), **{pick.resource: pick.score for pick in found.picks}}
    return RankedPicks(tuple(sure), tuple(likely), frozenset(searchable), reasons, scores, found)


def take_pick(candidate: Candidate, pick: Pick) -> Candidate:
    """The candidate as the search found it."""
    if candidate.resource.mode is not Mode.ON_DEMAND:
        return replace(candidate, score=pick.score, via=pick.via, why=pick.why)
    return replace(candidate, score=pick.score, via=PREFETCH, why=f"{pick.why}; the tools cannot be called")
