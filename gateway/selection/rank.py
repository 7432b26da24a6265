"""The order of what collectors found: a composite of relevance, nearness, recency, type and affinity."""

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import msgspec

from gateway.domain.agent import DEFAULT_WEIGHTS, RankingWeights
from gateway.domain.candidate import Candidate
from gateway.domain.collector import FoundItem
from gateway.domain.hints import NO_HINTS, ContextHints
from gateway.domain.intents import find_meant_types
from gateway.domain.selection import Omission

DAY = 86_400.0
FADING_DAYS = 30  # after which recency counts nothing
STEP = 0.1  # that each step in the tree takes from nearness
UNKNOWN = 0.5


class RankedItems(NamedTuple):
    """Candidates in the order in which the budget takes them, and those that the request's hints exclude."""

    candidates: Sequence[Candidate]
    excluded: Sequence[Omission]


class Ranker(msgspec.Struct, frozen=True, dict=True):
    """Ranks the items of one request."""

    weights: RankingWeights = DEFAULT_WEIGHTS
    hints: ContextHints = NO_HINTS
    question: str = ""
    now: float = 0.0

    @cached_property
    def _matches(self) -> dict[str, float]:
        """By type: how well it matches the question."""
        return {**find_meant_types(self.question), **dict.fromkeys(self.hints.prioritize_types, 1.0)}

    def rank(self, candidates: Sequence[Candidate]) -> RankedItems:
        """Layers of a recipe in their order; else the focus, then what the request names, then by score."""
        if not candidates:
            return RankedItems((), ())
        scored: list[Candidate] = []
        excluded: list[Omission] = []
        for one in candidates:
            item: FoundItem = one.resource.data
            if self._is_excluded(item):
                excluded.append(Omission(one, "in_request" if item.stated else "excluded"))
            else:
                scored.append(one.rate(round(self.score(item), 4)))
        scored.sort(key=self._sort_key)
        return RankedItems(scored, excluded)

    def score(self, item: FoundItem) -> float:
        """The weighted sum of what is known about an item; what is not known counts half."""
        weights = self.weights
        return (
            item.score * weights.semantic
            + self._rate_distance(item) * weights.structural
            + self._rate_age(item) * weights.recency
            + self._matches.get(item.type, UNKNOWN) * weights.type
            + (UNKNOWN if item.affinity is None else item.affinity) * weights.affinity
        )

    def _sort_key(self, candidate: Candidate) -> tuple[int, bool, bool, float]:
        item: FoundItem = candidate.resource.data
        if item.layer is not None:
            return (item.layer, False, False, 0.0)
        return (0, item.distance != 0, item.id not in self.hints.include, -(candidate.score or 0.0))

    def _rate_distance(self, item: FoundItem) -> float:
        return UNKNOWN if item.distance is None else max(0.0, 1 - STEP * item.distance)

    def _rate_age(self, item: FoundItem) -> float:
        if item.modified is None:
            return UNKNOWN
        return min(1.0, max(0.0, 1 - (self.now - item.modified) / (FADING_DAYS * DAY)))

    def _is_excluded(self, item: FoundItem) -> bool:
        hints = self.hints
        if item.stated or hints.excludes(item.id):
            return True
        if item.modified is None or item.distance == 0 or item.id in hints.include:
            return False
        return item.modified < hints.since or item.modified > hints.until
