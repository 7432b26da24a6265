"""One entry of the policies, compiled on its own and kept until the entry changes."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import orjson
from pydantic import BaseModel

from gateway.domain.agent import Agent, Profile, Prompt
from gateway.domain.context import Context
from gateway.domain.material import LinkMaterial
from gateway.domain.resource import Resource
from gateway.errors import Fault
from gateway.policies.agent_compiler import AgentCompiler
from gateway.policies.context_compiler import ContextCompiler, ForeignText, PolicySource, TextFinder, TextMaterial
from gateway.policies.files import PolicyEntry

COMPILED_KINDS = ("contexts", "profiles", "agents", "prompts")  # the kinds whose entries are compiled one by one
HASHED_NAMES = {"conflict_key": "clash_key"}  # a snapshot's hash must not change when a field is renamed
NEWER = frozenset({"collectors", "ranking", "shares"})  # fields that earlier releases did not have
HASHED_FIELDS = tuple((HASHED_NAMES.get(field.name, field.name), field.name) for field in fields(Resource))


@dataclass(frozen=True, slots=True)
class CompiledEntry:
    """The result of compiling an entry; `result` is None if it has too many faults to be used."""

    entry: PolicyEntry
    result: Context | Profile | Agent | Prompt | None
    digest: bytes  # of the content, regardless of spacing, comments and version
    faults: tuple[Fault, ...] = ()
    links: Mapping[str, LinkMaterial] | None = None  # by resource id; contexts only
    reusable: bool = True  # compiling the entry again would give the same, if the texts from elsewhere are the same
    texts: tuple[ForeignText, ...] = ()  # what it was given besides its own data
    validity_bounds: tuple[float, ...] = ()  # when something in it becomes valid or expires

    def is_current_for(self, entry: PolicyEntry, find_text: Callable[[TextMaterial], str | None]) -> bool:
        """Whether compiling `entry` would give the same again."""
        own = self.entry
        return (
            self.reusable
            and own.data is entry.data
            and own.record is entry.record
            and own.location == entry.location
            and all(find_text(one.material) == one.text for one in self.texts)
        )


CompiledEntries = dict[str, dict[str, CompiledEntry]]  # kind → alias → compiled entry


def compile_entries(
    kind: str,
    entries: Mapping[str, PolicyEntry],
    source: PolicySource,
    documents: Mapping[str, str],
    former: Mapping[str, CompiledEntry],
) -> dict[str, CompiledEntry]:
    """Compile every entry; former results are reused where nothing can differ."""
    compiled: dict[str, CompiledEntry] = {}
    find_text = TextFinder(source.materials, documents).find
    for alias, entry in entries.items():
        known = former.get(alias)
        if known is None or not known.is_current_for(entry, find_text):
            known = compile_entry(kind, entry, source, documents)
        compiled[alias] = known
    return compiled


def compile_entry(kind: str, entry: PolicyEntry, source: PolicySource, documents: Mapping[str, str]) -> CompiledEntry:
    """Compile one entry."""
    if kind == "contexts":
        return _compile_context(entry, source, documents)
    compiler = AgentCompiler(source.collectors)
    compilers = {
        "profiles": compiler.compile_profile,
        "agents": compiler.compile_agent,
        "prompts": compiler.compile_prompt,
    }
    result: Profile | Agent | Prompt | None = compilers[kind](entry)
    digest = compute_digest(_drop_unset(result))
    return CompiledEntry(entry, result, digest, tuple(compiler.faults), reusable=not compiler.faults)


def _drop_unset(value: Any) -> Any:
    """What is hashed: without newer fields that say nothing, so that releases with and without them agree."""
    if not is_dataclass(value):
        return value
    said = {one.name: getattr(value, one.name) for one in fields(value)}
    return {name: _drop_unset(inner) for name, inner in said.items() if inner or name not in NEWER}


def _compile_context(entry: PolicyEntry, source: PolicySource, documents: Mapping[str, str]) -> CompiledEntry:
    compiler = ContextCompiler(source, documents)
    context = compiler.compile(entry)
    digest = compute_digest(context and _to_hashed_form(context, compiler.links))
    if context is not None and entry.record is not None and entry.record.version > 1:
        resources = tuple(replace(one, version=entry.record.version) for one in context.resources)
        context = replace(context, resources=resources)
    reusable = not (compiler.reads_files or compiler.faults)
    bounds = () if context is None else tuple(_list_validity_bounds(context))
    return CompiledEntry(
        entry, context, digest, tuple(compiler.faults), compiler.links, reusable, tuple(compiler.texts), bounds
    )


def _list_validity_bounds(context: Context) -> Iterator[float]:
    limited: list[Context | Resource] = [context, *context.resources]
    for one in limited:
        yield from (bound for bound in (one.valid_from, one.valid_until) if bound is not None)


def _to_hashed_form(context: Context, links: Mapping[str, LinkMaterial]) -> dict[str, Any]:
    """A context without the texts of its links, which change on their own, while all replicas need the same hash."""
    hashed: dict[str, Any] = {field.name: getattr(context, field.name) for field in fields(context)}
    hashed["resources"] = [
        {name: getattr(one, field) for name, field in HASHED_FIELDS} | ({"text": None} if one.id in links else {})
        for one in context.resources
    ]
    return hashed


def compute_digest(value: Any) -> bytes:
    """The SHA-256 of a domain object's canonical form."""
    return hashlib.sha256(orjson.dumps(value, default=_to_plain)).digest()


def _to_plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    raise TypeError(f"{type(value).__name__} has no canonical form")
