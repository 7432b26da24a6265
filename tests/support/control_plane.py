"""A gateway's policies over a directory and a store in memory, for services of the control plane."""

from functools import cache
from pathlib import Path
from typing import Any

from gateway.content.activity import ActivityLog
from gateway.content.reader import WorkspaceContent
from gateway.control.bundle_export import BundleExporter, build_bundle
from gateway.control.bundle_import import BundleImporter, ImportOptions
from gateway.control.bundle_knowledge import export_items
from gateway.control.bundle_plan import PlannedChange
from gateway.control.content import Content
from gateway.control.objects import PolicyObject
from gateway.control.writer import PolicyWriter
from gateway.domain.principal import Principal, Role
from gateway.domain.snapshot import Snapshot
from gateway.extraction.extract import DocumentCache
from gateway.knowledge.repository import KnowledgeRepository
from gateway.links.cache import LinkCache
from gateway.policies.context_compiler import PolicySource
from gateway.policies.materials import PolicyMaterials
from gateway.policies.repository import PolicyRepository
from gateway.policies.whole_entries import read_whole_entries
from gateway.resources.registry import ResourceRegistry, load_registry
from gateway.settings import DocumentSettings, LinkSettings, QuotaSettings
from gateway.stores.memory_content import MemoryContentStore
from gateway.stores.memory_ephemeral import MemoryEphemeralStore
from gateway.stores.memory_records import MemoryRecordStore
from gateway.strict_yaml import YamlDocument
from tests.support.yaml_texts import to_yaml

ANNA = Principal("anna", role=Role.EDITOR)


@cache
def known_types() -> ResourceRegistry:
    return load_registry()


class ControlPlane:
    """Policies, and the services that change them."""

    def __init__(
        self, directory: Path, records: MemoryRecordStore | None = None, quotas: QuotaSettings | None = None
    ) -> None:
        self.documents = DocumentCache(DocumentSettings())
        materials = PolicyMaterials(self.documents, LinkCache(MemoryEphemeralStore(), LinkSettings()))
        self.records = records or MemoryRecordStore()
        self.policies = PolicyRepository(
            PolicySource(directory, known_types(), materials), self.records, quotas=quotas or QuotaSettings()
        )
        self.writer = writer = PolicyWriter(self.policies, MemoryEphemeralStore())
        self.store = MemoryContentStore(self.records)
        self.contents = WorkspaceContent(self.policies, self.store, ActivityLog(self.store))
        self.content = Content(self.policies, writer, self.contents)
        self.knowledge = KnowledgeRepository()
        self.importer = BundleImporter(self.policies, writer, self.documents, self.knowledge)

    @classmethod
    async def start(cls, directory: Path, files: dict[str, Any] | None = None) -> "ControlPlane":
        write(directory, files)
        made = cls(directory)
        await made.policies.start()
        made.knowledge.follow_files(made.policies.get_knowledge())
        await made.knowledge.start()
        return made

    @property
    def snapshot(self) -> Snapshot:
        return self.policies.get_snapshot(ANNA.workspace)

    async def exported(self, *, stored: bool = False) -> dict[str, Any]:
        entries = await read_whole_entries(self.policies, ANNA.workspace)
        items = export_items(self.knowledge.get(ANNA.workspace), stored=stored)
        return build_bundle(BundleExporter(self.documents).objects(entries, stored=stored), items)

    async def take(
        self, bundle: Any, *, replace: bool = False, dry_run: bool = False, by: Principal = ANNA
    ) -> list[PlannedChange]:
        return await self.importer.run(by, YamlDocument("bundle", bundle, {}), ImportOptions(replace, dry_run))

    def node(self, name: str) -> PolicyObject:
        return self.content.tree(ANNA.workspace).find(name).object


def write(directory: Path, files: dict[str, Any] | None) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    if files is not None:
        (directory / "files.yaml").write_text(to_yaml(files))


def actions(steps: list[PlannedChange]) -> dict[str, str]:
    return {f"{step.kind}/{step.alias}": step.action for step in steps}
