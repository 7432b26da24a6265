"""Which contexts apply to a scope, from broad to narrow."""

from gateway.domain.candidate import Assignment, Level
from gateway.domain.node import Node
from gateway.domain.scope import Scope
from gateway.domain.snapshot import Snapshot


def assignments(scope: Scope, snapshot: Snapshot) -> tuple[Assignment, ...]:
    """Mandatory contexts, then those of the scope's own levels, else the global default."""
    always = tuple(Assignment(Level.GLOBAL, "", alias) for alias in snapshot.mandatory)
    if not scope.takes_part:
        return always
    # A context that is not valid now is not there at all.
    found = [one for one in own_levels(scope, snapshot) if one.context in snapshot.contexts]
    if not found and snapshot.default is not None and snapshot.default not in snapshot.mandatory:
        found.append(Assignment(Level.GLOBAL, "", snapshot.default))
    return (*always, *found)


def own_levels(scope: Scope, snapshot: Snapshot) -> list[Assignment]:
    """Profile, agent, prompt, content."""
    found: list[Assignment] = []
    for level, source in (
        (Level.PROFILE, scope.profile),
        (Level.AGENT, scope.agent),
        (Level.PROMPT, scope.prompt),
    ):
        if source is not None:
            found += (Assignment(level, source.alias, alias) for alias in source.contexts)
    if scope.node is not None:
        found += content_level(scope.node, snapshot)
    return found


def content_level(node: Node, snapshot: Snapshot) -> list[Assignment]:
    """The nearest node with an assignment wins; one that merges adds the next above it."""
    found: list[Assignment] = []
    for above in snapshot.ancestry(node):
        if not any(alias in snapshot.contexts for alias in above.contexts):
            continue
        found = [Assignment(Level.CONTENT, above.path, alias) for alias in above.contexts] + found
        if not above.merge:
            break
    return found
