"""Contexts that are larger than the budgets of the agents that use them."""

from collections.abc import Callable, Collection, Iterator

import msgspec

from gateway.domain.agent import Agent
from gateway.domain.resource import Mode
from gateway.domain.retriever import Retriever
from gateway.domain.snapshot import Snapshot
from gateway.fair_queue import FairThreads
from gateway.policies.repository import PolicyRepository
from gateway.resources.registry import ResourceRegistry

Count = Callable[[str], int]
LARGE = 500  # tokens of a text that not every request should carry
MOST_NAMED = 3  # contexts or warnings that a message names


class ContextSizes(msgspec.Struct, frozen=True):
    """The tokens of what contexts always place, each counted when somebody asks."""

    snapshot: Snapshot
    count: Count
    budget: int  # of agents without one of their own
    _known: dict[str, int] = msgspec.field(default_factory=dict)

    def list_warnings(self, agents: Collection[str] | None = None) -> Iterator[str]:
        """A sentence for every agent whose contexts always place more than its budget; None: for all of them."""
        for agent in self.snapshot.agents.values():
            if agents is not None and agent.alias not in agents:
                continue
            aliases, budget = self._list_contexts(agent), self._find_budget(agent)
            if self._measure_bytes(aliases) <= budget:
                continue  # a token has at least one byte
            sizes = {alias: self._count_always(alias) for alias in aliases}
            total = sum(sizes.values())
            if total > budget:
                largest = sorted(sizes, key=lambda alias: -sizes[alias])[:MOST_NAMED]
                named = ", ".join(f"{alias} {sizes[alias]}" for alias in largest)
                yield f"agent {agent.alias}: its contexts always place {total} tokens ({named}), its budget is {budget}"

    def find_users(self, kind: str, alias: str) -> set[str]:
        """The agents that a change of an object concerns."""
        agents = self.snapshot.agents.values()
        match kind:
            case "contexts":
                return {one.alias for one in agents if alias in self._list_contexts(one)}
            case "profiles":
                return {one.alias for one in agents if one.profile == alias}
            case "agents":
                return {alias}
        return set()

    def _list_contexts(self, agent: Agent) -> list[str]:
        profile = self.snapshot.profiles.get(agent.profile or "")
        named = [*self.snapshot.mandatory, *(profile.contexts if profile is not None else ()), *agent.contexts]
        return [alias for alias in dict.fromkeys(named) if alias in self.snapshot.contexts]

    def _find_budget(self, agent: Agent) -> int:
        profile = self.snapshot.profiles.get(agent.profile or "")
        totals = (agent.budget.total, profile.budget.total if profile is not None else None)
        return next((total for total in totals if total is not None), self.budget)

    def _list_texts(self, alias: str) -> Iterator[str]:
        resources = self.snapshot.contexts[alias].resources
        return (one.text for one in resources if one.mode is Mode.ALWAYS and one.text)

    def _measure_bytes(self, aliases: Collection[str]) -> int:
        return sum(len(text.encode()) for alias in aliases for text in self._list_texts(alias))

    def _count_always(self, alias: str) -> int:
        if alias not in self._known:
            self._known[alias] = sum(map(self.count, self._list_texts(alias)))
        return self._known[alias]


def list_mode_advice(snapshot: Snapshot, types: ResourceRegistry, count: Count) -> Iterator[str]:
    """A sentence for every resource that is always included although its type suits another mode, and that costs."""
    for resource in snapshot.resources.values():
        kind = types.get(resource.type)
        if kind is None or resource.mode is not Mode.ALWAYS or resource.required or resource.mandatory:
            continue
        if kind.recommended_mode is Mode.ALWAYS:
            continue
        advice = f"{resource.id}: {kind.recommended_mode} suits most resources of the type {kind.alias}"
        text = resource.text or ""
        if isinstance(resource.data, Retriever):
            yield f"{advice}; this one is asked for every request"
        elif len(text) > LARGE and (tokens := count(text)) > LARGE:
            yield f"{advice}; this one adds {tokens} tokens to every request"


class SizeCheck(msgspec.Struct, frozen=True):
    """Tells whoever saves an object that it makes a context larger than a budget."""

    policies: PolicyRepository
    threads: FairThreads
    count: Count
    budget: int

    async def warn(self, workspace: str, kind: str, alias: str) -> dict[str, str]:
        """The headers of the reply."""

        def find() -> list[str]:
            sizes = ContextSizes(self.policies.get_snapshot(workspace), self.count, self.budget)
            users = sizes.find_users(kind, alias)
            return list(sizes.list_warnings(users)) if users else []

        found = await self.threads.run(workspace, find)
        more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
        return {"x-context-warning": "; ".join(found[:MOST_NAMED]) + more} if found else {}
