"""Which of the ranked resources are injected."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from gateway.domain.agent import SelectionSettings
from gateway.domain.resource import ResourceKind
from gateway.domain.search import Pick, SearchResult
from gateway.semantic.index.nearest import Nearby
from gateway.semantic.search.calibration import Calibration
from gateway.semantic.search.scoring import Floats, Ranking, rank
from gateway.semantic.search.view import IndexView


@dataclass(frozen=True, slots=True)
class SelectionRule:
    """Thresholds on the calibrated probability, and how many may come in below the upper one."""

    include_score: float = 0.7  # in, whatever their number
    min_score: float = 0.5  # in while there are fewer than `top_n`
    top_n: int = 5
    fill: bool = False  # take the best up to `top_n`, relevant or not: the seed's rule
    top_k: int = 20  # resources per sentence that are looked at closely


PRESETS = {
    "conservative": SelectionRule(min_score=0.7),
    "normal": SelectionRule(),
    "aggressive": SelectionRule(min_score=0.0, fill=True),
}


def rule_for(kind: str, settings: SelectionSettings) -> SelectionRule:
    """The preset's rule with what the settings say about a kind of resource over it."""
    preset, own = PRESETS[settings.preset or "normal"], settings.of_kind(kind)
    return SelectionRule(
        include_score=preset.include_score if own.include_score is None else own.include_score,
        min_score=preset.min_score if own.min_score is None else own.min_score,
        top_n=preset.top_n if own.top_n is None else own.top_n,
        fill=preset.fill,
        top_k=preset.top_k if own.top_k is None else own.top_k,
    )


@dataclass(frozen=True, slots=True)
class Choice:
    """A resource that is injected, by its place among the visible ones."""

    resource: int
    probability: float
    sentence: int
    needs: float = 0.0  # it comes in where more than this share of the budget is left


def choose(ranking: Ranking, rule: SelectionRule) -> list[Choice]:
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


def _chosen(ranking: Ranking) -> Iterator[Choice]:
    rows = zip(ranking.resources, ranking.probabilities, ranking.sentences, strict=True)
    return (Choice(int(resource), float(chance), int(sentence)) for resource, chance, sentence in rows)


def _likely(one: Choice, rule: SelectionRule) -> bool:
    return rule.fill or one.probability >= rule.min_score


def _fairly(likely: list[Choice], heard: set[int]) -> list[Choice]:
    """The best of every sentence that has nothing yet, then the others."""
    first: list[Choice] = []
    others: list[Choice] = []
    for one in likely:
        (others if one.sentence in heard else first).append(one)
        heard = heard | {one.sentence}
    return first + others


SHOWN = 80  # characters of a sentence in a reason

Near = Callable[[Sequence[Pick]], list[Pick]]


@dataclass(frozen=True, slots=True)
class Domain:
    """Resources that are chosen among themselves, and by which rule."""

    resources: tuple[str, ...]  # by the keys of the index
    rule: SelectionRule


@dataclass(frozen=True, slots=True, eq=False)
class DomainQuery:
    """One domain to search: the question's sentences and the view that answers them."""

    sentences: list[str]
    vectors: Floats
    view: IndexView
    rule: SelectionRule
    nearby: Nearby | None = None  # if a server has looked up the nearest

    def ranking(self, calibration: Calibration) -> Ranking:
        return rank(self.view.evidence(self.sentences, self.vectors, self.nearby), calibration, self.rule.top_k)


def apart(resources: Sequence[str], tools: frozenset[str]) -> dict[ResourceKind, tuple[str, ...]]:
    """Something to know and something to call never take each other's place; a rule counts as something to know."""
    domains = {
        ResourceKind.REFERENCE: tuple(name for name in resources if name not in tools),
        ResourceKind.TOOL: tuple(name for name in resources if name in tools),
    }
    return {kind: names for kind, names in domains.items() if names}


def domains_of(resources: Sequence[str], tools: frozenset[str], settings: SelectionSettings) -> list[Domain]:
    return [Domain(names, rule_for(kind, settings)) for kind, names in apart(resources, tools).items()]


def found_in(every: Sequence[DomainQuery], calibration: Calibration, near: Near) -> SearchResult:
    """The picks in the order in which a budget takes them, and the scores of what was looked at besides."""
    ranked = [(asked, asked.ranking(calibration)) for asked in every]
    picks = [_pick(one, asked) for asked, ranking in ranked for one in choose(ranking, asked.rule)]
    picks.sort(key=lambda pick: (pick.needs, -pick.score))
    picks += near(picks) if picks else []
    taken = {pick.resource for pick in picks}
    passed = [pair for asked, ranking in ranked for pair in _scores(asked.view, ranking) if pair[0] not in taken]
    return SearchResult(tuple(picks), scores=tuple(sorted(passed, key=lambda pair: -pair[1])))


def _pick(one: Choice, asked: DomainQuery) -> Pick:
    sentence = asked.sentences[one.sentence]
    shown = sentence if len(sentence) <= SHOWN else sentence[: SHOWN - 1] + "…"
    why = f"relevant with probability {one.probability:.2f} to “{shown}”"
    return Pick(asked.view.resources[one.resource], one.probability, "semantic", why, one.needs)


def _scores(view: IndexView, ranking: Ranking) -> list[tuple[str, float]]:
    pairs = zip(ranking.resources, ranking.probabilities, strict=True)
    return [(view.resources[column], round(float(chance), 4)) for column, chance in pairs]
