"""The knowledge graph as requests use it."""

from typing import NamedTuple

import msgspec

from gateway.domain.principal import Principal
from gateway.fair_queue import FairThreads
from gateway.knowledge.config import KnowledgeConfig, KnowledgeTier, read_tier
from gateway.knowledge.entity_vectors import EntityVectors, MeaningRule, MeantEntities
from gateway.knowledge.repository import KnowledgeRepository
from gateway.knowledge.retrieval import KnowledgeQuery, RetrievedKnowledge, is_quick, retrieve
from gateway.policies.repository import PolicyRepository
from gateway.semantic.document_indexer import DocumentIndexer
from gateway.settings import Settings
from gateway.stores.open import Stores


class KnowledgeAnswer(NamedTuple):
    """What was retrieved, and whether the whole graph was known."""

    retrieved: RetrievedKnowledge
    complete: bool
    failure: str | None = None  # why meanings did not count although they should


class KnowledgeService(msgspec.Struct, frozen=True):
    """Looks things up in the graph of a workspace, off the event loop."""

    repository: KnowledgeRepository
    threads: FairThreads
    default_tier: KnowledgeTier = KnowledgeTier.CORE  # of keys that have none
    vectors: EntityVectors | None = None  # None: words are all that counts

    def may_have(self, workspace: str) -> bool:
        return self.repository.may_have(workspace)

    def find_tier(self, principal: Principal) -> KnowledgeTier:
        """The tier of a key. Without keys nobody was sold anything: whoever reaches the gateway gets everything."""
        return KnowledgeTier.ENTERPRISE if principal.key is None else read_tier(principal.tier, self.default_tier)

    async def retrieve(
        self, workspace: str, query: KnowledgeQuery, config: KnowledgeConfig, rule: MeaningRule | None = None
    ) -> KnowledgeAnswer:
        """What the graph says about a question; raises WorkspaceBusy."""
        graph, complete = self.repository.find(workspace)
        meant = MeantEntities()
        if self.vectors is not None and rule is not None and graph.index is not None:
            meant = await self.vectors.compare(workspace, graph.index, rule)
        quick = meant.meaning is None and is_quick(graph, query, config)
        run = self.threads.run_here if quick else self.threads.run
        found = await run(workspace, retrieve, graph, query, config, meant.meaning)
        return KnowledgeAnswer(found, complete, meant.failure)


async def open_knowledge(
    settings: Settings,
    stores: Stores,
    threads: FairThreads,
    policies: PolicyRepository,
    documents: DocumentIndexer | None = None,
) -> KnowledgeService:
    """As the configuration wants it, loaded if that does not take long; it follows the policy files."""
    repository = KnowledgeRepository(stores.knowledge, threads, settings.quotas)
    repository.follow_files(policies.get_knowledge())
    await repository.start()
    policies.watch(lambda: repository.follow_files(policies.get_knowledge()))
    repository.watch(lambda workspace: policies.snapshots().forget_injections(workspace))
    vectors = EntityVectors(documents, threads) if documents is not None else None
    return KnowledgeService(repository, threads, KnowledgeTier(settings.knowledge.default_tier), vectors)
