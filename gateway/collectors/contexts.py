"""The contexts collector: resources of the contexts that apply to a scope."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from gateway.domain.candidate import BREADTH, Assignment, Candidate, Level
from gateway.domain.principal import may_read
from gateway.domain.resource import Mode, Resource
from gateway.domain.scope import Scope
from gateway.domain.selection import Omission
from gateway.domain.snapshot import Snapshot
from gateway.errors import UnknownAlias

VIA = "contexts"

Merge = Callable[[Resource, Resource], Resource | None]  # two conflicting resources as one, None: the narrow one alone


class ConflictKey(NamedTuple):
    """The type and key of resources that exclude each other."""

    type: str
    key: str


@dataclass(frozen=True, slots=True)
class CollectedCandidates:
    """Candidates in the order in which they are placed, and what was dropped, with reasons."""

    candidates: tuple[Candidate, ...]
    dropped: tuple[Omission, ...] = ()
    missing: tuple[str, ...] = ()  # ids of resources whose material was never fetched


def collect_contexts(
    scope: Scope, found: Iterable[Assignment], snapshot: Snapshot, merge: Merge
) -> CollectedCandidates:
    """Filter by permission, language, exclusion; then take each id once; then settle conflicts."""
    proposed = [*propose_assigned(scope, found, snapshot), *propose_named(scope, snapshot)]
    asked = scope.request
    if not asked.inject:
        proposed = [candidate for candidate in proposed if candidate.mandatory]
    proposed = [candidate for candidate in proposed if is_available(candidate, scope)]
    translated = find_translated(proposed, asked.language) if asked.language is not None else NO_FORMS
    dropped: list[Omission] = []
    kept: list[Candidate] = []
    missing: list[str] = []
    for candidate in proposed:
        resource = candidate.resource
        filtered = not candidate.mandatory or translated.stand_for(candidate)
        if filtered and not matches_language(resource.languages, asked.language):
            dropped.append(Omission(candidate, "language"))
        elif resource.id in asked.exclude and not candidate.mandatory:
            dropped.append(Omission(candidate, "excluded"))
        elif resource.text is None:
            missing.append(resource.id)
        else:
            kept.append(candidate)
    winners, losers = settle_conflicts(deduplicate(kept), merge)
    return CollectedCandidates(
        tuple(winners), (*deduplicate_omissions(dropped), *losers), tuple(dict.fromkeys(missing))
    )


def propose_assigned(scope: Scope, found: Iterable[Assignment], snapshot: Snapshot) -> Iterable[Candidate]:
    wanted = set(scope.request.include)
    for assignment in found:
        fixed = is_mandatory(assignment, scope, snapshot)
        for resource in snapshot.contexts[assignment.context].resources:
            yield Candidate(
                resource,
                assignment.level,
                assignment.entity,
                VIA,
                explain_assignment(assignment, snapshot),
                named=resource.id in wanted,
                # What the caller names itself holds no power over what is mandatory anyway.
                mandatory=fixed or (resource.mandatory and assignment.level is not Level.REQUEST),
                imposed=fixed,
            )


def is_mandatory(assignment: Assignment, scope: Scope, snapshot: Snapshot) -> bool:
    """Whether a caller cannot switch a context off: it is mandatory, or comes with an agent bound to the key."""
    if assignment.level is Level.GLOBAL:
        return assignment.context in snapshot.mandatory
    if not scope.bound or scope.agent is None:
        return False
    own = {Level.AGENT: scope.agent.alias, Level.PROFILE: scope.agent.profile}
    return own.get(assignment.level) == assignment.entity


def propose_named(scope: Scope, snapshot: Snapshot) -> Iterable[Candidate]:
    """Resources that the request names by id; a forbidden id counts as unknown."""
    if not scope.takes_part:
        return
    for identity in scope.request.include:
        resource = snapshot.resources.get(identity)
        if resource is None or not may_read(scope.readers, resource.readers):
            visible = (known.id for known in snapshot.resources.values() if may_read(scope.readers, known.readers))
            raise UnknownAlias("resource", identity, visible, param=scope.request.where("include"))
        yield Candidate(resource, Level.SESSION, "", "include", "named by the request", named=True)


def is_available(candidate: Candidate, scope: Scope) -> bool:
    """Whether the caller may read a resource and, if it is included by hand only, has asked for it."""
    resource = candidate.resource
    return may_read(scope.readers, resource.readers) and (resource.mode is not Mode.MANUAL or candidate.named)


@dataclass(frozen=True, slots=True)
class MandatoryForms:
    """The conflicts of which a mandatory resource is there in the language that is asked for."""

    mandatory: frozenset[ConflictKey | None] = frozenset()
    imposed: frozenset[ConflictKey | None] = frozenset()

    def stand_for(self, candidate: Candidate) -> bool:
        """Whether a mandatory resource in another language is not needed, since one of these takes its place."""
        forms = self.imposed if candidate.imposed else self.mandatory
        return get_conflict(candidate.resource) in forms


NO_FORMS = MandatoryForms()


def find_translated(candidates: Iterable[Candidate], language: str) -> MandatoryForms:
    """What is mandatory and there in a language; what is not there in it is placed in the language that it has."""
    usable = [
        candidate
        for candidate in candidates
        if candidate.mandatory
        and candidate.resource.text is not None
        and candidate.resource.conflict_key is not None
        and matches_language(candidate.resource.languages, language)
    ]
    return MandatoryForms(
        frozenset(get_conflict(one.resource) for one in usable),
        frozenset(get_conflict(one.resource) for one in usable if one.imposed),
    )


def get_conflict(resource: Resource) -> ConflictKey | None:
    """What a resource shares with those that exclude it."""
    return None if resource.conflict_key is None else ConflictKey(resource.type, resource.conflict_key)


def matches_language(languages: tuple[str, ...], asked: str | None) -> bool:
    """Whether a resource is meant for a language: `de` also matches `de-AT`."""
    if not languages or asked is None:
        return True
    wanted = asked.lower()
    return any(wanted == known.lower() or wanted.startswith(known.lower() + "-") for known in languages)


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


def explain_assignment(assignment: Assignment, snapshot: Snapshot) -> str:
    if assignment.level is Level.GLOBAL:
        if assignment.context in snapshot.mandatory:
            return "mandatory for every request"
        return "global default, since nothing else applies"
    if assignment.level is Level.REQUEST:
        return "named by the request"
    return f"assigned to {assignment.level} {assignment.entity}"


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
