"""What competes with what, by which rule, and which of the ranked resources are picked."""

from collections.abc import Callable, Iterator, Sequence

import msgspec
from msgspec.structs import replace

from gateway.domain.agent import SelectionSettings
from gateway.domain.resource import ResourceKind
from gateway.domain.search import Pick, SearchResult
from gateway.semantic.index.nearest import NearestPassages
from gateway.semantic.index.vector_index import Floats
from gateway.semantic.search.calibration import Calibration
from gateway.semantic.search.scoring import Ranking, rank_resources
from gateway.semantic.search.view import IndexView

SHOWN = 80  # characters of a sentence in a reason

NeighbourFinder = Callable[[Sequence[Pick]], list[Pick]]


class SelectionRule(msgspec.Struct, frozen=True):
    """Thresholds on the calibrated probability, and how many may come in below the upper one."""

    include_score: float = 0.7  # in, whatever their number
    min_score: float = 0.5  # in while there are fewer than `top_n`
    top_n: int = 5
    fill: bool = False  # take the best up to `top_n`, relevant or not
    top_k: int = 20  # resources per sentence that get a probability


PRESETS = {
    "conservative": SelectionRule(min_score=0.7),
    "normal": SelectionRule(),
    "aggressive": SelectionRule(min_score=0.0, fill=True),
}


def build_rule(kind: str, settings: SelectionSettings) -> SelectionRule:
    """The preset's rule with what the settings say about a kind of resource over it."""
    preset, own = PRESETS[settings.preset or "normal"], settings.get_for_kind(kind)
    return SelectionRule(
        include_score=preset.include_score if own.include_score is None else own.include_score,
        min_score=preset.min_score if own.min_score is None else own.min_score,
        top_n=preset.top_n if own.top_n is None else own.top_n,
        fill=preset.fill,
        top_k=preset.top_k if own.top_k is None else own.top_k,
    )


class SearchDomain(msgspec.Struct, frozen=True):
    """Resources that compete with each other, and by which rule."""

    resources: tuple[str, ...]  # by the keys of the index
    rule: SelectionRule


def build_domains(resources: Sequence[str], tools: frozenset[str], settings: SelectionSettings) -> list[SearchDomain]:
    """The domains of some resources, each with its rule."""
    return [SearchDomain(names, build_rule(kind, settings)) for kind, names in split_by_kind(resources, tools).items()]


def split_by_kind(resources: Sequence[str], tools: frozenset[str]) -> dict[ResourceKind, tuple[str, ...]]:
    """Something to know and something to call never take each other's place; a rule counts as something to know."""
    domains = {
        ResourceKind.REFERENCE: tuple(name for name in resources if name not in tools),
        ResourceKind.TOOL: tuple(name for name in resources if name in tools),
    }
    return {kind: names for kind, names in domains.items() if names}


class DomainQuery(msgspec.Struct, frozen=True, eq=False):
    """One domain to search: the query's sentences with their vectors, and the view that answers them."""

    sentences: Sequence[str]
    vectors: Floats
    view: IndexView
    rule: SelectionRule
    nearest: NearestPassages | None = None  # if a server has looked them up

    def rank(self, calibration: Calibration) -> Ranking:
        evidence = self.view.collect_evidence(self.sentences, self.vectors, self.nearest)
        return rank_resources(evidence, calibration, self.rule.top_k)


def select_picks(
    queries: Sequence[DomainQuery], calibration: Calibration, find_neighbours: NeighbourFinder | None = None
) -> SearchResult:
    """The picks in the order in which a budget takes them, and the scores of what was ranked and not picked."""
    ranked = [(query, query.rank(calibration)) for query in queries]
    picks = [_make_pick(choice, query) for query, ranking in ranked for choice in choose(ranking, query.rule)]
    picks.sort(key=lambda pick: (pick.needs, -pick.score))
    picks += find_neighbours(picks) if picks and find_neighbours is not None else []
    taken = {pick.resource for pick in picks}
    others = [pair for query, ranking in ranked for pair in _list_scores(query.view, ranking) if pair[0] not in taken]
    return SearchResult(tuple(picks), scores=tuple(sorted(others, key=lambda pair: -pair[1])))


class Choice(msgspec.Struct, frozen=True):
    """A resource to inject, by its place among the visible ones."""

    resource: int
    probability: float
    sentence: int
    needs: float = 0.0  # it comes in where more than this share of the budget is left


def choose(ranking: Ranking, rule: SelectionRule) -> list[Choice]:
    """What to inject: first what is sure, then every sentence's likeliest, then the others, each best first.

    The n-th of `top_n` needs more than (n - 1) / `top_n` of the budget: `top_n` shrinks with what is left of it, and a
    smaller budget takes a shorter part of the same list.
    """
    ranked = list(_list_choices(ranking))
    sure = [one for one in ranked if one.probability >= rule.include_score]
    likely = [one for one in ranked if one.probability < rule.include_score and _is_likely(one, rule)]
    ordered = _order_by_sentence(likely, {one.sentence for one in sure})
    places = range(len(sure), rule.top_n)
    return sure + [replace(one, needs=place / rule.top_n) for place, one in zip(places, ordered, strict=False)]


def _list_choices(ranking: Ranking) -> Iterator[Choice]:
    rows = zip(ranking.resources, ranking.probabilities, ranking.sentences, strict=True)
    return (Choice(int(resource), float(chance), int(sentence)) for resource, chance, sentence in rows)


def _is_likely(choice: Choice, rule: SelectionRule) -> bool:
    return rule.fill or choice.probability >= rule.min_score


def _order_by_sentence(likely: list[Choice], answered: set[int]) -> list[Choice]:
    """The best of every sentence that has nothing yet, then the others."""
    first: list[Choice] = []
    others: list[Choice] = []
    for one in likely:
        (others if one.sentence in answered else first).append(one)
        answered = answered | {one.sentence}
    return first + others


def _make_pick(choice: Choice, query: DomainQuery) -> Pick:
    sentence = query.sentences[choice.sentence]
    shown = sentence if len(sentence) <= SHOWN else sentence[: SHOWN - 1] + "…"
    why = f"relevant with probability {choice.probability:.2f} to “{shown}”"
    return Pick(query.view.resources[choice.resource], choice.probability, "semantic", why, choice.needs)


def _list_scores(view: IndexView, ranking: Ranking) -> list[tuple[str, float]]:
    pairs = zip(ranking.resources, ranking.probabilities, strict=True)
    return [(view.resources[column], round(float(chance), 4)) for column, chance in pairs]
