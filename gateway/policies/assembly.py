"""Parts become a snapshot: what they refer to is checked, what is not valid now is left out."""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from gateway.domain.agent import Agent, Profile, Prompt
from gateway.domain.context import Context
from gateway.domain.resource import Resource
from gateway.domain.snapshot import Snapshot
from gateway.errors import Fault, Faults
from gateway.policies.compiled_entry import CompiledEntry, Parts, digest_of
from gateway.policies.content_tree import ContentTree
from gateway.policies.files import EntryLocation, PolicyEntry
from gateway.validation import nearest

Built = TypeVar("Built")


@dataclass(frozen=True, slots=True)
class PolicySet:
    """Everything that one workspace's policies are made of."""

    parts: Parts
    tree: ContentTree

    def entries(self) -> Iterator[PolicyEntry]:
        yield from (part.entry for parts in self.parts.values() for part in parts.values())
        yield from self.tree.entries.values()


def assemble(policies: PolicySet, generation: int, now: float) -> Snapshot:
    """The snapshot of a set as it is valid `now`; raises Faults with every fault of the set."""
    faults = [*_part_faults(policies), *_reference_faults(policies), *_default_faults(policies)]
    if faults:
        raise Faults(sorted(faults, key=lambda fault: (fault.file, fault.line)))
    contexts = _contexts(policies, now)
    mandatory = tuple(context.alias for context in contexts.values() if context.mandatory)
    return Snapshot(
        hash=_hash(policies, contexts, mandatory),
        generation=generation,
        contexts=contexts,
        profiles=_built(policies, "profiles", Profile),
        agents=_built(policies, "agents", Agent),
        prompts=_built(policies, "prompts", Prompt),
        nodes=policies.tree.nodes,
        node_ids=policies.tree.ids,
        resources={resource.id: resource for context in contexts.values() for resource in context.resources},
        default=next((context.alias for context in contexts.values() if context.default), None),
        mandatory=mandatory,
        readers=_readers(contexts, policies.tree),
        valid_until=min((moment for moment in _moments(policies) if moment > now), default=None),
    )


def _contexts(policies: PolicySet, now: float) -> dict[str, Context]:
    found: dict[str, Context] = {}
    for alias, part in policies.parts["contexts"].items():
        current = as_of(part.built, now) if part.moments and isinstance(part.built, Context) else part.built
        if isinstance(current, Context):
            found[alias] = current
    return found


def _readers(contexts: dict[str, Context], tree: ContentTree) -> frozenset[str]:
    limited = (one for context in contexts.values() for one in context.resources if one.readers)
    return tree.readers.union(name for one in limited for name in one.readers)


def _moments(policies: PolicySet) -> Iterator[float]:
    for part in policies.parts["contexts"].values():
        yield from part.moments


def as_of(context: Context, now: float) -> Context | None:
    """The context with what is valid now; None if itself is not."""
    if not _valid(context, now):
        return None
    if all(_valid(resource, now) for resource in context.resources):
        return context
    return replace(context, resources=tuple(one for one in context.resources if _valid(one, now)))


def _valid(limited: Context | Resource, now: float) -> bool:
    begun = limited.valid_from is None or limited.valid_from <= now
    return begun and (limited.valid_until is None or now < limited.valid_until)


def _hash(policies: PolicySet, contexts: dict[str, Context], mandatory: tuple[str, ...]) -> str:
    """The SHA-256 of what the policies say now, whatever files or stores they say it in.

    Order counts where it matters to a request: resources in a context, the mandatory contexts.
    """
    total = hashlib.sha256()
    for kind, parts in policies.parts.items():
        total.update(kind.encode())
        for alias in sorted(parts):
            if kind != "contexts":
                total.update(parts[alias].digest)
            elif alias in contexts:
                total.update(_digest_now(parts[alias], contexts[alias]))
    total.update(policies.tree.digest)
    total.update(digest_of(mandatory))
    return total.hexdigest()


def _digest_now(part: CompiledEntry, current: Context) -> bytes:
    """A context counts with the resources that are valid."""
    if not part.moments:
        return part.digest
    return part.digest + digest_of([resource.id for resource in current.resources])


def _built(policies: PolicySet, kind: str, noun: type[Built]) -> dict[str, Built]:
    return {alias: part.built for alias, part in policies.parts[kind].items() if isinstance(part.built, noun)}


def _part_faults(policies: PolicySet) -> Iterator[Fault]:
    for parts in policies.parts.values():
        for part in parts.values():
            yield from part.faults
    yield from policies.tree.faults


def _reference_faults(policies: PolicySet) -> Iterator[Fault]:
    """Looks at the data as written, so that unknown aliases are found in an entry with other faults too.

    An object that could not be built still counts as known, so that one mistake is not reported twice.
    """
    contexts, profiles = policies.parts["contexts"], policies.parts["profiles"]
    for entry in policies.entries():
        if not isinstance(entry.data, dict):
            continue
        named, profile = entry.data.get("contexts"), entry.data.get("profile")
        for position, alias in enumerate(named if isinstance(named, list) else ()):
            if isinstance(alias, str) and alias not in contexts:
                yield _unknown("context", alias, contexts, entry.place / "contexts" / position)
        if isinstance(named, str) and named not in contexts:
            yield _unknown("context", named, contexts, entry.place / "contexts")
        if isinstance(profile, str) and profile not in profiles:
            yield _unknown("profile", profile, profiles, entry.place / "profile")


def _unknown(noun: str, alias: str, known: Iterable[str], place: EntryLocation) -> Fault:
    return place.fault(f"there is no {noun} {alias!r}{nearest(alias, known)}")


def _default_faults(policies: PolicySet) -> Iterator[Fault]:
    """All but the first of several global defaults."""
    parts = policies.parts["contexts"].values()
    defaults = [part for part in parts if isinstance(part.built, Context) and part.built.default]
    for part in defaults[1:]:
        place = part.entry.place / "default"
        yield place.fault(f"{defaults[0].entry.alias!r} is the global default already; there can be only one")
