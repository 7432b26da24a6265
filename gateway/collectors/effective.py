"""From a Scope to what it comes down to: known ids, and nothing that makes no difference."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from gateway.domain.agent import ToolFilter, ToolPermission
from gateway.domain.candidate import Assignment, Level
from gateway.domain.effective_scope import AppliedContext, EffectiveScope
from gateway.domain.principal import ANY_GROUP
from gateway.domain.resource import Resource
from gateway.domain.scope import Scope
from gateway.domain.snapshot import Snapshot
from gateway.errors import UnknownAlias

NOTHING: frozenset[str] = frozenset()


def reduce_scope(scope: Scope, found: Sequence[Assignment], snapshot: Snapshot) -> EffectiveScope:
    """What a scope comes down to, given the assignments that apply to it; raises UnknownAlias."""
    include = find_included(scope, snapshot)
    applied = {one.context for one in found}
    added, fetched = find_session_items(scope, snapshot)
    # What the model fetched for one agent is no business of another that does not offer it.
    retained = tuple(identity for identity in fetched if snapshot.resources[identity].context in applied)
    named = [snapshot.resources[identity] for identity in (*include, *added, *retained)]
    aliases = dict.fromkeys([*(one.context for one in found), *(resource.context for resource in named)])
    traits = [snapshot.get_traits(alias) for alias in aliases]
    told_apart = NOTHING.union(*(one.readers for one in traits), {ANY_GROUP})
    return EffectiveScope(
        contexts=tuple(AppliedContext(one.level, one.context, is_mandatory(one, scope, snapshot)) for one in found),
        include=include,
        added=added,
        retained=retained,
        exclude=find_excluded(scope, snapshot),
        languages=match_languages(NOTHING.union(*(one.languages for one in traits)), scope.request.language),
        readers=scope.readers & told_apart,
        inject=scope.request.inject,
        denied=find_denied(scope, [one for one in snapshot.tools if one.context in aliases])
        if snapshot.tools
        else NOTHING,
    )


def find_denied(scope: Scope, tools: Sequence[Resource]) -> frozenset[str]:
    """The ids of the tools that the agent, the key, the session or they themselves forbid."""
    if not tools or scope.tool_permission is ToolPermission.DENY:
        return frozenset(tool.id for tool in tools)
    filters = [scope.agent.tools] if scope.agent is not None else []
    if scope.tools is not None:
        filters.append(ToolFilter(tuple(scope.tools)))
    return frozenset(
        tool.id
        for tool in tools
        if tool.data.bounds.permission is ToolPermission.DENY or not all(one.permits(tool.id) for one in filters)
    )


def find_included(scope: Scope, snapshot: Snapshot) -> tuple[str, ...]:
    """The ids of the resources that a request names; raises UnknownAlias for others, and for those it may not read."""
    if not scope.takes_part or not scope.request.include:
        return ()
    known = []
    for identity in scope.request.include:
        resource = snapshot.find_readable(identity, scope.readers)
        if resource is None:
            visible = snapshot.list_readable(scope.readers)
            raise UnknownAlias("resource", identity, visible, param=scope.request.where("include"))
        known.append(resource.id)
    return tuple(known)


def find_excluded(scope: Scope, snapshot: Snapshot) -> frozenset[str]:
    """The ids among what a request excludes; with the snapshot's own strings, since the client's may be long."""
    asked, resources = scope.request.exclude, snapshot.resources
    if scope.session is not None and scope.session.removed:
        # What a request names itself comes in for this once, unless it excludes the same.
        asked = asked.union(frozenset(scope.session.removed).difference(scope.request.include))
    return frozenset(resources[identity].id for identity in asked if identity in resources) if asked else NOTHING


class SessionItems(NamedTuple):
    """Ids of the resources that a session brings, with the snapshot's own strings."""

    added: tuple[str, ...] = ()
    retained: tuple[str, ...] = ()


NO_ITEMS = SessionItems()


def find_session_items(scope: Scope, snapshot: Snapshot) -> SessionItems:
    """What the session brings and the caller may still read; what no longer exists is left out."""
    session = scope.session
    if session is None or not scope.takes_part:
        return NO_ITEMS

    def find_known(ids: Iterable[str]) -> tuple[str, ...]:
        known = (snapshot.find_readable(identity, scope.readers) for identity in ids)
        return tuple(one.id for one in known if one is not None)

    return SessionItems(find_known(session.added), find_known(session.retained))


def match_languages(known: Iterable[str], asked: str | None) -> frozenset[str] | None:
    """The known languages (in lower case) that cover a language: `de` covers `de-AT`. None: every resource fits."""
    languages = list(known)
    if asked is None or not languages:
        return None
    wanted = asked.lower()
    return frozenset(one for one in languages if wanted == one or wanted.startswith(one + "-"))


def is_mandatory(assignment: Assignment, scope: Scope, snapshot: Snapshot) -> bool:
    """Whether a caller cannot switch a context off: it is mandatory, or comes with an agent bound to the key."""
    if assignment.level is Level.GLOBAL:
        return assignment.context in snapshot.mandatory
    if not scope.bound or scope.agent is None:
        return False
    own = {Level.AGENT: scope.agent.alias, Level.PROFILE: scope.agent.profile}
    return own.get(assignment.level) == assignment.entity


def list_named_contexts(scope: EffectiveScope, snapshot: Snapshot) -> Iterator[str]:
    """The contexts of resources that request and session name."""
    return (snapshot.resources[one].context for one in (*scope.include, *scope.added, *scope.retained))
