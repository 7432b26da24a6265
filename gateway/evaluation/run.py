"""Runs cases through the pipeline of a request; nothing is sent upstream."""

from collections.abc import Iterable, Iterator
from urllib.parse import quote

import msgspec
import orjson

from gateway.domain.exchange import Exchange
from gateway.domain.principal import ACT_AS_USER, Principal
from gateway.domain.selection import Omission, Selection
from gateway.domain.snapshot import Snapshot
from gateway.errors import Faults, InvalidRequest, ServiceUnavailable
from gateway.evaluation.cases import Case, CaseFile
from gateway.pipeline import Pipeline, PreparedRequest

SEARCHED = ("semantic", "expansion")  # what of an injection depends on the question
# Whoever can read the policies may act as any user.
OPERATOR = Principal("operator", rights=frozenset({ACT_AS_USER, "admin"}))


class InjectedResource(msgspec.Struct, frozen=True):
    """A resource that semantic search injected, or an expected one that is placed anyway."""

    resource: str
    score: float
    via: str


class UnplacedResource(msgspec.Struct, frozen=True):
    """A resource that could have been injected and was not, with what is known about why."""

    score: float | None
    reason: str | None


class Outcome(msgspec.Struct, frozen=True):
    """What the gateway did with a case."""

    case: Case
    injected: tuple[InjectedResource, ...] = ()
    unplaced: dict[str, UnplacedResource] = msgspec.field(default_factory=dict)  # by resource

    @property
    def hits(self) -> int:
        return sum(one.resource in self.case.expect for one in self.injected)

    @property
    def missed_ids(self) -> list[str]:
        return sorted(self.case.expect - {one.resource for one in self.injected})

    @property
    def unexpected_resources(self) -> list[InjectedResource]:
        return [one for one in self.injected if one.resource not in self.case.expect]

    @property
    def best_id(self) -> str | None:
        """The resource with the best score, injected or not; one that came by expansion has no score of its own."""
        scores = {name: one.score for name, one in self.unplaced.items() if one.score is not None}
        scores |= {one.resource: one.score for one in self.injected if one.via == "semantic"}
        return max(scores, key=scores.__getitem__, default=None)


class CaseRunner(msgspec.Struct, frozen=True):
    """Runs cases."""

    pipeline: Pipeline
    snapshot: Snapshot
    model: str | None = None  # None: the one that agent, profile or settings name

    async def run(self, file: CaseFile) -> list[Outcome]:
        """One outcome per case; raises Faults with every case that the gateway rejects."""
        outcomes, faults = [], []
        for number, case in enumerate(file.cases):
            try:
                outcomes.append(read_outcome(case, (await self.prepare(case)).injection.selection))
            except InvalidRequest as error:
                faults.append(file.build_fault(number, error))
        if faults:
            raise Faults(faults)
        return outcomes

    async def prepare(self, case: Case) -> PreparedRequest:
        headers = [(f"x-context-{name}".encode(), quote(value).encode()) for name, value in case.headers]
        exchange = Exchange("eval", OPERATOR, self.snapshot, headers)
        messages = [{"role": "user", "content": text} for text in (*case.earlier, case.question)]
        body = {"messages": messages} | ({"model": self.model} if self.model else {})
        prepared = await self.pipeline.prepare(exchange, orjson.dumps(body))
        if "semantic" in exchange.degraded:
            raise ServiceUnavailable("Semantic search failed; see the log. The figures would be meaningless.")
        return prepared


def read_outcome(case: Case, selection: Selection) -> Outcome:
    """What semantic search did to a selection. What is expected counts as injected, however it got there."""
    injected = tuple(
        InjectedResource(one.candidate.resource.id, one.candidate.score or 0.0, one.candidate.via)
        for one in (*selection.stable, *selection.volatile)
        if one.candidate.via in SEARCHED or one.candidate.resource.id in case.expect
    )
    names = {one.resource for one in injected}
    return Outcome(case, injected, dict(_list_unplaced((*selection.catalogue, *selection.dropped), names)))


def _list_unplaced(omissions: Iterable[Omission], injected: set[str]) -> Iterator[tuple[str, UnplacedResource]]:
    # Semantic resources stay in the catalogue although they are injected.
    for omission in omissions:
        if omission.candidate.resource.id not in injected:
            yield omission.candidate.resource.id, UnplacedResource(omission.candidate.score, omission.reason)
