"""A part: one entry of the policies, compiled by itself and kept until the entry changes."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson
from pydantic import BaseModel

from gateway.domain.agent import Agent, Profile, Prompt
from gateway.domain.context import Context
from gateway.domain.material import LinkMaterial
from gateway.domain.resource import Resource
from gateway.errors import Fault
from gateway.policies.agent_compiler import Compiler
from gateway.policies.context_compiler import ContextCompiler, PolicySource
from gateway.policies.files import PolicyEntry

NAMED = ("contexts", "profiles", "agents", "prompts")  # the kinds that are compiled one by one


@dataclass(frozen=True, slots=True)
class CompiledEntry:
    """What came of an entry; `built` is None if it is too faulty to be used."""

    entry: PolicyEntry
    built: Context | Profile | Agent | Prompt | None
    digest: bytes  # of what it says, whatever spacing, comments and version it says it in
    faults: tuple[Fault, ...] = ()
    links: Mapping[str, LinkMaterial] | None = None  # by the id of the resource; a context only
    lasting: bool = True  # compiling the entry again would give the same: its texts come from nowhere else
    moments: tuple[float, ...] = ()  # when something in it begins or ends to be valid

    def serves(self, entry: PolicyEntry) -> bool:
        """Whether it is what compiling `entry` would give."""
        own = self.entry
        return self.lasting and own.data is entry.data and own.record is entry.record and own.place == entry.place


Parts = dict[str, dict[str, CompiledEntry]]  # kind → alias → part


def parts_of(
    kind: str,
    entries: Mapping[str, PolicyEntry],
    source: PolicySource,
    documents: Mapping[str, str],
    former: Mapping[str, CompiledEntry],
) -> dict[str, CompiledEntry]:
    """Every entry compiled; what came of it before is taken again where nothing can differ."""
    made: dict[str, CompiledEntry] = {}
    for alias, entry in entries.items():
        known = former.get(alias)
        made[alias] = known if known is not None and known.serves(entry) else part_of(kind, entry, source, documents)
    return made


def part_of(kind: str, entry: PolicyEntry, source: PolicySource, documents: Mapping[str, str]) -> CompiledEntry:
    """Compile one entry."""
    if kind == "contexts":
        return _context(entry, source, documents)
    compiler = Compiler()
    build = {"profiles": compiler.profile, "agents": compiler.agent, "prompts": compiler.prompt}[kind]
    built: Profile | Agent | Prompt | None = build(entry)
    return CompiledEntry(entry, built, digest_of(built), tuple(compiler.faults), lasting=not compiler.faults)


def _context(entry: PolicyEntry, source: PolicySource, documents: Mapping[str, str]) -> CompiledEntry:
    compiler = ContextCompiler(source, documents)
    built = compiler.context(entry)
    # The texts of links change by themselves, and every node of a cluster must see the same hash.
    digest = digest_of(built and without_texts(built, compiler.links))
    if built is not None and entry.record is not None and entry.record.version > 1:
        versioned = tuple(replace(one, version=entry.record.version) for one in built.resources)
        built = replace(built, resources=versioned)
    lasting = not (compiler.borrowed or compiler.faults)
    moments = () if built is None else tuple(moments_of(built))
    return CompiledEntry(entry, built, digest, tuple(compiler.faults), compiler.links, lasting, moments)


def moments_of(context: Context) -> Iterator[float]:
    """When something in a context begins or ends to be valid."""
    limited: list[Context | Resource] = [context, *context.resources]
    for one in limited:
        yield from (moment for moment in (one.valid_from, one.valid_until) if moment is not None)


def without_texts(context: Context, linked: Mapping[str, LinkMaterial]) -> Context:
    if not linked:
        return context
    resources = (replace(one, text=None) if one.id in linked else one for one in context.resources)
    return replace(context, resources=tuple(resources))


def digest_of(thing: Any) -> bytes:
    """The SHA-256 of a domain object's canonical form."""
    return hashlib.sha256(orjson.dumps(thing, default=_plain)).digest()


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    raise TypeError(f"{type(value).__name__} has no canonical form")
