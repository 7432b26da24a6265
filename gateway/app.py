"""The composition root: builds every object once and keeps the background work."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import signal
import sys
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from gateway.allocation import return_large_blocks
from gateway.builder.factory import make_context_builder
from gateway.collectors.contexts import build_merge
from gateway.collectors.nodes import render_content
from gateway.collectors.registry import CollectorParts, load_collectors, open_collectors
from gateway.content.activity import ActivityLog
from gateway.content.library import NodeLibrary
from gateway.content.reader import WorkspaceContent
from gateway.control.key_history import CLOSER, has_had_keys, remember_keys
from gateway.control.key_shape import KIND as KEYS
from gateway.conversation.conversation import DEFAULT_TIMINGS, ConversationTimings
from gateway.conversation.dialects.registry import DIALECTS
from gateway.conversation.hidden_turns import HiddenTurns
from gateway.conversation.object_guard import ObjectGuard
from gateway.conversation.stored_responses import StoredResponses
from gateway.domain.memory_budget import MemoryBudget
from gateway.edge.app import EdgeApp
from gateway.edge.background_rules import BodyRules
from gateway.edge.chat import ChatEndpoint
from gateway.edge.count_tokens import COUNTED, CountTokensEndpoint
from gateway.edge.lazy_app import LazyApp
from gateway.edge.liveness import LivenessApp
from gateway.edge.request import DirectEndpoint
from gateway.errors import StoreError
from gateway.extraction.extract import DocumentCache
from gateway.extraction.extractor import Extractor
from gateway.fair_queue import LOCK_RESTS, FairQueue, FairThreads
from gateway.jobs import add_jobs
from gateway.knowledge.service import open_knowledge
from gateway.links.cache import LinkCache, make_guarded_fetch
from gateway.links.guard import LinkGuard
from gateway.loop_turns import LoopTurns
from gateway.parts import GatewayParts
from gateway.pipeline import Pipeline
from gateway.policies.loading import load_policies_and_links
from gateway.policies.materials import PolicyMaterials
from gateway.policies.repository import PolicyRepository
from gateway.policies.watch import compute_fingerprint
from gateway.policy_check import make_policy_source
from gateway.queue_bounds import CORE_BOUNDS
from gateway.recording import open_recording
from gateway.retrievers.service import open_retrievers
from gateway.scopes.content_suggestion import ContentSuggester
from gateway.semantic.node_search import NodeSearch
from gateway.semantic.service import open_semantic
from gateway.sessions.sessions import open_sessions
from gateway.settings import Settings
from gateway.settings_loader import find_malloc_options
from gateway.stores.monitored import MonitoredStore
from gateway.stores.open import Stores, open_stores
from gateway.summaries.service import open_summaries
from gateway.tokens import BpeCounter
from gateway.tools.caller import ToolCaller
from gateway.tools.servers import ToolServers
from gateway.upstreams.factory import build_upstreams
from gateway.upstreams.routes import Routes
from gateway.watched_figures import watch_figures

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.types import ASGIApp

log = logging.getLogger(__name__)

SECRET = "secret:blocks"
# While a thread compiles policies, the loop waits at most this long for the interpreter; Python's default of 5 ms
# would slow down every chat.
SWITCH_SECONDS = 0.0005


@dataclass
class Gateway(GatewayParts):
    """A gateway that is ready to answer; `open` builds it, `running` keeps its background work going."""

    @classmethod
    async def open(cls, settings: Settings, timings: ConversationTimings = DEFAULT_TIMINGS) -> Gateway:
        """Build everything; raises Faults for bad policies and StoreError for an unusable store."""
        stores = await open_stores(settings.store)
        try:
            return await cls._build(settings, stores, timings)
        except BaseException:
            await stores.close()
            raise

    @classmethod
    async def _build(cls, settings: Settings, stores: Stores, timings: ConversationTimings) -> Gateway:
        store = MonitoredStore(stores.ephemeral)
        classes = load_collectors(settings.collectors)
        threads, extractor = FairThreads("work", rests=LOCK_RESTS), Extractor(settings.documents)
        cores = FairQueue(CORE_BOUNDS)
        threads.share_cores(cores)
        extractor.charge_to(cores)
        links = LinkCache(store, settings.links, fetch=make_guarded_fetch(settings.links, extractor))
        servers = ToolServers(settings.tool_servers, LinkGuard(settings.links.allow))
        materials = PolicyMaterials(DocumentCache(settings.documents), links)
        memory = MemoryBudget(settings.limits.cache_bytes)
        retrievers = open_retrievers(settings, servers.guard, memory)
        source = make_policy_source(settings, classes, materials, servers, retrievers)
        registry, policies = source.types, PolicyRepository(source, stores.records, quotas=settings.quotas)
        policies.threads.share_cores(cores)
        # Before they are read: what is saved meanwhile differs from this, and is noticed.
        loaded = await asyncio.to_thread(compute_fingerprint, Path(settings.policies))
        await load_policies_and_links(policies, links)
        upstreams = build_upstreams(settings)
        routes = Routes(settings, upstreams)
        counter = BpeCounter()
        secret = settings.secret.encode() if settings.secret else await store.put_new(SECRET, secrets.token_bytes(32))
        semantic = open_semantic(settings.semantic, settings.store, threads, cores)
        vectors = semantic.documents if semantic is not None else None
        content = WorkspaceContent(policies, stores.content, ActivityLog(stores.content), threads)
        node_search = NodeSearch(content, threads, vectors)
        policies.watch_nodes(node_search.note_change)
        knowledge = await open_knowledge(settings, stores, threads, policies, vectors)
        parts = CollectorParts(semantic, content, node_search, knowledge, retrievers)
        collectors = open_collectors(classes.values(), parts, settings.collectors)
        builder = make_context_builder(settings, counter, build_merge(registry), secret, collectors, threads, memory)
        summaries = open_summaries(settings, routes, store, memory)
        builder = replace(builder, summaries=summaries)
        receipts, statistics, recorder = await open_recording(settings)
        sessions = open_sessions(settings, stores.sessions)
        stored = StoredResponses(
            store, settings.responses.seconds, lambda name: policies.get_quota_limits(name).response_bytes
        )
        pipeline = Pipeline(
            *(routes, builder, HiddenTurns(store, timings.hidden_turns, threads), settings.defaults, semantic, timings),
            *(settings.limits.reply_bytes, recorder, sessions, ContentSuggester(threads), ToolCaller(servers), content),
            NodeLibrary(content, render_content, node_search),
            responses=stored,
            retrievers=retrievers,
            objects=ObjectGuard(settings.upstreams, stored, threads),
            reads_usage=settings.log.exchanges or recorder is not None,
        )
        gateway = cls(
            *(settings, registry, stores, store, policies, links, upstreams, routes, counter, semantic, pipeline),
            *(receipts, statistics),
        )
        gateway.threads, gateway.turns = threads, LoopTurns(cores)
        gateway.extractor, gateway.loaded_files = extractor, loaded
        gateway.content, gateway.knowledge, gateway.summaries = content, knowledge, summaries
        policies.watch(gateway._follow_policies)
        policies.watch_records(gateway._follow_records)
        gateway._follow_records()
        gateway._follow_policies()
        await gateway._remember_keys()
        return gateway

    async def _remember_keys(self) -> None:
        """Keys of the configuration, and those that an earlier release stored, are remembered too."""
        known = bool(self.settings.auth.keys) or any(True for _ in self.policies.list_records(KEYS))
        if known and self.policies.loaded and not has_had_keys(self.policies):
            with contextlib.suppress(StoreError):
                await self.policies.commit(remember_keys(self.policies), CLOSER)

    def _follow_records(self) -> None:
        """Other records are known: keys are valid or revoked at once."""
        self.auth.update(self.policies.list_records(KEYS), closed=has_had_keys(self.policies))
        self.pipeline.objects.note_workspaces(self.auth.count_workspaces())
        self.access.streams.end_revoked(self.auth.is_revoked)

    def _follow_policies(self) -> None:
        """Other policies serve from now on: what depends on them follows."""
        links = self.policies.links()
        users = {url: [use.workspace for use in uses] for url, uses in links.items()}
        self.links.track((use.link for uses in links.values() for use in uses), users)
        servers = self.policies.list_tool_servers().items()
        self.tool_servers.follow({address: {use.workspace for use in uses} for address, uses in servers})
        if self.semantic is not None:
            self.semantic.submit(*self.policies.snapshots())

    def build_app(self, draining: Callable[[], bool]) -> EdgeApp:
        limits, metrics = self.settings.limits, self.metrics
        self.auth.require_keys()
        watch_figures(metrics, self)
        rules = (BodyRules.from_settings(self.settings, dialect, self.turns) for dialect in DIALECTS.values())
        parts = (self.access, self.pipeline, self.policies, self.limiter, metrics, self.recorder)
        direct: list[DirectEndpoint] = [ChatEndpoint(*parts, bodies) for bodies in rules]
        counted = (replace(one, max_bytes=limits.body_bytes, turns=self.turns) for one in COUNTED)
        direct += (CountTokensEndpoint(one, *parts[:4], self.recorder, self.counter) for one in counted)
        self.site = LazyApp(lambda: self.build_site(draining))
        served: ASGIApp = LivenessApp(self.site)
        if names := self.settings.cors.origins:
            from gateway.edge.cors import AllowedOrigins, CorsEndpoint, CorsMiddleware

            origins = AllowedOrigins(names)
            direct = [CorsEndpoint(endpoint, origins, self.access) for endpoint in direct]
            served = CorsMiddleware(served, origins, self.access)
        return EdgeApp(direct, served, metrics, self.recorder)

    def build_site(self, draining: Callable[[], bool]) -> Starlette:
        from gateway.site_composition import compose_site  # of gateway.late_modules

        mcp = LazyApp(self.build_mcp) if self.settings.mcp else None
        return compose_site(self, draining, LazyApp(self.build_management), mcp)

    def build_management(self) -> Starlette:
        from gateway.edge.health import describe_parts
        from gateway.edge.manage.composition import ManagementParts, build_management_app

        parts = ManagementParts(
            settings=self.settings,
            types=self.types,
            policies=self.policies,
            records=self.stores.records,
            store=self.store,
            links=self.links,
            pipeline=self.pipeline,
            sessions=self.pipeline.sessions,
            threads=self.threads,
            extractor=self.extractor,
            receipts=self.receipts,
            recorder=self.pipeline.receipts,
            responses=self.pipeline.responses,
            statistics=self.statistics,
            limiter=self.limiter,
            sign_ins=self.access.sign_ins,
            content=self.content,
            health=lambda: describe_parts(self.policies, self.jobs.describe(), store_ok=self.store.ok),
            knowledge=self.knowledge.repository,
        )
        return build_management_app(parts)

    def build_mcp(self) -> ASGIApp:
        from gateway.edge.mcp.endpoint import McpEndpoint

        return McpEndpoint(self.pipeline, self.policies, self.limiter, self.metrics)

    @contextlib.asynccontextmanager
    async def running(self, listening: asyncio.Event | None = None) -> AsyncGenerator[None]:
        """Watch the policies, refresh links, write logs, until the block ends; prepare more once it is `listening`."""
        loop = asyncio.get_running_loop()
        sys.setswitchinterval(SWITCH_SECONDS)
        return_large_blocks(find_malloc_options())
        add_jobs(self)
        reloads: set[asyncio.Task[None]] = set()
        loop.add_signal_handler(signal.SIGHUP, lambda: reloads.add(loop.create_task(self.reload())))
        try:
            with self.watchdog.watching():
                async with self.jobs.running(listening):
                    yield
        finally:
            loop.remove_signal_handler(signal.SIGHUP)
            for task in reloads:
                task.cancel()
            await asyncio.gather(*reloads, return_exceptions=True)
            await self.close()

    async def close(self) -> None:
        await self.policies.close()
        self.threads.close()
        self.extractor.threads.close()
        for upstream in self.upstreams.values():
            await upstream.close()
        if self.semantic is not None:
            await self.semantic.close()
        if self.pipeline.receipts is not None:
            await self.pipeline.receipts.close()
        await self.pipeline.responses.queue.close()
        await self.pipeline.retrievers.close()
        await self.statistics.close()
        await self.pipeline.sessions.late.close()
        await self.receipts.close()
        await self.stores.close()
