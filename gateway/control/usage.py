"""Who uses a context: every place that assigns it, and how many nodes take it over from there."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gateway.domain.agent import Agent, Profile, Prompt
from gateway.domain.candidate import Level
from gateway.domain.snapshot import Snapshot
from gateway.scopes.levels import content_level


@dataclass(frozen=True, slots=True)
class Use:
    """One place that a context is used at."""

    level: Level
    entity: str  # alias or path of what names it; empty for global
    name: str
    through: str = "assignment"  # or "default", "mandatory"
    path: str | None = None  # content: where the node stands
    inherited: int | None = None  # content: how many nodes below take it over


def uses(context: str, snapshot: Snapshot) -> list[Use]:
    """Every use of a context in one workspace, from broad to narrow."""
    return [*_globally(context, snapshot), *_by_aliases(context, snapshot), *_by_nodes(context, snapshot)]


def _globally(context: str, snapshot: Snapshot) -> Iterator[Use]:
    if context in snapshot.mandatory:
        yield Use(Level.GLOBAL, "", "Every request", "mandatory")
    if context == snapshot.default:
        yield Use(Level.GLOBAL, "", "Requests that nothing else applies to", "default")


def _by_aliases(context: str, snapshot: Snapshot) -> Iterator[Use]:
    levels: tuple[tuple[Level, Mapping[str, Profile | Agent | Prompt]], ...] = (
        (Level.PROFILE, snapshot.profiles),
        (Level.AGENT, snapshot.agents),
        (Level.PROMPT, snapshot.prompts),
    )
    for level, known in levels:
        for one in sorted(known.values(), key=lambda one: one.alias):
            if context in one.contexts:
                yield Use(level, one.alias, one.name)


def _by_nodes(context: str, snapshot: Snapshot) -> Iterator[Use]:
    taken_over = Counter(
        assigned.entity
        for node in snapshot.nodes.values()
        for assigned in content_level(node, snapshot)
        if assigned.context == context and assigned.entity != node.path
    )
    for path, node in sorted(snapshot.nodes.items()):
        if context in node.contexts:
            yield Use(Level.CONTENT, path, node.title, path=path, inherited=taken_over[path])
