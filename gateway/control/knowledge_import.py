"""Imports entities, relationships and axioms line by line: what is there already and says the same is left alone."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import orjson

from gateway.control.authorship import make_author
from gateway.control.knowledge import ITEM_NAMES, make_deletion, make_write
from gateway.domain.knowledge import ENTITIES, KNOWLEDGE_KINDS, RELATIONSHIPS, KnowledgeItem, Relationship
from gateway.domain.principal import Principal
from gateway.errors import Conflict, Fault, Faults, quote
from gateway.knowledge.repository import KnowledgeRepository
from gateway.policies.knowledge_shapes import (
    KNOWLEDGE_SHAPES,
    find_knowledge_id_fault,
    make_item,
    make_relationship_id,
)
from gateway.strict_yaml import YamlDocument, format_path
from gateway.validation import validate

BATCH = 500  # items that are stored at a time
LINE_BYTES = 1_000_000  # of one item
MOST_FAULTS = 100  # that are reported
KINDS = {name: kind for kind, name in ITEM_NAMES.items()}  # "entity" → "entities"

Report = Callable[[int, int], None]  # items that are done, of how many


class KnowledgeImport(msgspec.Struct):
    """What a file holds and what has become of it."""

    items: dict[tuple[str, str], KnowledgeItem] = msgspec.field(default_factory=dict)
    created: int = 0
    updated: int = 0
    deleted: int = 0
    unchanged: int = 0


def read_lines(path: Path) -> KnowledgeImport:
    """Every item of a file with one JSON object per line; raises Faults with their lines, and OSError."""
    found = KnowledgeImport()
    lines: dict[tuple[str, str], int] = {}
    faults: list[Fault] = []
    with path.open("rb") as file:
        for number, raw in enumerate(iter(lambda: file.readline(LINE_BYTES + 1), b""), 1):
            if not raw.strip():
                continue
            faults += read_line(raw, str(path), number, found, lines)
            if len(faults) >= MOST_FAULTS:
                break
    if faults:
        raise Faults(faults[:MOST_FAULTS])
    return found


def read_line(
    raw: bytes, name: str, number: int, found: KnowledgeImport, lines: dict[tuple[str, str], int]
) -> list[Fault]:
    """Add the item of a line, or say what is wrong with it."""

    def fault(path: str, message: str) -> list[Fault]:
        return [Fault(name, number, path, message)]

    if len(raw) > LINE_BYTES:
        return fault("(line)", f"is longer than {LINE_BYTES:,} bytes")
    try:
        data = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        return fault("(line)", f"is not valid JSON: {error.msg}")
    kind = KINDS.get(str(data.pop("kind", None))) if isinstance(data, dict) else None
    if kind is None:
        return fault("kind", f"must be one of {', '.join(KINDS)}")
    identity = read_id(kind, data)
    if wrong := find_knowledge_id_fault(identity):
        return fault("id", wrong)
    shape, wrongs = validate(KNOWLEDGE_SHAPES[kind], data, YamlDocument(name, data, {}), ())
    if shape is None:
        return [Fault(name, number, format_path(one.keys), one.message) for one in wrongs]
    if (kind, identity) in lines:
        return fault("id", f"{identity!r} is already in line {lines[(kind, identity)]}")
    lines[(kind, identity)] = number
    found.items[(kind, identity)] = make_item(identity, shape)
    return []


def read_id(kind: str, data: dict[str, Any]) -> str:
    identity = data.pop("id", None)
    if identity is None and kind == RELATIONSHIPS:
        return make_relationship_id(*(str(data.get(key)) for key in ("from", "type", "to")))
    return str(identity) if identity is not None else ""


class KnowledgeImporter:
    """Stores what a file holds, in parts: a failure leaves what is done, and the same import goes on from there."""

    def __init__(self, repository: KnowledgeRepository) -> None:
        self._repository = repository

    async def run(
        self, caller: Principal, found: KnowledgeImport, report: Report, *, replace: bool = False, dry: bool = False
    ) -> KnowledgeImport:
        """Store every item that differs; `replace` deletes stored items that the file does not have."""
        await self._repository.refresh(caller.workspace)
        known = self._repository.get(caller.workspace)
        self._require_ends(caller.workspace, found, replace)
        writes, stored = [], known.stored
        # Entities first: nobody sees a relationship before its entities.
        for (kind, identity), item in sorted(found.items.items(), key=lambda one: KNOWLEDGE_KINDS.index(one[0][0])):
            if (kind, identity) in known.graph.items.places:
                raise Conflict(
                    f"{kind}/{identity} is defined in the file {known.graph.items.places[(kind, identity)]}."
                )
            former = stored.get((kind, identity))
            if former is not None and former.item == item:
                found.unchanged += 1
                continue
            found.created, found.updated = found.created + (former is None), found.updated + (former is not None)
            writes.append(make_write(caller.workspace, kind, item, former))
        if replace:
            gone = [key for key in stored if key not in found.items]
            found.deleted = len(gone)
            writes += [make_deletion(caller.workspace, *key, stored[key]) for key in gone]
        if not dry:
            await self._store(caller, writes, report)
        return found

    async def _store(self, caller: Principal, writes: Sequence[Any], report: Report) -> None:
        self._repository.check_quotas(caller.workspace, writes)
        for start in range(0, len(writes), BATCH):
            await self._repository.commit(writes[start : start + BATCH], make_author(caller, "import"), wait=False)
            report(min(start + BATCH, len(writes)), len(writes))
        await self._repository.refresh(caller.workspace)

    def _require_ends(self, workspace: str, found: KnowledgeImport, replace: bool) -> None:
        known = self._repository.get(workspace).graph.items
        ours = {identity for kind, identity in found.items if kind == ENTITIES}
        in_files = {identity for kind, identity in known.places if kind == ENTITIES}
        there = ours | (in_files if replace else known.entities.keys())
        missing = list(list_missing(found, there))
        if missing:
            raise Faults([Fault("import", 1, path, message) for path, message in missing[:MOST_FAULTS]])


def list_missing(found: KnowledgeImport, known: set[str]) -> Iterator[tuple[str, str]]:
    """The relationships whose entities exist neither in the file nor in the graph."""
    for one in found.items.values():
        if isinstance(one, Relationship):
            for end in (one.source, one.target):
                if end not in known:
                    yield f"relationships/{one.id}", f"there is no entity {quote(end)}"
