"""Cases put to the gateway's own walk of a request; nothing is sent upstream."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from urllib.parse import quote

import orjson

from gateway.domain.exchange import Exchange
from gateway.domain.principal import Principal
from gateway.domain.selection import Omission, Selection
from gateway.domain.snapshot import Snapshot
from gateway.errors import Faults, InvalidRequest, ServiceUnavailable
from gateway.evaluation.cases import Case, CaseFile
from gateway.pipeline import Pipeline, Prepared

SEARCHED = ("semantic", "expansion")  # what of an injection depends on the question's meaning
# Whoever can read the policies may look at them with any user's eyes.
OPERATOR = Principal("operator", rights=frozenset({"act_as_user", "admin"}))


@dataclass(frozen=True, slots=True)
class Injected:
    """A resource that a search placed."""

    resource: str
    score: float
    via: str


@dataclass(frozen=True, slots=True)
class Missing:
    """A resource that was in reach and not placed, with what is known about why."""

    score: float | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the gateway did with a case."""

    case: Case
    injected: tuple[Injected, ...] = ()
    left: dict[str, Missing] = field(default_factory=dict)  # by resource

    @property
    def hits(self) -> int:
        return sum(one.resource in self.case.expect for one in self.injected)

    @property
    def missed(self) -> list[str]:
        return sorted(self.case.expect - {one.resource for one in self.injected})

    @property
    def unexpected(self) -> list[Injected]:
        return [one for one in self.injected if one.resource not in self.case.expect]

    @property
    def first(self) -> str | None:
        """The resource with the best score, placed or not; what only its neighbours led to has no score of its own."""
        scores = {name: one.score for name, one in self.left.items() if one.score is not None}
        scores |= {one.resource: one.score for one in self.injected if one.via == "semantic"}
        return max(scores, key=scores.__getitem__, default=None)


@dataclass(frozen=True, slots=True)
class Runner:
    """What is needed to try cases."""

    pipeline: Pipeline
    snapshot: Snapshot
    model: str | None = None  # None: the one that agent, profile or settings name

    async def outcomes(self, file: CaseFile) -> list[Outcome]:
        """One outcome per case; raises Faults with every case that the gateway would refuse."""
        outcomes, faults = [], []
        for number, case in enumerate(file.cases):
            try:
                outcomes.append(outcome_of(case, (await self.prepare(case)).injection.selection))
            except InvalidRequest as error:
                faults.append(file.refused(number, error))
        if faults:
            raise Faults(faults)
        return outcomes

    async def prepare(self, case: Case) -> Prepared:
        headers = [(f"x-context-{name}".encode(), quote(value).encode()) for name, value in case.said]
        exchange = Exchange("eval", OPERATOR, self.snapshot, headers)
        messages = [{"role": "user", "content": text} for text in (*case.earlier, case.question)]
        body = {"messages": messages} | ({"model": self.model} if self.model else {})
        prepared = await self.pipeline.prepare(exchange, orjson.dumps(body))
        if "semantic" in exchange.degraded:
            raise ServiceUnavailable("The search failed: the log says why. Its figures would mean nothing.")
        return prepared


def outcome_of(case: Case, selection: Selection) -> Outcome:
    """What of a selection a search is answerable for."""
    injected = tuple(
        Injected(one.candidate.resource.id, one.candidate.score or 0.0, one.candidate.via)
        for one in selection.volatile
        if one.candidate.via in SEARCHED
    )
    placed = {one.resource for one in injected}
    return Outcome(case, injected, dict(_left((*selection.catalogue, *selection.dropped), placed)))


def _left(every: Iterable[Omission], placed: set[str]) -> Iterator[tuple[str, Missing]]:
    # Semantic resources stay in the catalogue although they are placed.
    for left in every:
        if left.candidate.resource.id not in placed:
            yield left.candidate.resource.id, Missing(left.candidate.score, left.reason)
