"""The composition root: builds every object once and keeps the background work."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import signal
import sys
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gateway.collectors.contexts import merging
from gateway.control.key_shape import KIND as KEYS
from gateway.domain.snapshot import Snapshot
from gateway.domain.upstream import Upstream
from gateway.edge.auth import Authenticator, Freshness
from gateway.edge.chat import Chat
from gateway.edge.health import Health
from gateway.edge.hosts import HostCheck
from gateway.edge.limits import Limiter
from gateway.edge.logs import ExchangeLog
from gateway.edge.manage.lazily import LazyManagementApp
from gateway.edge.metrics import Metrics
from gateway.edge.models import ModelList
from gateway.edge.passthrough import PassThrough, PassthroughPaths
from gateway.edge.router import Router
from gateway.errors import Fault, Faults
from gateway.extraction.extract import DocumentCache
from gateway.links.cache import LinkCache
from gateway.pipeline import Pipeline
from gateway.policies.context_compiler import PolicySource
from gateway.policies.file_policies import load_policies
from gateway.policies.materials import PolicyMaterials
from gateway.policies.repository import PolicyRepository
from gateway.policies.watch import fingerprint, watch
from gateway.resources.registry import Registry, default_registry
from gateway.semantic.service import SemanticService, open_vectors
from gateway.settings import Settings, is_loopback
from gateway.stores.memory_ephemeral import MemoryStore
from gateway.stores.monitored import MonitoredStore
from gateway.stores.open import Stores, open_stores
from gateway.stores.retention import forget
from gateway.tokens import BpeCounter
from gateway.upstreams.demo.upstream import DemoUpstream
from gateway.upstreams.litellm.upstream import LitellmUpstream
from gateway.upstreams.openai import OpenAIUpstream
from gateway.upstreams.routes import Routes

if TYPE_CHECKING:
    from gateway.edge.manage.app import Manage

log = logging.getLogger(__name__)

SECRET = "secret:blocks"
# While a thread compiles policies, the loop waits so long for its turn; Python's own 5 ms would be felt by every chat.
TURN_SECONDS = 0.0005


@dataclass
class Gateway:
    """A gateway that is ready to answer; `open` builds it, `running` keeps its background work going."""

    settings: Settings
    types: Registry
    stores: Stores
    store: MonitoredStore
    policies: PolicyRepository
    links: LinkCache
    upstreams: dict[str, Upstream]
    routes: Routes
    counter: BpeCounter
    semantic: SemanticService | None
    pipeline: Pipeline
    metrics: Metrics = field(default_factory=Metrics)
    exchanges: ExchangeLog = field(default_factory=ExchangeLog)
    auth: Authenticator = field(init=False)

    def __post_init__(self) -> None:
        fresh = Freshness(self.settings.auth.stale_seconds, lambda: self.policies.contact)
        self.auth = Authenticator(self.settings.auth, loopback=is_loopback(self.settings.listen.host), fresh=fresh)

    @classmethod
    async def open(cls, settings: Settings) -> Gateway:
        """Build everything; raises Faults for bad policies and StoreError for an unusable store."""
        stores = await open_stores(settings.store)
        try:
            return await cls._built(settings, stores)
        except BaseException:
            await stores.close()
            raise

    @classmethod
    async def _built(cls, settings: Settings, stores: Stores) -> Gateway:
        store = MonitoredStore(stores.ephemeral)
        registry = known_types(settings)
        links = LinkCache(store, settings.links)
        materials = PolicyMaterials(DocumentCache(settings.documents), links)
        policies = PolicyRepository(PolicySource(Path(settings.policies), registry, materials), stores.records)
        await first_load(policies, links)
        upstreams = build_upstreams(settings)
        routes = Routes(settings, upstreams)
        counter = BpeCounter()
        secret = settings.secret.encode() if settings.secret else await store.put_new(SECRET, secrets.token_bytes(32))
        semantic = None
        if settings.semantic.enabled:
            semantic = SemanticService(settings.semantic, lambda: open_vectors(settings.store), settings.store)
        pipeline = Pipeline(routes, store, counter, merging(registry), secret, settings.defaults, semantic)
        gateway = cls(
            settings, registry, stores, store, policies, links, upstreams, routes, counter, semantic, pipeline
        )
        policies.watch(gateway._swapped)
        gateway._swapped()
        return gateway

    def _swapped(self) -> None:
        """Other policies serve from now on: what depends on them follows."""
        self.auth.update(self.policies.stored(KEYS))
        self.links.track(one for uses in self.policies.links().values() for _, _, one in uses)
        if self.semantic is not None:
            self.semantic.submit(*self.policies.snapshots())

    def router(self, draining: Callable[[], bool]) -> Router:
        """The ASGI app."""
        limits, metrics, semantic = self.settings.limits, self.metrics, self.semantic
        self.auth.require_keys()
        limiter = Limiter(self.store)
        metrics.watch_counts("limited", lambda: limiter.refused)
        metrics.watch_generation(lambda: self.policies.generation)
        metrics.watch_breakers(self.routes.breakers)
        metrics.watch_gauge("store_breaker", lambda: {(): float(self.stores.breaker_open)})
        if semantic is not None:
            metrics.watch_counts("selection_cache", lambda: self.pipeline.lookups.by_outcome)
            metrics.watch_counts("vector_cache", lambda: semantic.cache_counts)
            metrics.watch_counts("lookups", lambda: semantic.lookup_counts)
        return Router(
            auth=self.auth,
            hosts=HostCheck(self.settings.hosts, lambda: self.auth.keyed),
            policies=self.policies,
            chat=Chat(self.pipeline, limits, limiter, metrics, self.exchanges if self.settings.log.exchanges else None),
            models=ModelList(self._enabled(), self.policies),
            passthrough=PassThrough(self.routes, PassthroughPaths(self.settings.passthrough), limits),
            health=Health(self.policies, lambda: self.store.ok, draining),
            metrics=metrics,
            limiter=limiter,
            manage=LazyManagementApp(self._management),
        )

    def _management(self) -> Manage:
        from gateway.edge.manage.composition import Parts, management

        parts = Parts(
            settings=self.settings,
            types=self.types,
            policies=self.policies,
            records=self.stores.records,
            store=self.store,
            links=self.links,
            pipeline=self.pipeline,
        )
        return management(parts)

    def _enabled(self) -> dict[str, Upstream]:
        return {name: up for name, up in self.upstreams.items() if self.settings.upstreams[name].enabled}

    async def reload(self) -> None:
        """Read the policies again; a faulty set changes nothing and is reported."""
        if await self.policies.reload():
            log.info("policies reloaded, generation %d", self.policies.generation)
        else:
            self.metrics.reload_failed()
            log.error("policies not reloaded: %s", self.policies.error)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Watch the policies, refresh links, write logs, until the block ends."""
        loop = asyncio.get_running_loop()
        sys.setswitchinterval(TURN_SECONDS)
        directory = Path(self.settings.policies)
        jobs = [
            watch(directory, self.reload, since=fingerprint(directory)),
            self.policies.follow(),
            forget(self.stores.records, self.store, self.settings.versions),
            self.links.run(self.reload),
            self.exchanges.run(),
            asyncio.to_thread(self.counter.count, "warm up", self.settings.defaults.model or ""),
            *([self.semantic.run()] if self.semantic is not None else []),
            *(up.prepare() for up in self._enabled().values() if isinstance(up, LitellmUpstream)),
        ]
        tasks = [loop.create_task(job) for job in jobs]
        for task in tasks:
            task.add_done_callback(log_failure)
        reloads: set[asyncio.Task[None]] = set()
        loop.add_signal_handler(signal.SIGHUP, lambda: reloads.add(loop.create_task(self.reload())))
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGHUP)
            for task in (*tasks, *reloads):
                task.cancel()
            await asyncio.gather(*tasks, *reloads, return_exceptions=True)
            await self.close()

    async def close(self) -> None:
        for upstream in self.upstreams.values():
            await upstream.close()
        if self.semantic is not None:
            await self.semantic.close()
        await self.stores.close()


def log_failure(task: asyncio.Task[Any]) -> None:
    """Background work does not end by itself; if it breaks, somebody has to know."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("background work has ended: %r", error, exc_info=error)


def known_types(settings: Settings) -> Registry:
    try:
        return default_registry(settings.resources.exclude)
    except ValueError as error:
        raise Faults([Fault("config", 1, "resources", str(error))]) from error


def check_policies(settings: Settings) -> Snapshot:
    """The snapshot that the policies give; raises Faults. Links stay unfetched."""
    links = LinkCache(MemoryStore(), settings.links)
    materials = PolicyMaterials(DocumentCache(settings.documents), links)
    return load_policies(Path(settings.policies), known_types(settings), materials, 1)


async def first_load(policies: PolicyRepository, links: LinkCache) -> None:
    """Load the policies; once more if an earlier run left copies of the links they name."""
    await policies.start()
    urls = set(policies.links())
    if urls:
        await links.load(urls)
        if any(links.copy(url) is not None for url in urls):
            await policies.reload()


def build_upstreams(settings: Settings) -> dict[str, Upstream]:
    built: dict[str, Upstream] = {}
    for name, upstream in settings.upstreams.items():
        match upstream.kind:
            case "openai":
                built[name] = OpenAIUpstream(name, upstream, settings.limits)
            case "litellm":
                built[name] = LitellmUpstream(name, upstream)
            case "demo":
                built[name] = DemoUpstream(name)
    return built
