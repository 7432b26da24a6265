"""A directory of YAML files becomes one immutable Snapshot, or a list of everything that is wrong with it."""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import orjson
from pydantic import BaseModel

from gateway.domain.context import Context
from gateway.domain.snapshot import Snapshot
from gateway.errors import Fault, Faults
from gateway.stores.compile import Compiler
from gateway.stores.compile_resources import ContextCompiler, Materials, Types
from gateway.stores.policy_files import Entry, Sections, read_sections

__all__ = ["Materials", "Types", "load_policies"]

Built = TypeVar("Built")


def load_policies(directory: Path, registry: Types, materials: Materials, generation: int) -> Snapshot:
    """Read, validate and compile all policy files below a directory; raises Faults with every fault found."""
    sections, faults = read_sections(directory)
    bundles = ContextCompiler(directory, registry, materials)
    others = Compiler(sections)
    contexts = _built(sections["contexts"], bundles.context)
    profiles = _built(sections["profiles"], others.profile)
    agents = _built(sections["agents"], others.agent)
    prompts = _built(sections["prompts"], others.prompt)
    nodes, ids = others.nodes(sections["content"].values())
    faults += [*bundles.faults, *others.faults, *_default_faults(contexts, sections)]
    if faults:
        raise Faults(sorted(faults, key=lambda fault: (fault.file, fault.line)))
    snapshot = Snapshot(
        hash="",
        generation=generation,
        contexts=contexts,
        profiles=profiles,
        agents=agents,
        prompts=prompts,
        nodes=nodes,
        node_ids=ids,
        resources={resource.id: resource for context in contexts.values() for resource in context.resources},
        default=next((context.alias for context in contexts.values() if context.default), None),
        mandatory=tuple(context.alias for context in contexts.values() if context.mandatory),
    )
    return replace(snapshot, hash=policy_hash(snapshot, bundles.linked))


def policy_hash(snapshot: Snapshot, linked: set[str]) -> str:
    """The SHA-256 of what the policies say, whatever files, spacing and comments they say it in.

    Order counts where it matters to a request: resources in a context, nodes in a tree, the mandatory contexts. The
    texts of links are left out: they change by themselves, and every node of a cluster must see the same hash.
    """
    form = {
        "contexts": [_without_links(snapshot.contexts[alias], linked) for alias in sorted(snapshot.contexts)],
        "profiles": [snapshot.profiles[alias] for alias in sorted(snapshot.profiles)],
        "agents": [snapshot.agents[alias] for alias in sorted(snapshot.agents)],
        "prompts": [snapshot.prompts[alias] for alias in sorted(snapshot.prompts)],
        "nodes": sorted(snapshot.nodes.values(), key=lambda node: node.path.partition("/")[0]),
        "mandatory": snapshot.mandatory,
    }
    return hashlib.sha256(orjson.dumps(form, default=_plain)).hexdigest()


def _without_links(context: Context, linked: set[str]) -> Context:
    return replace(
        context,
        resources=tuple(replace(one, text=None) if one.id in linked else one for one in context.resources),
    )


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    raise TypeError(f"{type(value).__name__} has no canonical form")


def _built(entries: dict[str, Entry], build: Callable[[Entry], Built | None]) -> dict[str, Built]:
    made = {alias: build(entry) for alias, entry in entries.items()}
    return {alias: one for alias, one in made.items() if one is not None}


def _default_faults(contexts: dict[str, Context], sections: Sections) -> Iterable[Fault]:
    """All but the first of several global defaults."""
    defaults = [alias for alias, context in contexts.items() if context.default]
    for alias in defaults[1:]:
        place = sections["contexts"][alias].place / "default"
        yield place.fault(f"{defaults[0]!r} is the global default already; there can be only one")
