"""What a search comes to: chosen in each domain by its own rule, then what is near to that, and what was passed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gateway.domain.agent import SelectionSettings
from gateway.domain.pick import Found, Pick
from gateway.domain.resource import Kind
from gateway.semantic.calibration import Calibration
from gateway.semantic.choice import Chosen, Rule, choose, rule_for
from gateway.semantic.nearest import Nearby
from gateway.semantic.scoring import Floats, Ranking, rank
from gateway.semantic.view import View

SHOWN = 80  # characters of a sentence in a reason

Near = Callable[[Sequence[Pick]], list[Pick]]


@dataclass(frozen=True, slots=True)
class Domain:
    """Resources that are chosen among themselves, and by which rule."""

    resources: tuple[str, ...]  # by the keys of the index
    rule: Rule


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """One domain to search: the question's sentences and the view that answers them."""

    sentences: list[str]
    vectors: Floats
    view: View
    rule: Rule
    nearby: Nearby | None = None  # if a server has looked up the nearest

    def ranking(self, calibration: Calibration) -> Ranking:
        return rank(self.view.evidence(self.sentences, self.vectors, self.nearby), calibration, self.rule.top_k)


def apart(resources: Sequence[str], tools: frozenset[str]) -> dict[Kind, tuple[str, ...]]:
    """Something to know and something to call never take each other's place; a rule counts as something to know."""
    domains = {
        Kind.REFERENCE: tuple(name for name in resources if name not in tools),
        Kind.TOOL: tuple(name for name in resources if name in tools),
    }
    return {kind: names for kind, names in domains.items() if names}


def domains_of(resources: Sequence[str], tools: frozenset[str], settings: SelectionSettings) -> list[Domain]:
    return [Domain(names, rule_for(kind, settings)) for kind, names in apart(resources, tools).items()]


def found_in(every: Sequence[Asked], calibration: Calibration, near: Near) -> Found:
    """The picks in the order in which a budget takes them, and the scores of what was looked at besides."""
    ranked = [(asked, asked.ranking(calibration)) for asked in every]
    picks = [_pick(one, asked) for asked, ranking in ranked for one in choose(ranking, asked.rule)]
    picks.sort(key=lambda pick: (pick.needs, -pick.score))
    picks += near(picks) if picks else []
    taken = {pick.resource for pick in picks}
    passed = [pair for asked, ranking in ranked for pair in _scores(asked.view, ranking) if pair[0] not in taken]
    return Found(tuple(picks), scores=tuple(sorted(passed, key=lambda pair: -pair[1])))


def _pick(one: Chosen, asked: Asked) -> Pick:
    sentence = asked.sentences[one.sentence]
    shown = sentence if len(sentence) <= SHOWN else sentence[: SHOWN - 1] + "…"
    why = f"relevant with probability {one.probability:.2f} to “{shown}”"
    return Pick(asked.view.resources[one.resource], one.probability, "semantic", why, one.needs)


def _scores(view: View, ranking: Ranking) -> list[tuple[str, float]]:
    pairs = zip(ranking.resources, ranking.probabilities, strict=True)
    return [(view.resources[column], round(float(chance), 4)) for column, chance in pairs]
