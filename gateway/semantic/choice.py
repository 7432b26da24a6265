"""Which of the ranked resources are injected."""

from collections.abc import Iterator
from dataclasses import dataclass

from gateway.semantic.scoring import Ranking


@dataclass(frozen=True, slots=True)
class Rule:
    """Thresholds on the calibrated probability, and how many may come in below the upper one."""

    include_score: float = 0.7  # in, whatever their number
    min_score: float = 0.5  # in while there are fewer than `top_n`
    top_n: int = 5
    fill: bool = False  # take the best up to `top_n`, relevant or not: the seed's rule


PRESETS = {
    "conservative": Rule(min_score=0.7),
    "normal": Rule(),
    "aggressive": Rule(min_score=0.0, fill=True),
}


@dataclass(frozen=True, slots=True)
class Chosen:
    """A resource that is injected, by its place among the visible ones."""

    resource: int
    probability: float
    sentence: int


def choose(ranking: Ranking, rule: Rule) -> list[Chosen]:
    """What is injected, best first; every sentence with a likely resource is heard before any has a second one."""
    ranked = list(_chosen(ranking))
    sure = [one for one in ranked if one.probability >= rule.include_score]
    room = max(0, rule.top_n - len(sure))
    likely = [one for one in ranked if one.probability < rule.include_score and _likely(one, rule)]
    heard = {one.sentence for one in sure}
    picked = sure + _fairly(likely, heard)[:room]
    return sorted(picked, key=lambda one: -one.probability)


def _chosen(ranking: Ranking) -> Iterator[Chosen]:
    rows = zip(ranking.resources, ranking.probabilities, ranking.sentences, strict=True)
    return (Chosen(int(resource), float(chance), int(sentence)) for resource, chance, sentence in rows)


def _likely(one: Chosen, rule: Rule) -> bool:
    return rule.fill or one.probability >= rule.min_score


def _fairly(likely: list[Chosen], heard: set[int]) -> list[Chosen]:
    """The best of every sentence that has nothing yet, then the others."""
    first: list[Chosen] = []
    others: list[Chosen] = []
    for one in likely:
        (others if one.sentence in heard else first).append(one)
        heard = heard | {one.sentence}
    return first + others
