"""One entry of the policies, compiled on its own and kept until the entry changes."""

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import msgspec
import orjson
from msgspec.structs import FieldInfo, asdict, fields, replace
from pydantic import BaseModel

from gateway.domain.agent import Agent, Profile, Prompt
from gateway.domain.context import Context
from gateway.domain.material import LinkMaterial
from gateway.domain.recipe import Recipe
from gateway.domain.resource import Resource
from gateway.domain.tool import CallableTool, ToolServerAddress
from gateway.errors import Fault
from gateway.policies.agent_compiler import AgentCompiler
from gateway.policies.context_compiler import ContextCompiler, ForeignText, PolicySource, TextFinder, TextMaterial
from gateway.policies.files import PolicyEntry

COMPILED_KINDS = ("contexts", "profiles", "agents", "prompts", "recipes")  # they are compiled entry by entry
HASHED_NAMES = {"conflict_key": "clash_key"}  # a snapshot's hash must not change when a field is renamed
HASHED_FIELDS = tuple((HASHED_NAMES.get(field.name, field.name), field.name) for field in fields(Resource))

# … nor when one is added: these count only where they say something.
LATER_FIELDS = frozenset(
    {
        *("tool_permission", "retain", "expansion", "enabled", "sticky", "tools", "client_tools", "tool_expansion"),
        *("collectors", "ranking", "shares", "join", "requires"),
    }
)


class CompiledEntry(msgspec.Struct, frozen=True):
    """The result of compiling an entry; `result` is None if it has too many faults to be used."""

    entry: PolicyEntry
    result: Context | Profile | Agent | Prompt | Recipe | None
    digest: bytes  # of the content, regardless of spacing, comments and version
    faults: tuple[Fault, ...] = ()
    links: Mapping[str, LinkMaterial] | None = None  # by resource id; contexts only
    reusable: bool = True  # compiling the entry again would give the same, if the texts from elsewhere are the same
    texts: tuple[ForeignText, ...] = ()  # what it was given besides its own data
    validity_bounds: tuple[float, ...] = ()  # when something in it becomes valid or expires
    servers: Mapping[str, ToolServerAddress] | None = None  # MCP servers by resource id; contexts only

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
    find_text = TextFinder(source, documents).find
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
        "recipes": compiler.compile_recipe,
    }
    result: Profile | Agent | Prompt | Recipe | None = compilers[kind](entry)
    digest = compute_digest(_omit_later_fields(result))
    return CompiledEntry(entry, result, digest, tuple(compiler.faults), reusable=not compiler.faults)


def _compile_context(entry: PolicyEntry, source: PolicySource, documents: Mapping[str, str]) -> CompiledEntry:
    compiler = ContextCompiler(source, documents)
    context = compiler.compile(entry)
    digest = compute_digest(context and _to_hashed_form(context, compiler.links.keys() | compiler.servers.keys()))
    if context is not None and entry.record is not None and entry.record.version > 1:
        resources = tuple(replace(one, version=entry.record.version) for one in context.resources)
        context = replace(context, resources=resources)
    reusable = not (compiler.reads_files or compiler.faults)
    bounds = () if context is None else tuple(_list_validity_bounds(context))
    return CompiledEntry(
        entry,
        context,
        digest,
        tuple(compiler.faults),
        compiler.links,
        reusable,
        tuple(compiler.texts),
        bounds,
        compiler.servers,
    )


def _list_validity_bounds(context: Context) -> Iterator[float]:
    limited: list[Context | Resource] = [context, *context.resources]
    for one in limited:
        yield from (bound for bound in (one.valid_from, one.valid_until) if bound is not None)


def _to_hashed_form(context: Context, unhashed: Collection[str]) -> dict[str, Any]:
    """A context without the texts of its links and the tools of its servers.

    Those change on their own, while all replicas need the same hash.
    """
    hashed: dict[str, Any] = {field.name: getattr(context, field.name) for field in fields(context)}
    hashed["resources"] = [
        {name: getattr(one, field) for name, field in HASHED_FIELDS} | ({"text": None} if one.id in unhashed else {})
        for one in context.resources
        if not (isinstance(one.data, CallableTool) and one.data.server)
    ]
    return hashed


def _omit_later_fields(value: Any) -> Any:
    """What is hashed: without fields that a release before this one does not know, as far as they are not used."""
    if not isinstance(value, msgspec.Struct):
        return value
    said = ((field, getattr(value, field.name)) for field in fields(value))
    return {
        field.name: _omit_later_fields(inner)
        for field, inner in said
        if field.name not in LATER_FIELDS or inner != _get_default(field)
    }


def _get_default(field: FieldInfo) -> Any:
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()


def compute_digest(value: Any) -> bytes:
    """The SHA-256 of a domain object's canonical form."""
    return hashlib.sha256(orjson.dumps(value, default=_to_plain)).digest()


def _to_plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, msgspec.Struct):
        return asdict(value)
    raise TypeError(f"{type(value).__name__} has no canonical form")
