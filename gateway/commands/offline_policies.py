"""The policies of all workspaces for commands that run without a gateway."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from gateway.collectors.registry import get_option_models, load_collectors
from gateway.errors import StoreError
from gateway.extraction.extract import DocumentCache
from gateway.knowledge.repository import KnowledgeRepository
from gateway.links.cache import LinkCache
from gateway.policies.context_compiler import PolicySource
from gateway.policies.materials import PolicyMaterials
from gateway.policies.repository import PolicyRepository
from gateway.policy_check import load_type_registry
from gateway.settings import QuotaSettings, Settings
from gateway.stores.knowledge_records import KnowledgeRecords
from gateway.stores.memory_ephemeral import MemoryEphemeralStore
from gateway.stores.open import open_stores
from gateway.stores.protocols import EphemeralStore


class OfflinePolicies(msgspec.Struct, frozen=True):
    """Policies from files and the store, with what is needed to export and to change them."""

    policies: PolicyRepository
    documents: DocumentCache
    store: EphemeralStore
    knowledge: KnowledgeRecords
    quotas: QuotaSettings

    async def open_graphs(self) -> KnowledgeRepository:
        """The knowledge graphs of all workspaces, with that of the policy files."""
        repository = KnowledgeRepository(self.knowledge, quotas=self.quotas)
        repository.follow_files(self.policies.get_knowledge())
        await repository.start()
        return repository


@asynccontextmanager
async def open_policies(settings: Settings) -> AsyncGenerator[OfflinePolicies]:
    """Policy files and store as they are now; raises Faults if the files are invalid, and StoreError."""
    stores = await open_stores(settings.store)
    try:
        documents = DocumentCache(settings.documents)
        # No link is fetched: bundles hold addresses, not pages.
        materials = PolicyMaterials(documents, LinkCache(MemoryEphemeralStore(), settings.links))
        policies = PolicyRepository(
            PolicySource(
                Path(settings.policies),
                load_type_registry(settings),
                materials,
                collectors=get_option_models(load_collectors(settings.collectors)),
            ),
            stores.records,
            quotas=settings.quotas,
        )
        await policies.start()
        if not policies.loaded:
            raise StoreError(policies.store_error or "The store does not answer.")
        yield OfflinePolicies(policies, documents, stores.ephemeral, stores.knowledge, settings.quotas)
    finally:
        await stores.close()
