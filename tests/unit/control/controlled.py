"""A gateway's policies over a directory and a store in memory, for services of the control plane."""

from functools import cache
from pathlib import Path
from typing import Any

import yaml

from gateway.control.base import Object
from gateway.control.bundle import Exporter, bundle_of
from gateway.control.content import Content
from gateway.control.imports import Importer, ImportOptions, Step
from gateway.control.writer import PolicyWriter
from gateway.domain.principal import Principal, Role
from gateway.domain.snapshot import Snapshot
from gateway.extraction.extract import DocumentCache
from gateway.links.cache import LinkCache
from gateway.policies.context_compiler import PolicySource
from gateway.policies.materials import PolicyMaterials
from gateway.policies.repository import PolicyRepository
from gateway.resources.registry import Registry, default_registry
from gateway.settings import DocumentSettings, LinkSettings
from gateway.stores.memory_ephemeral import MemoryStore
from gateway.stores.memory_records import MemoryRecords
from gateway.strict_yaml import YamlDocument

ANNA = Principal("anna", role=Role.EDITOR)


@cache
def known_types() -> Registry:
    return default_registry()


class Controlled:
    """Policies, and the services that change them."""

    def __init__(self, directory: Path, records: MemoryRecords | None = None) -> None:
        self.documents = DocumentCache(DocumentSettings())
        materials = PolicyMaterials(self.documents, LinkCache(MemoryStore(), LinkSettings()))
        self.records = records or MemoryRecords()
        self.policies = PolicyRepository(PolicySource(directory, known_types(), materials), self.records)
        desk = PolicyWriter(self.policies, MemoryStore())
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
        return await self.importer.run(ANNA, YamlDocument("bundle", bundle, {}), ImportOptions(replace, dry_run))

    def node(self, name: str) -> Object:
        return self.content.tree(ANNA.workspace).find(name).object


def write(directory: Path, files: dict[str, Any] | None) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    if files is not None:
        (directory / "files.yaml").write_text(yaml.safe_dump(files, sort_keys=False, allow_unicode=True))


def actions(steps: list[Step]) -> dict[str, str]:
    return {f"{step.kind}/{step.alias}": step.action for step in steps}
