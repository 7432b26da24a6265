"""`gateway export` and `gateway import`: bundles from and into the configured store, gateway running or not."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from gateway.app import known_types
from gateway.commands.keys import operator
from gateway.control.bundle import Exporter, bundle_of
from gateway.control.imports import Importer, ImportOptions, Step
from gateway.control.pointers import pointer
from gateway.control.writer import PolicyWriter
from gateway.control.yaml_writer import yaml_text
from gateway.errors import Conflict, Fault, Faults, InvalidObject, StoreError
from gateway.extraction.extract import DocumentCache
from gateway.links.cache import LinkCache
from gateway.policies.context_compiler import PolicySource
from gateway.policies.materials import PolicyMaterials
from gateway.policies.repository import PolicyRepository
from gateway.settings import Settings
from gateway.stores.memory_ephemeral import MemoryStore
from gateway.stores.open import open_stores
from gateway.stores.protocols import EphemeralStore
from gateway.strict_yaml import YamlDocument, parse

SHOWN = 70  # code points of a value in the list of changes
DONE = {"create": "created", "update": "updated", "delete": "deleted", "unchanged": "unchanged"}


@dataclass(frozen=True, slots=True)
class Opened:
    """The policies of all workspaces, without a gateway around them."""

    policies: PolicyRepository
    documents: DocumentCache
    store: EphemeralStore


@asynccontextmanager
async def opened(settings: Settings) -> AsyncGenerator[Opened]:
    """Files and store as they are now; raises Faults of the files and StoreError."""
    stores = await open_stores(settings.store)
    try:
        documents = DocumentCache(settings.documents)
        # No link is fetched: bundles hold addresses, not what is behind them.
        materials = PolicyMaterials(documents, LinkCache(MemoryStore(), settings.links))
        policies = PolicyRepository(
            PolicySource(Path(settings.policies), known_types(settings), materials), stores.records
        )
        await policies.start()
        if not policies.loaded:
            raise StoreError(policies.store_error or "The store does not answer.")
        yield Opened(policies, documents, stores.ephemeral)
    finally:
        await stores.close()


async def export(settings: Settings, workspace: str, *, form: str, stored: bool) -> str:
    """The bundle of a workspace as text."""
    async with opened(settings) as here:
        entries = here.policies.entries(workspace)
        objects = await asyncio.to_thread(Exporter(here.documents).objects, entries, stored=stored)
    bundle = bundle_of(objects)
    if form == "json":
        return orjson.dumps(bundle, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode()
    try:
        return yaml_text(bundle)
    except ValueError as error:
        raise Conflict(f"This cannot be exported as YAML: {error}.") from error


async def take_over(settings: Settings, workspace: str, file: Path, wish: ImportOptions) -> list[Step]:
    """Import a bundle; raises Faults with their lines, and Conflict."""
    if settings.store == "memory:":
        raise StoreError("The store is memory:, which ends with the process. Configure a store to import into.")
    document = await asyncio.to_thread(read, file)
    async with opened(settings) as here:
        importer = Importer(here.policies, PolicyWriter(here.policies, here.store), here.documents)
        try:
            return await importer.run(operator(workspace), replace(document, lines={}), wish)
        except InvalidObject as wrong:
            raise located(wrong, document) from wrong


def read(file: Path) -> YamlDocument:
    """A bundle in YAML, or in JSON if its name says so; raises Faults and OSError."""
    raw = file.read_bytes()
    if file.suffix.lower() != ".json":
        return parse(raw, str(file), max_bytes=len(raw))
    try:
        return YamlDocument(str(file), orjson.loads(raw), {})
    except orjson.JSONDecodeError as error:
        raise Faults([Fault(str(file), error.lineno, "(file)", f"is not valid JSON: {error.msg}")]) from error


def located(wrong: InvalidObject, document: YamlDocument) -> Faults:
    """Faults by pointer as faults with lines."""
    lines = {pointer(keys): line for keys, line in document.lines.items()}

    def line(place: str) -> int:
        while place and place not in lines:
            place = place.rpartition("/")[0]
        return lines.get(place, 1)

    told = [(one.pointer or "", one.message) for one in wrong.faults]
    return Faults([Fault(document.name, line(place), place or "(file)", message) for place, message in told])


def steps_as_text(steps: Sequence[Step], *, dry_run: bool) -> str:
    """What was done, or would be, for a person; what stays is only counted."""
    lines = []
    for step in steps:
        if step.action != "unchanged":
            lines.append(f"{step.action} {step.kind}/{step.alias}")
            lines += [f"  {one['pointer']}: {_short(one['from'])} → {_short(one['to'])}" for one in step.changes]
    counts: Counter[str] = Counter(step.action for step in steps)
    total = ", ".join(f"{counts[action]} {done}" for action, done in DONE.items())
    return "\n".join([*lines, f"{total}{' (dry run: nothing was changed)' if dry_run else ''}"])


def steps_as_data(steps: Sequence[Step], *, dry_run: bool) -> dict[str, Any]:
    """The same for a program, as the management API has it."""
    items = [{"kind": step.kind, "alias": step.alias, "action": step.action, "changes": step.changes} for step in steps]
    return {"ok": True, "dry_run": dry_run, "items": items, "total": len(items)}


def _short(value: Any) -> str:
    text = orjson.dumps(value).decode()
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"
