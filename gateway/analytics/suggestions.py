"""What the figures suggest to change, each with its reason, its evidence and the change itself."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from gateway.analytics.figures import UsageFigures, make_empty
from gateway.analytics.reports import Period, Reports
from gateway.domain.agent import Agent
from gateway.domain.resource import Mode, Resource, ResourceKind
from gateway.domain.retriever import Retriever
from gateway.domain.snapshot import Snapshot
from gateway.domain.statistics import RESOURCES, SEPARATOR

MIN_INJECTIONS = 50  # before anything is said about an injected resource
MIN_MEASURED = 20  # answers that were compared with it
MIN_APPLIED = 200  # requests that its context applied to, before something unused is worth a word
MIN_SEARCHES = 100  # the same for semantic search
MIN_SESSIONS = 10
MOST_SESSIONS = 0.6  # "in most sessions"
OFTEN = 0.3  # a share of injections

IsStored = Callable[[str, str], bool]  # kind, alias → whether the management API can change it


class ProposedChange(msgspec.Struct, frozen=True):
    """A call of the management API: GET the path, merge the fields into the reply, and PUT it back; or DELETE it."""

    method: str
    path: str
    merge: Mapping[str, Any] = msgspec.field(default_factory=dict)
    asks: tuple[str, ...] = ()  # fields that only a person can fill in
    read_only: bool = False  # it is defined in a file: change it there


class Suggestion(msgspec.Struct, frozen=True):
    """One suggestion about one resource."""

    code: str
    resource: str
    reason: str
    figures: Mapping[str, Any]
    change: ProposedChange


class ResourceEvidence(msgspec.Struct, frozen=True):
    """Everything that is known about one resource."""

    resource: Resource
    own: UsageFigures
    context: UsageFigures  # of its context, for how often it could have been used
    sessions: Mapping[str, Any]
    context_sessions: Mapping[str, Any]
    tightest: "TightBudget | None" = None


class TightBudget(msgspec.Struct, frozen=True):
    """The agent for which a resource was left out most often."""

    agent: Agent
    left_out: int
    budget: int


class Advisor(msgspec.Struct, frozen=True):
    """Finds suggestions for one workspace."""

    reports: Reports
    snapshot: Snapshot
    is_stored: IsStored
    default_budget: int

    async def suggest(self, workspace: str, period: Period) -> list[dict[str, Any]]:
        """Every suggestion, those about the most tokens first."""
        found = await self.reports.sum_resources(workspace, period)
        known = self.snapshot.resources
        texts = [
            name for name, one in known.items() if one.kind is not ResourceKind.TOOL
        ]  # what is said is about texts
        names = await asyncio.to_thread(lambda: [name for name in texts if self._has_evidence(name, found)])
        contexts = {known[name].context for name in names}
        sessions = await self.reports.count_sessions(workspace, period, [*names, *contexts]) if names else {}
        tight = await self._find_tight_budgets(workspace, period, found)
        suggestions: list[tuple[int, Suggestion]] = []
        for name in names:
            resource, own = known[name], found.get(name, make_empty(RESOURCES))
            evidence = ResourceEvidence(
                resource,
                own,
                found.get(resource.context, make_empty(RESOURCES)),
                sessions.get(name, {}),
                sessions.get(resource.context, {}),
                tight.get(name),
            )
            suggestions += ((own["tokens"], one) for one in self._judge(evidence))
        suggestions.sort(key=lambda one: (-one[0], one[1].resource, one[1].code))
        return [msgspec.to_builtins(one) for _, one in suggestions]

    def _has_evidence(self, name: str, found: Mapping[str, UsageFigures]) -> bool:
        own, context = found.get(name), found.get(self.snapshot.resources[name].context)
        seen = own["injected"] + own["over_budget"] + own["fetched"] if own is not None else 0
        return seen >= MIN_SESSIONS or (context is not None and context["applied"] >= MIN_SEARCHES)

    async def _find_tight_budgets(
        self, workspace: str, period: Period, found: Mapping[str, UsageFigures]
    ) -> dict[str, TightBudget]:
        wanted = {name for name, figures in found.items() if _is_often_over_budget(figures)}
        tight: dict[str, TightBudget] = {}
        by_agent = await self.reports.sum_agent_resources(workspace, period) if wanted else {}
        for key, figures in by_agent.items():
            alias, _, name = key.partition(SEPARATOR)
            agent, left = self.snapshot.agents.get(alias), figures["over_budget"]
            if agent is None or name not in wanted or not left:
                continue
            if name not in tight or left > tight[name].left_out:
                total = agent.budget.total
                tight[name] = TightBudget(agent, left, self.default_budget if total is None else total)
        return tight

    def _judge(self, evidence: ResourceEvidence) -> Iterator[Suggestion]:
        for judge in (_judge_shown, _judge_unused, _judge_fetched, _judge_picked, _judge_size, _judge_budget):
            found = judge(evidence)
            if found is not None:
                yield self._mark_read_only(found)

    def _mark_read_only(self, found: Suggestion) -> Suggestion:
        kind, alias = found.change.path.split("/")[3:5]
        if self.is_stored(kind, alias):
            return found
        change = replace(found.change, read_only=True)
        return Suggestion(found.code, found.resource, found.reason, found.figures, change)


def _judge_shown(evidence: ResourceEvidence) -> Suggestion | None:
    """Rules are obeyed, not quoted: that no answer shows them says nothing."""
    resource, own = evidence.resource, evidence.own
    if resource.kind is ResourceKind.RULE or _is_fixed(resource) or resource.mode not in (Mode.ALWAYS, Mode.SEMANTIC):
        return None
    if own["injected"] < MIN_INJECTIONS or own["measured"] < MIN_MEASURED or own["shown"]:
        return None
    reason = f"Injected {own['injected']} times; none of the {own['measured']} answers that were compared shows it."
    figures = _pick(own, "injected", "measured", "shown", "tokens", "fetched")
    return Suggestion("never_shown", resource.id, reason, figures, _change(resource, {"mode": "on_demand"}))


def _judge_unused(evidence: ResourceEvidence) -> Suggestion | None:
    resource, own, applied = evidence.resource, evidence.own, evidence.context["applied"]
    used = own["injected"] + own["fetched"] + own["over_budget"]
    if resource.mode not in (Mode.ON_DEMAND, Mode.MANUAL) or used or applied < MIN_APPLIED:
        return None
    reason = f"Its context applied to {applied} requests, and it was neither fetched nor injected once."
    change = ProposedChange("DELETE", _make_path(resource))
    return Suggestion("never_used", resource.id, reason, {"applied": applied, "fetched": 0, "injected": 0}, change)


def _judge_fetched(evidence: ResourceEvidence) -> Suggestion | None:
    resource = evidence.resource
    if resource.mode not in (Mode.ON_DEMAND, Mode.SEMANTIC) or not evidence.sessions:
        return None
    fetched = evidence.sessions["fetched"]["count"]
    applied = evidence.context_sessions["applied"]["count"] if evidence.context_sessions else 0
    if applied < MIN_SESSIONS or fetched < MOST_SESSIONS * applied:
        return None
    reason = f"Fetched in {fetched} of {applied} sessions that its context applied to."
    figures = {"fetched_sessions": fetched, "applied_sessions": applied, "fetched": evidence.own["fetched"]}
    return Suggestion("fetched_often", resource.id, reason, figures, _change(resource, {"mode": "always"}))


def _judge_picked(evidence: ResourceEvidence) -> Suggestion | None:
    resource, own, applied = evidence.resource, evidence.own, evidence.context["applied"]
    if isinstance(resource.data, Retriever):
        return None  # its passages are injected, and never itself
    if resource.mode is not Mode.SEMANTIC or own["injected"] or own["over_budget"] or applied < MIN_SEARCHES:
        return None
    missed = f", although models fetched it {own['missed']} times" if own["missed"] else ""
    reason = f"Semantic search has not picked it in {applied} requests{missed}. Describe it, or add example questions."
    figures = {"applied": applied, **_pick(own, "picked", "missed", "fetched")}
    change = ProposedChange("PUT", _make_path(resource), {}, ("examples", "description"))
    return Suggestion("never_picked", resource.id, reason, figures, change)


def _judge_size(evidence: ResourceEvidence) -> Suggestion | None:
    resource, own = evidence.resource, evidence.own
    if own["injected"] < MIN_INJECTIONS or own["truncated"] < OFTEN * own["injected"]:
        return None
    reason = f"Truncated in {own['truncated']} of {own['injected']} injections. Split it into several resources."
    figures = _pick(own, "injected", "truncated", "tokens")
    return Suggestion(
        "truncated_often", resource.id, reason, figures, ProposedChange("PUT", _make_path(resource), {}, ("data",))
    )


def _judge_budget(evidence: ResourceEvidence) -> Suggestion | None:
    resource, own = evidence.resource, evidence.own
    if not _is_often_over_budget(own):
        return None
    left = own["over_budget"]
    reason = f"The budget left it out of {left} of {left + own['injected']} requests."
    figures: dict[str, Any] = _pick(own, "over_budget", "injected", "tokens")
    tight = evidence.tightest
    if tight is None or not own["injected"]:
        return Suggestion("over_budget_often", resource.id, reason, figures, _change(resource, {"mode": "on_demand"}))
    needed = tight.budget + -(-own["tokens"] // own["injected"])
    figures |= {"agent": tight.agent.alias, "budget": tight.budget}
    budget = {"total": needed, "max": tight.agent.budget.maximum}
    change = ProposedChange("PUT", f"/api/v1/agents/{quote(tight.agent.alias)}", {"budget": budget})
    return Suggestion("over_budget_often", resource.id, reason, figures, change)


def _is_often_over_budget(own: UsageFigures) -> bool:
    wanted = own["over_budget"] + own["injected"]
    return wanted >= MIN_INJECTIONS and own["over_budget"] >= OFTEN * wanted


def _is_fixed(resource: Resource) -> bool:
    return resource.required or resource.mandatory


def _pick(figures: UsageFigures, *names: str) -> dict[str, int]:
    return {name: figures[name] for name in names}


def _change(resource: Resource, merge: Mapping[str, Any]) -> ProposedChange:
    return ProposedChange("PUT", _make_path(resource), merge)


def _make_path(resource: Resource) -> str:
    context, _, id = resource.id.partition("/")
    return f"/api/v1/contexts/{quote(context)}/resources/{quote(id, safe='')}"
