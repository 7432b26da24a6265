"""The contexts collector: resources of the contexts that apply to a scope."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from gateway.domain.candidate import BREADTH, Candidate, Level
from gateway.domain.effective_scope import AppliedContext, EffectiveScope
from gateway.domain.principal import may_read
from gateway.domain.resource import Mode, Resource, ResourceKind
from gateway.domain.selection import Omission
from gateway.domain.snapshot import Snapshot
from gateway.domain.tool import CallableTool

VIA = "contexts"

Merge = Callable[[Resource, Resource], Resource | None]  # two conflicting resources as one, None: the narrow one alone


class ConflictKey(NamedTuple):
    """The type and key of resources that exclude each other."""

    type: str
    key: str


class CollectedCandidates(msgspec.Struct, frozen=True):
    """Candidates in the order in which they are placed, and what was dropped, with reasons."""

    candidates: tuple[Candidate, ...]
    dropped: tuple[Omission, ...] = ()
    missing: tuple[str, ...] = ()  # ids of resources whose material was never fetched
    degraded: frozenset[str] = frozenset()  # what kinds of material those are


def collect_contexts(scope: EffectiveScope, snapshot: Snapshot, merge: Merge) -> CollectedCandidates:
    """Filter by permission, language, exclusion; then take each id once; then settle conflicts."""
    proposed = [*propose_assigned(scope, snapshot), *propose_named(scope, snapshot)]
    if not scope.inject:
        proposed = [candidate for candidate in proposed if candidate.mandatory]
    proposed = [candidate for candidate in proposed if is_available(candidate, scope)]
    translated = find_translated(proposed, scope.languages) if scope.languages is not None else NO_FORMS
    dropped: list[Omission] = []
    kept: list[Candidate] = []
    missing: list[Resource] = []
    for candidate in proposed:
        resource = candidate.resource
        filtered = not candidate.mandatory or translated.stand_for(candidate)
        if filtered and not matches_language(resource.languages, scope.languages):
            dropped.append(Omission(candidate, "language"))
        elif is_listed(resource, scope.exclude) and not candidate.mandatory:
            dropped.append(Omission(candidate, "excluded"))
        elif resource.text is None:
            missing.append(resource)
        elif not is_server(resource):  # its tools are candidates of their own
            kept.append(candidate)
    winners, losers = settle_conflicts(deduplicate(kept), merge)
    degraded = frozenset("mcp" if resource.kind is ResourceKind.TOOL else "links" for resource in missing)
    ids = tuple(dict.fromkeys(resource.id for resource in missing))
    return CollectedCandidates(tuple(winners), (*deduplicate_omissions(dropped), *losers), ids, degraded)


def propose_assigned(scope: EffectiveScope, snapshot: Snapshot) -> Iterable[Candidate]:
    wanted = frozenset((*scope.include, *scope.added, *scope.retained))
    for context in scope.contexts:
        why = explain_context(context, snapshot)
        for resource in snapshot.contexts[context.alias].resources:
            yield Candidate(
                resource,
                context.level,
                "",
                VIA,
                why,
                named=is_listed(resource, wanted),
                # What the caller names itself holds no power over what is mandatory anyway.
                mandatory=context.mandatory or (resource.mandatory and context.level is not Level.REQUEST),
                imposed=context.mandatory,
            )


def propose_named(scope: EffectiveScope, snapshot: Snapshot) -> Iterable[Candidate]:
    """Resources that the session or the request names by id."""
    for ids, via, why in (
        (scope.added, "session", "added to the session"),
        (scope.include, "include", "named by the request"),
        (scope.retained, "retained", "fetched earlier in the session"),
    ):
        for identity in ids:
            for resource in list_named(snapshot.resources[identity], snapshot):
                yield Candidate(resource, Level.SESSION, "", via, why, named=True)


def list_named(resource: Resource, snapshot: Snapshot) -> Iterable[Resource]:
    """A resource, and if it stands for a server, its tools."""
    yield resource
    if is_server(resource):
        server = frozenset({resource.id})
        others = (one for one in snapshot.contexts[resource.context].resources if one is not resource)
        yield from (one for one in others if is_listed(one, server))


def is_server(resource: Resource) -> bool:
    """Whether it only stands for the tools of a server."""
    return resource.kind is ResourceKind.TOOL and not isinstance(resource.data, CallableTool)


def is_listed(resource: Resource, ids: frozenset[str]) -> bool:
    """Whether a resource is among some ids, or the server that it belongs to."""
    if not ids or resource.id in ids:
        return bool(ids)
    return isinstance(resource.data, CallableTool) and resource.data.server in ids


def is_available(candidate: Candidate, scope: EffectiveScope) -> bool:
    """Whether the caller may read a resource and, if it is included by hand only, has asked for it.

    A tool that is included by hand stays, since another may bring it.
    """
    resource = candidate.resource
    if not may_read(scope.readers, resource.readers) or is_listed(resource, scope.denied):
        return False
    return resource.mode is not Mode.MANUAL or candidate.named or resource.kind is ResourceKind.TOOL


class MandatoryForms(msgspec.Struct, frozen=True):
    """The conflicts of which a mandatory resource is there in the language that is asked for."""

    mandatory: frozenset[ConflictKey | None] = frozenset()
    imposed: frozenset[ConflictKey | None] = frozenset()

    def stand_for(self, candidate: Candidate) -> bool:
        """Whether a mandatory resource in another language is not needed, since one of these takes its place."""
        forms = self.imposed if candidate.imposed else self.mandatory
        return get_conflict(candidate.resource) in forms


NO_FORMS = MandatoryForms()


def find_translated(candidates: Iterable[Candidate], wanted: frozenset[str]) -> MandatoryForms:
    """What is mandatory and there in a wanted language; anything else is placed in the language that it has."""
    usable = [
        candidate
        for candidate in candidates
        if candidate.mandatory
        and candidate.resource.text is not None
        and candidate.resource.conflict_key is not None
        and matches_language(candidate.resource.languages, wanted)
    ]
    return MandatoryForms(
        frozenset(get_conflict(one.resource) for one in usable),
        frozenset(get_conflict(one.resource) for one in usable if one.imposed),
    )


def get_conflict(resource: Resource) -> ConflictKey | None:
    """What a resource shares with those that exclude it."""
    return None if resource.conflict_key is None else ConflictKey(resource.type, resource.conflict_key)


def matches_language(languages: tuple[str, ...], wanted: frozenset[str] | None) -> bool:
    """Whether a resource in some languages suits somebody who wants one of others (in lower case)."""
    return wanted is None or not languages or any(language.lower() in wanted for language in languages)


def deduplicate(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Each resource at its first position, with the narrowest level that brought it."""
    taken: dict[str, Candidate] = {}
    for candidate in candidates:
        known = taken.get(candidate.resource.id)
        if known is None:
            taken[candidate.resource.id] = candidate
            continue
        narrow = candidate if breadth_of(candidate) > breadth_of(known) else known
        taken[candidate.resource.id] = replace(
            narrow,
            named=known.named or candidate.named,
            mandatory=known.mandatory or candidate.mandatory,
            imposed=known.imposed or candidate.imposed,
        )
    return list(taken.values())


class Settlement(NamedTuple):
    """The candidates that remain after all conflicts, in order, and those that were overridden."""

    winners: list[Candidate]
    losers: list[Omission]


class ConflictWinner(NamedTuple):
    """The winner of a conflict and the id of the resource whose place it takes."""

    candidate: Candidate
    place: str


def settle_conflicts(candidates: list[Candidate], merge: Merge) -> Settlement:
    """Of resources with the same type and key the narrowest wins, on the same level the later; types may merge them.

    A mandatory one wins over all that are not, and what applies whatever the caller chooses wins over all the rest:
    callers choose agents, prompts, content and what they include.
    """
    groups: dict[ConflictKey, list[Candidate]] = {}
    for candidate in candidates:
        if (conflict := get_conflict(candidate.resource)) is not None:
            groups.setdefault(conflict, []).append(candidate)
    standing: dict[str, Candidate] = {}  # id of the resource whose position is taken → the winner
    losers: list[Omission] = []
    for group in groups.values():
        # Stable: on one level the later is the narrower.
        ranked = sorted(group, key=lambda one: (one.imposed, one.mandatory, breadth_of(one)))
        winner = merge_conflicting(ranked, merge)
        standing[winner.place] = winner.candidate
        losers += (Omission(beaten, "overridden") for beaten in ranked[:-1])
    beaten_ids = {beaten.resource.id for group in groups.values() for beaten in group}
    winners = []
    for candidate in candidates:
        identity = candidate.resource.id
        if identity in standing:
            winners.append(standing[identity])
        elif identity not in beaten_ids:
            winners.append(candidate)
    return Settlement(winners, losers)


def merge_conflicting(ranked: list[Candidate], merge: Merge) -> ConflictWinner:
    """The last, merged with those before it if their type supports that.

    A merged resource stands where the broadest of them stood; one that merely wins keeps its own place.
    """
    winner = broadest = ranked[-1]
    resource = winner.resource
    for weaker in reversed(ranked[:-1]):
        merged = merge(resource, weaker.resource)
        if merged is not None:
            resource = merged
            broadest = weaker if breadth_of(weaker) <= breadth_of(broadest) else broadest
    return ConflictWinner(replace(winner, resource=resource), broadest.resource.id)


def breadth_of(candidate: Candidate) -> int:
    return BREADTH[candidate.level]


def deduplicate_omissions(dropped: Iterable[Omission]) -> Iterable[Omission]:
    """Each dropped resource once, even if several levels brought it."""
    return {(left.candidate.resource.id, left.reason): left for left in dropped}.values()


def explain_context(context: AppliedContext, snapshot: Snapshot) -> str:
    """Why a context applies; "" if it is assigned to something, which the selection of each scope names."""
    match context.level:
        case Level.GLOBAL:
            mandatory = context.alias in snapshot.mandatory
            return "mandatory for every request" if mandatory else "global default, since nothing else applies"
        case Level.REQUEST:
            return "named by the request"
    return ""


def build_merge(registry: Any) -> Merge:
    """A function that merges two resources as their type does; it returns None if the type does not merge."""

    def merge(narrow: Resource, broad: Resource) -> Resource | None:
        kind = registry.get(narrow.type)
        data = kind.merge(narrow.data, broad.data)
        if data is narrow.data:
            return None
        # Rendered only if the broader one added something: there may be many of them, and a text may be long.
        text = narrow.text if data == narrow.data else kind.render(data, None)
        return replace(narrow, data=data, text=text, required=narrow.required or broad.required)

    return merge
