"""Assembles compiled entries into a snapshot: references are checked, what is not valid now is left out."""

import hashlib
from collections.abc import Iterator
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from gateway.domain.agent import Agent, Profile, Prompt
from gateway.domain.context import Context
from gateway.domain.recipe import Recipe
from gateway.domain.resource import Resource
from gateway.domain.snapshot import Snapshot
from gateway.errors import Fault, Faults, quote
from gateway.policies.compiled_entry import CompiledEntries, CompiledEntry, compute_digest
from gateway.policies.content_tree import ContentTree
from gateway.policies.files import EntryLocation, PolicyEntry
from gateway.validation import MOST_SUGGESTIONS, format_suggestion

Result = TypeVar("Result")


class PolicySet(msgspec.Struct, frozen=True):
    """All compiled policies of one workspace."""

    compiled: CompiledEntries
    tree: ContentTree

    def list_referring(self) -> Iterator[PolicyEntry]:
        """Every entry that may name others."""
        yield from (one.entry for compiled in self.compiled.values() for one in compiled.values())
        yield from self.tree.referring


def assemble(policies: PolicySet, generation: int, now: float) -> Snapshot:
    """The snapshot of a set as it is valid `now`; raises Faults with every fault of the set."""
    faults = [*_list_compile_faults(policies), *_list_reference_faults(policies), *_list_default_faults(policies)]
    if faults:
        raise Faults(sorted(faults, key=lambda fault: (fault.file, fault.line)))
    contexts = _select_contexts(policies, now)
    mandatory = tuple(context.alias for context in contexts.values() if context.mandatory)
    return Snapshot(
        hash=_compute_hash(policies, contexts, mandatory),
        generation=generation,
        contexts=contexts,
        profiles=_collect(policies, "profiles", Profile),
        agents=_collect(policies, "agents", Agent),
        prompts=_collect(policies, "prompts", Prompt),
        recipes=_collect(policies, "recipes", Recipe),
        tree=policies.tree.structure,
        contents=policies.tree.contents,
        resources={resource.id: resource for context in contexts.values() for resource in context.resources},
        default=next((context.alias for context in contexts.values() if context.default), None),
        mandatory=mandatory,
        readers=_collect_readers(contexts, policies.tree),
        valid_until=min((bound for bound in _list_validity_bounds(policies) if bound > now), default=None),
    )


def _select_contexts(policies: PolicySet, now: float) -> dict[str, Context]:
    selected: dict[str, Context] = {}
    for alias, compiled in policies.compiled["contexts"].items():
        context = compiled.result
        if isinstance(context, Context) and compiled.validity_bounds:
            context = _select_valid(context, now)
        if isinstance(context, Context):
            selected[alias] = context
    return selected


def _select_valid(context: Context, now: float) -> Context | None:
    """The context with the resources that are valid now; None if it is not valid itself."""
    if not _is_valid(context, now):
        return None
    if all(_is_valid(resource, now) for resource in context.resources):
        return context
    return replace(context, resources=tuple(one for one in context.resources if _is_valid(one, now)))


def _is_valid(limited: Context | Resource, now: float) -> bool:
    has_begun = limited.valid_from is None or limited.valid_from <= now
    return has_begun and (limited.valid_until is None or now < limited.valid_until)


def _collect(policies: PolicySet, kind: str, result: type[Result]) -> dict[str, Result]:
    compiled = policies.compiled[kind].items()
    return {alias: one.result for alias, one in compiled if isinstance(one.result, result)}


def _collect_readers(contexts: dict[str, Context], tree: ContentTree) -> frozenset[str]:
    resources = (resource for context in contexts.values() for resource in context.resources)
    return tree.readers.union(name for resource in resources for name in resource.readers)


def _list_validity_bounds(policies: PolicySet) -> Iterator[float]:
    for compiled in policies.compiled["contexts"].values():
        yield from compiled.validity_bounds


def _compute_hash(policies: PolicySet, contexts: dict[str, Context], mandatory: tuple[str, ...]) -> str:
    """The SHA-256 of what the policies say now, whichever files or stores they come from.

    Order counts where it matters to a request: resources in a context, the mandatory contexts.
    """
    total = hashlib.sha256()
    for kind, compiled in policies.compiled.items():
        if kind == "recipes" and not compiled:
            continue  # sets without any keep the hash that they had before there were recipes
        total.update(kind.encode())
        for alias in sorted(compiled):
            if kind != "contexts":
                total.update(compiled[alias].digest)
            elif alias in contexts:
                total.update(_compute_context_digest(compiled[alias], contexts[alias]))
    total.update(policies.tree.digest)
    total.update(compute_digest(mandatory))
    return total.hexdigest()


def _compute_context_digest(compiled: CompiledEntry, current: Context) -> bytes:
    """Of a context with only the resources that are valid now."""
    if not compiled.validity_bounds:
        return compiled.digest
    return compiled.digest + compute_digest([resource.id for resource in current.resources])


def _list_compile_faults(policies: PolicySet) -> Iterator[Fault]:
    for compiled in policies.compiled.values():
        for one in compiled.values():
            yield from one.faults
    yield from policies.tree.faults


def _list_reference_faults(policies: PolicySet) -> Iterator[Fault]:
    """Reads the data as written, so that unknown aliases are found in entries with other faults too.

    An object that could not be compiled still counts as known, so that one mistake is not reported twice.
    """
    for number, (noun, alias, location) in enumerate(_list_unknown_names(policies)):
        known = policies.compiled[f"{noun}s"] if number < MOST_SUGGESTIONS else ()
        yield location.fault(f"there is no {noun} {quote(alias)}{format_suggestion(alias, known)}")


def _list_unknown_names(policies: PolicySet) -> Iterator[tuple[str, str, EntryLocation]]:
    contexts, profiles = policies.compiled["contexts"], policies.compiled["profiles"]
    for entry in policies.list_referring():
        if not isinstance(entry.data, dict):
            continue
        named, profile = entry.data.get("contexts"), entry.data.get("profile")
        for position, alias in enumerate(named if isinstance(named, list) else ()):
            if isinstance(alias, str) and alias not in contexts:
                yield "context", alias, entry.location / "contexts" / position
        if isinstance(named, str) and named not in contexts:
            yield "context", named, entry.location / "contexts"
        if isinstance(profile, str) and profile not in profiles:
            yield "profile", profile, entry.location / "profile"


def _list_default_faults(policies: PolicySet) -> Iterator[Fault]:
    """One for every global default after the first."""
    contexts = policies.compiled["contexts"].values()
    defaults = [one.entry for one in contexts if isinstance(one.result, Context) and one.result.default]
    for entry in defaults[1:]:
        message = f"{defaults[0].alias!r} is already the global default; there can be only one"
        yield (entry.location / "default").fault(message)
