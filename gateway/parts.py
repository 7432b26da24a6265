"""What a gateway consists of, for whoever wires, runs or watches it."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from gateway.background import BackgroundJobs
from gateway.content.reader import WorkspaceContent
from gateway.domain.upstream import Upstream
from gateway.edge.access import AccessControl
from gateway.edge.auth import Authenticator, Freshness
from gateway.edge.lazy_app import LazyApp
from gateway.edge.limits import RateLimiter
from gateway.edge.logs import RequestLog
from gateway.edge.metrics import Metrics
from gateway.edge.recorder import RequestRecorder
from gateway.extraction.extractor import Extractor
from gateway.fair_queue import FairThreads
from gateway.knowledge.service import KnowledgeService
from gateway.links.cache import LinkCache
from gateway.loop_turns import LoopTurns
from gateway.pipeline import Pipeline
from gateway.policies.repository import PolicyRepository
from gateway.policies.watch import Fingerprint
from gateway.resources.registry import ResourceRegistry
from gateway.semantic.service import SemanticService
from gateway.settings import Settings, is_loopback
from gateway.stores.monitored import MonitoredStore
from gateway.stores.open import Stores
from gateway.stores.protocols import ReceiptStore
from gateway.stores.statistics import StatisticsStore
from gateway.summaries.service import Summaries
from gateway.tokens import BpeCounter
from gateway.tools.servers import ToolServers
from gateway.upstreams.routes import Routes
from gateway.watchdog import LoopWatchdog

log = logging.getLogger(__name__)


@dataclass
class GatewayParts:
    """Every part, built once; those of the second half follow from the others."""

    settings: Settings
    types: ResourceRegistry
    stores: Stores
    store: MonitoredStore
    policies: PolicyRepository
    links: LinkCache
    upstreams: dict[str, Upstream]
    routes: Routes
    counter: BpeCounter
    semantic: SemanticService | None
    pipeline: Pipeline
    receipts: ReceiptStore
    statistics: StatisticsStore
    metrics: Metrics = field(default_factory=Metrics)
    log: RequestLog = field(default_factory=RequestLog)
    jobs: BackgroundJobs = field(default_factory=BackgroundJobs)
    watchdog: LoopWatchdog = field(default_factory=LoopWatchdog)
    auth: Authenticator = field(init=False)
    access: AccessControl = field(init=False)
    limiter: RateLimiter = field(init=False)
    recorder: RequestRecorder = field(init=False)
    threads: FairThreads = field(init=False)
    turns: LoopTurns = field(init=False)
    content: WorkspaceContent = field(init=False)
    extractor: Extractor = field(init=False)
    knowledge: KnowledgeService = field(init=False)
    summaries: Summaries | None = field(init=False, default=None)  # None: no model is configured for them
    site: LazyApp | None = field(init=False, default=None)  # everything but chat; None: nothing is served yet
    loaded_files: Fingerprint | None = field(init=False, default=None)  # the state of the policy files in use

    def __post_init__(self) -> None:
        fresh = Freshness(self.settings.auth.stale_seconds, lambda: self.policies.contact)
        self.auth = Authenticator(self.settings.auth, loopback=is_loopback(self.settings.listen.host), fresh=fresh)
        self.access = AccessControl.from_settings(self.settings, self.auth, self.store)
        self.limiter = RateLimiter(self.store)
        log = self.log if self.settings.log.exchanges else None
        self.recorder = RequestRecorder(self.metrics, log, self.pipeline.receipts)

    @property
    def tool_servers(self) -> ToolServers:
        return self.pipeline.tools.servers

    def list_enabled(self) -> dict[str, Upstream]:
        """The upstreams that can be asked."""
        return {name: up for name, up in self.upstreams.items() if self.settings.upstreams[name].enabled}

    async def reload(self, *, wait: bool = True) -> None:
        """Read the policies again; a faulty set changes nothing and is reported.

        Without `wait`, workspaces with policies of their own may follow later.
        """
        if await self.policies.reload(wait=wait):
            log.info("policies reloaded, generation %d", self.policies.generation)
        else:
            self.metrics.count_failed_reload()
            log.error("policies not reloaded: %s", self.policies.error)
