"""Which of the ranked resources are injected."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gateway.domain.agent import SelectionSettings
from gateway.semantic.scoring import Ranking


@dataclass(frozen=True, slots=True)
class Rule:
    """Thresholds on the calibrated probability, and how many may come in below the upper one."""

    include_score: float = 0.7  # in, whatever their number
    min_score: float = 0.5  # in while there are fewer than `top_n`
    top_n: int = 5
    fill: bool = False  # take the best up to `top_n`, relevant or not: the seed's rule
    top_k: int = 20  # resources per sentence that are looked at closely


PRESETS = {
    "conservative": Rule(min_score=0.7),
    "normal": Rule(),
    "aggressive": Rule(min_score=0.0, fill=True),
}


def rule_for(kind: str, settings: SelectionSettings) -> Rule:
    """The preset's rule with what the settings say about a kind of resource over it."""
    preset, own = PRESETS[settings.preset or "normal"], settings.of_kind(kind)
    return Rule(
        include_score=preset.include_score if own.include_score is None else own.include_score,
        min_score=preset.min_score if own.min_score is None else own.min_score,
        top_n=preset.top_n if own.top_n is None else own.top_n,
        fill=preset.fill,
        top_k=preset.top_k if own.top_k is None else own.top_k,
    )


@dataclass(frozen=True, slots=True)
class Chosen:
    """A resource that is injected, by its place among the visible ones."""

    resource: int
    probability: float
    sentence: int
    needs: float = 0.0  # it comes in where more than this share of the budget is left


def choose(ranking: Ranking, rule: Rule) -> list[Chosen]:
    """What is injected: first what is sure, then every sentence's likeliest, then the others, each best first.

    Whoever comes in as the n-th of `top_n` needs more than (n - 1) / `top_n` of the budget: `top_n` shrinks with what
    is left of it, and a smaller budget takes a shorter part of the same list.
    """
    ranked = list(_chosen(ranking))
    sure = [one for one in ranked if one.probability >= rule.include_score]
    likely = [one for one in ranked if one.probability < rule.include_score and _likely(one, rule)]
    heard = {one.sentence for one in sure}
    seats = range(len(sure), rule.top_n)
    return sure + [
        replace(one, needs=seat / rule.top_n) for seat, one in zip(seats, _fairly(likely, heard), strict=False)
    ]


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
