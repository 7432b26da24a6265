"""Builds the management API from the parts of a gateway."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from starlette.applications import Starlette

from gateway.analytics.reports import Reports
from gateway.content.reader import WorkspaceContent
from gateway.control.adoption import Adoption
from gateway.control.audit import AuditLog
from gateway.control.bundle_import import BundleImporter
from gateway.control.content import Content
from gateway.control.documents import Documents
from gateway.control.evaluation_cases import EvaluationCases
from gateway.control.keys import Keys
from gateway.control.knowledge import KnowledgeManager
from gateway.control.links import Links
from gateway.control.services import ControlServices
from gateway.control.sessions import SessionManager
from gateway.control.sizes import SizeCheck
from gateway.control.tool_servers import ToolServerViews
from gateway.conversation.stored_responses import StoredResponses
from gateway.domain.agent import SelectionSettings
from gateway.edge.limits import RateLimiter
from gateway.edge.manage.adoption import AdoptionRoutes
from gateway.edge.manage.app import build_api_app
from gateway.edge.manage.audit import AuditRoutes
from gateway.edge.manage.bundle import BundleRoutes
from gateway.edge.manage.content import build_content_routes
from gateway.edge.manage.content_children import ContentChildrenRoutes
from gateway.edge.manage.contexts import build_context_routes
from gateway.edge.manage.documents import DocumentRoutes
from gateway.edge.manage.drafts import DraftListRoutes
from gateway.edge.manage.evaluation_cases import EvaluationCaseRoutes
from gateway.edge.manage.health import HealthRoutes
from gateway.edge.manage.keys import KeyRoutes
from gateway.edge.manage.knowledge import build_knowledge_routes
from gateway.edge.manage.links import LinkRoutes
from gateway.edge.manage.me import MeRoutes
from gateway.edge.manage.objects import AGENT_MODELS, PROFILE_MODELS, PROMPT_MODELS, RECIPE_MODELS, build_object_routes
from gateway.edge.manage.quotas import QuotaRoutes
from gateway.edge.manage.receipts import ReceiptRoutes
from gateway.edge.manage.replay import ReplayRoutes
from gateway.edge.manage.resolve import ResolveRoutes
from gateway.edge.manage.resource_trials import ResourceTrialRoutes
from gateway.edge.manage.resource_types import ResourceTypeRoutes
from gateway.edge.manage.resources import ResourceRoutes
from gateway.edge.manage.routes import RouteGroup
from gateway.edge.manage.search import SearchRoutes
from gateway.edge.manage.sessions import SessionRoutes
from gateway.edge.manage.stats import StatsRoutes
from gateway.edge.manage.tool_servers import ToolServerRoutes
from gateway.edge.manage.usage import UsageRoutes
from gateway.edge.plugin_files import PluginFiles
from gateway.edge.sign_ins import SignIns
from gateway.extraction.extract import DocumentCache
from gateway.extraction.extractor import Extractor
from gateway.fair_queue import FairThreads
from gateway.knowledge.repository import KnowledgeRepository
from gateway.links.cache import LinkCache
from gateway.pipeline import Pipeline
from gateway.policies.repository import PolicyRepository
from gateway.receipts.recorder import ReceiptRecorder
from gateway.replay.case_trial import CaseTrial
from gateway.replay.overlay import OverlayBuilder
from gateway.replay.replayer import Replayer
from gateway.replay.resolved_request import RequestResolver
from gateway.replay.resource_trial import ResourceTrials
from gateway.resources.registry import ResourceRegistry
from gateway.semantic.service import SemanticService
from gateway.sessions.sessions import Sessions
from gateway.settings import Settings
from gateway.stores.protocols import EphemeralStore, ReceiptStore, RecordStore
from gateway.stores.statistics import StatisticsStore


class ManagementParts(msgspec.Struct, frozen=True):
    """What the management API works on."""

    settings: Settings
    types: ResourceRegistry
    policies: PolicyRepository
    records: RecordStore
    store: EphemeralStore
    links: LinkCache
    pipeline: Pipeline
    sessions: Sessions
    threads: FairThreads
    extractor: Extractor
    receipts: ReceiptStore
    recorder: ReceiptRecorder | None
    responses: StoredResponses
    statistics: StatisticsStore
    limiter: RateLimiter
    sign_ins: SignIns | None
    content: WorkspaceContent
    health: Callable[[], Mapping[str, Any]]  # every part in detail
    knowledge: KnowledgeRepository


def build_management_app(parts: ManagementParts) -> Starlette:
    """The app below `/api/v1`."""
    defaults = parts.settings.defaults
    sizes = SizeCheck(
        parts.policies,
        parts.threads,
        lambda text: parts.pipeline.builder.counter.count(text, defaults.model or ""),
        defaults.budget,
    )
    services = ControlServices.build(parts.policies, parts.records, parts.store, sizes)
    limits = parts.settings.documents
    files = DocumentCache(limits)
    overlays = OverlayBuilder(parts.policies, services.objects, parts.records, parts.settings.versions.audit_days)
    replayer = Replayer(RequestResolver(parts.pipeline), overlays, parts.receipts, parts.threads)
    adoption = Adoption(parts.policies, services.writer, files, allowed=parts.settings.adopt)
    groups: tuple[RouteGroup, ...] = (
        ResourceTypeRoutes(parts.types, PluginFiles(parts.types) if parts.settings.console else None),
        *build_context_routes(services),
        ResourceRoutes(services.objects, services.contexts, parts.links, sizes),
        LinkRoutes(Links(parts.policies, parts.links, services.contexts)),
        ToolServerRoutes(ToolServerViews(parts.policies, lambda: parts.pipeline.tools.servers)),
        *build_object_routes("profiles", PROFILE_MODELS, services),
        *build_object_routes("agents", AGENT_MODELS, services),
        *build_object_routes("prompts", PROMPT_MODELS, services),
        *build_object_routes("recipes", RECIPE_MODELS, services),
        DraftListRoutes(services.drafts),
        DocumentRoutes(Documents(parts.policies, services.writer, parts.store, parts.extractor), limits.max_bytes),
        *build_content_routes(services, Content(parts.policies, services.writer, parts.content), parts.threads),
        ContentChildrenRoutes(parts.policies, parts.threads),
        ResourceTrialRoutes(build_trials(parts)),
        HealthRoutes(parts.health, parts.settings, lambda: parts.pipeline.routes.breakers),
        ResolveRoutes(replayer),
        ReplayRoutes(replayer),
        EvaluationCaseRoutes(EvaluationCases(parts.policies, services.writer), CaseTrial(replayer)),
        UsageRoutes(parts.policies, services.objects, services.contexts, parts.threads),
        SearchRoutes(parts.policies, parts.threads),
        BundleRoutes(
            parts.policies,
            BundleImporter(parts.policies, services.writer, files, parts.knowledge, adoption),
            parts.knowledge,
            files,
            parts.threads,
        ),
        AdoptionRoutes(adoption, parts.policies),
        AuditRoutes(AuditLog(parts.records, parts.knowledge)),
        QuotaRoutes(parts.policies, parts.sessions, parts.knowledge, parts.responses),
        *build_knowledge_routes(KnowledgeManager(parts.knowledge, parts.threads)),
        ReceiptRoutes(parts.receipts, parts.recorder),
        SessionRoutes(SessionManager(parts.sessions, parts.policies)),
        StatsRoutes(Reports(parts.statistics), parts.policies, parts.settings.defaults.budget),
        MeRoutes(parts.settings, parts.sign_ins),
        KeyRoutes(Keys(parts.policies, parts.settings.auth.keys)),
    )
    return build_api_app(groups, parts.settings.limits, parts.limiter)


def build_trials(parts: ManagementParts) -> ResourceTrials:
    def find_searcher() -> SemanticService | None:
        searcher = parts.pipeline.searcher
        return searcher if isinstance(searcher, SemanticService) else None

    return ResourceTrials(
        parts.policies,
        parts.threads,
        find_searcher,
        lambda text: parts.pipeline.builder.counter.count(text, parts.settings.defaults.model or ""),
        SelectionSettings.from_data(parts.settings.semantic.model_dump()),
    )
