"""A gateway's policies over a directory and a store in memory, for services of the control plane."""

from functools import cache
from pathlib import Path
from typing import Any

import yaml

from gateway.control.base import Object
from gateway.control.bundle import Exporter, bundle_of
from gateway.control.content import Content
from gateway.control.desk import Desk
from gateway.control.imports import Importer, Step, Wish
from gateway.domain.principal import Principal, Role
from gateway.domain.snapshot import Snapshot
from gateway.resources.extract import DocumentCache
from gateway.resources.registry import Registry, default_registry
from gateway.settings import Documents, Links
from gateway.stores.compile_resources import Source
from gateway.stores.links import LinkCache
from gateway.stores.materials import PolicyMaterials
from gateway.stores.memory import MemoryStore
from gateway.stores.memory_records import MemoryRecords
from gateway.stores.workspaces import Policies
from gateway.strict_yaml import Document

ANNA = Principal("anna", role=Role.EDITOR)


@cache
def known_types() -> Registry:
    return default_registry()


class Controlled:
    """Policies, and the services that change them."""

    def __init__(self, directory: Path, records: MemoryRecords | None = None) -> None:
        self.documents = DocumentCache(Documents())
        materials = PolicyMaterials(self.documents, LinkCache(MemoryStore(), Links()))
        self.records = records or MemoryRecords()
        self.policies = Policies(Source(directory, known_types(), materials), self.records)
        desk = Desk(self.policies, MemoryStore())
        self.content = Content(self.policies, desk)
        self.importer = Importer(self.policies, desk, self.documents)

    @classmethod
    async def over(cls, directory: Path, files: dict[str, Any] | None = None) -> "Controlled":
        write(directory, files)
        made = cls(directory)
        await made.policies.start()
        return made

    @property
    def snapshot(self) -> Snapshot:
        return self.policies.of(ANNA.workspace)

    def exported(self, *, stored: bool = False) -> dict[str, Any]:
        entries = self.policies.entries(ANNA.workspace)
        return bundle_of(Exporter(self.documents).objects(entries, stored=stored))

    async def take(self, bundle: Any, *, replace: bool = False, dry_run: bool = False) -> list[Step]:
        return await self.importer.run(ANNA, Document("bundle", bundle, {}), Wish(replace, dry_run))

    def node(self, name: str) -> Object:
        return self.content.tree(ANNA.workspace).find(name).object


def write(directory: Path, files: dict[str, Any] | None) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    if files is not None:
        (directory / "files.yaml").write_text(yaml.safe_dump(files, sort_keys=False, allow_unicode=True))


def actions(steps: list[Step]) -> dict[str, str]:
    return {f"{step.kind}/{step.alias}": step.action for step in steps}
