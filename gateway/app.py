"""The composition root: builds every object once and keeps the background work."""

import asyncio
import contextlib
import logging
import secrets
import signal
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from pathlib import Path

from gateway.collectors.contexts import merging
from gateway.domain.snapshot import Snapshot
from gateway.edge.auth import Authenticator
from gateway.edge.chat import Chat
from gateway.edge.health import Health
from gateway.edge.hosts import HostCheck
from gateway.edge.logs import ExchangeLog
from gateway.edge.metrics import Metrics
from gateway.edge.models import ModelList
from gateway.edge.passthrough import Allowed, PassThrough
from gateway.edge.router import Router
from gateway.errors import Fault, Faults
from gateway.pipeline import Pipeline
from gateway.resources.extract import DocumentCache
from gateway.resources.registry import Registry, default_registry
from gateway.semantic.service import SemanticService, open_vectors
from gateway.semantic.tokens import BpeCounter
from gateway.settings import Settings
from gateway.stores.links import LinkCache
from gateway.stores.materials import PolicyMaterials
from gateway.stores.memory import MemoryStore
from gateway.stores.open import open_store
from gateway.stores.policies import load_policies
from gateway.stores.snapshot import SnapshotHolder
from gateway.stores.watch import fingerprint, watch
from gateway.stores.watched import WatchedStore
from gateway.upstreams.base import Upstream
from gateway.upstreams.demo import DemoUpstream
from gateway.upstreams.litellm import LitellmUpstream
from gateway.upstreams.openai import OpenAIUpstream
from gateway.upstreams.routes import Routes

log = logging.getLogger(__name__)

SECRET = "secret:blocks"


@dataclass
class Gateway:
    """A gateway that is ready to answer; `open` builds it, `running` keeps its background work going."""

    settings: Settings
    store: WatchedStore
    policies: SnapshotHolder
    links: LinkCache
    materials: PolicyMaterials
    upstreams: dict[str, Upstream]
    routes: Routes
    counter: BpeCounter
    semantic: SemanticService | None
    pipeline: Pipeline
    metrics: Metrics = field(default_factory=Metrics)
    exchanges: ExchangeLog = field(default_factory=ExchangeLog)

    @classmethod
    async def open(cls, settings: Settings) -> "Gateway":
        """Build everything; raises Faults for bad policies and StoreError for an unusable store."""
        store = WatchedStore(await open_store(settings.store))
        registry = known_types(settings)
        links = LinkCache(store, settings.links)
        materials = PolicyMaterials(DocumentCache(settings.documents), links)
        policies = SnapshotHolder(loader(settings, registry, materials))
        await first_load(policies, links, materials)
        upstreams = build_upstreams(settings)
        routes = Routes(settings, upstreams)
        counter = BpeCounter()
        secret = settings.secret.encode() if settings.secret else await store.put_new(SECRET, secrets.token_bytes(32))
        semantic = None
        if settings.semantic.enabled:
            semantic = SemanticService(settings.semantic, lambda: open_vectors(settings.store))
            semantic.submit(policies.current)
        pipeline = Pipeline(routes, store, counter, merging(registry), secret, settings.defaults, semantic)
        return cls(settings, store, policies, links, materials, upstreams, routes, counter, semantic, pipeline)

    def router(self, draining: Callable[[], bool]) -> Router:
        """The ASGI app."""
        limits, metrics, semantic = self.settings.limits, self.metrics, self.semantic
        auth = Authenticator(self.settings.auth)
        metrics.watch_generation(lambda: self.policies.generation)
        metrics.watch_breakers(self.routes.breakers)
        if semantic is not None:
            metrics.watch_counts("semantic_cache", lambda: semantic.cache_counts)
        return Router(
            auth=auth,
            hosts=HostCheck(self.settings.hosts, auth.keyed),
            policies=self.policies,
            chat=Chat(self.pipeline, limits, metrics, self.exchanges if self.settings.log.exchanges else None),
            models=ModelList(self._enabled(), self.policies),
            passthrough=PassThrough(self.routes, Allowed(self.settings.passthrough), limits),
            health=Health(self.policies, lambda: self.store.ok, draining),
            metrics=metrics,
        )

    def _enabled(self) -> dict[str, Upstream]:
        return {name: up for name, up in self.upstreams.items() if self.settings.upstreams[name].enabled}

    async def reload(self) -> None:
        """Read the policies again; a faulty set changes nothing and is reported."""
        if await self.policies.reload():
            self.links.track(self.materials.wanted)
            if self.semantic is not None:
                self.semantic.submit(self.policies.current)
            log.info("policies reloaded, generation %d", self.policies.generation)
        else:
            self.metrics.reload_failed()
            log.error("policies not reloaded: %s", self.policies.error)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Watch the policies, refresh links, write logs, until the block ends."""
        loop = asyncio.get_running_loop()
        directory = Path(self.settings.policies)
        jobs = [
            watch(directory, self.reload, since=fingerprint(directory)),
            self.links.run(self.reload),
            self.exchanges.run(),
            asyncio.to_thread(self.counter.count, "warm up", self.settings.defaults.model or ""),
            *([self.semantic.run()] if self.semantic is not None else []),
            *(up.prepare() for up in self._enabled().values() if isinstance(up, LitellmUpstream)),
        ]
        tasks = [loop.create_task(job) for job in jobs]
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
        await self.store.close()


def known_types(settings: Settings) -> Registry:
    try:
        return default_registry(settings.resources.exclude)
    except ValueError as error:
        raise Faults([Fault("config", 1, "resources", str(error))]) from error


def loader(settings: Settings, registry: Registry, materials: PolicyMaterials) -> Callable[[int], Snapshot]:
    def load(generation: int) -> Snapshot:
        materials.wanted = []
        return load_policies(Path(settings.policies), registry, materials, generation)

    return load


def check_policies(settings: Settings) -> Snapshot:
    """The snapshot that the policies give; raises Faults. Links stay unfetched."""
    links = LinkCache(MemoryStore(), settings.links)
    materials = PolicyMaterials(DocumentCache(settings.documents), links)
    return loader(settings, known_types(settings), materials)(1)


async def first_load(policies: SnapshotHolder, links: LinkCache, materials: PolicyMaterials) -> None:
    """Load the policies; once more if an earlier run left copies of the links they name."""
    await asyncio.to_thread(policies.start)
    urls = {link.url for link in materials.wanted}
    if urls:
        await links.load(urls)
        if any(links.copy(url) is not None for url in urls):
            await policies.reload()
    links.track(materials.wanted)


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
