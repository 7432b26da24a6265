"""The background work of a gateway, job by job."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from gateway.allocation import FreePages
from gateway.content.indexing import index_periodically
from gateway.late_modules import load_late_modules
from gateway.parts import GatewayParts
from gateway.policies.repository import PolicyRepository
from gateway.policies.watch import watch
from gateway.receipts.retention import keep_receipts_tidy
from gateway.recording import build_counter
from gateway.stores.retention import prune_periodically
from gateway.summaries.service import Summaries
from gateway.upstreams.litellm.upstream import LitellmUpstream


def add_jobs(gateway: GatewayParts) -> None:
    """Let everything begin that goes on beside the requests."""
    jobs, directory, settings = gateway.jobs, Path(gateway.settings.policies), gateway.settings
    known = [gateway.loaded_files]

    def watch_files() -> Coroutine[Any, Any, None]:
        # A second watch cannot know what the first one missed: it begins with a reload.
        since = known.pop() if known else frozenset()
        return watch(directory, lambda: gateway.reload(wait=False), since=since)

    jobs.add("policy files", watch_files)
    jobs.add("stored policies", gateway.policies.follow)
    jobs.add("knowledge graph", gateway.knowledge.repository.run)
    stores = gateway.stores
    jobs.add(
        "retention", lambda: prune_periodically(stores.records, stores.knowledge, gateway.store, settings.versions)
    )
    if gateway.pipeline.receipts is not None:
        jobs.add("receipts", gateway.pipeline.receipts.run)
    jobs.add("receipt retention", lambda: keep_receipts_tidy(gateway.receipts, gateway.store, settings.receipts))
    if gateway.pipeline.receipts is not None and settings.analytics.enabled:
        jobs.add("statistics", lambda: build_counter(settings, gateway.statistics, gateway.semantic).run(gateway.store))
    jobs.add("responses", gateway.pipeline.responses.queue.run)
    jobs.add("response quotas", gateway.pipeline.responses.quota.run)
    jobs.add("links", lambda: gateway.links.run(gateway.policies.update_links))
    jobs.add("tool servers", lambda: gateway.tool_servers.run(gateway.policies.update_tools))
    jobs.add("request log", gateway.recorder.run)
    jobs.add("limits", gateway.limiter.run)
    jobs.add("free memory", FreePages().run)
    jobs.add("content activity", gateway.content.activity.run)
    jobs.add("content index", lambda: index_periodically(gateway.policies, gateway.stores.content))
    summaries = gateway.summaries
    if summaries is not None:
        jobs.add("summaries", lambda: run_summaries(summaries, gateway.policies))
    if gateway.semantic is not None:
        jobs.add("semantic search", gateway.semantic.run)
    jobs.add_once("late modules", lambda: load_for_requests(gateway))
    jobs.add_once("retrievers", lambda: gateway.pipeline.retrievers.prepare(gateway.policies.snapshots()))
    for name, upstream in gateway.list_enabled().items():
        if isinstance(upstream, LitellmUpstream):
            jobs.add_once(f"upstream {name}", upstream.prepare)


async def load_for_requests(gateway: GatewayParts) -> None:
    """Load what requests need, what chats wait for first: side by side, all of it would be late."""
    await asyncio.to_thread(gateway.counter.count, "-", gateway.settings.defaults.model or "")
    await asyncio.to_thread(load_late_modules)
    if gateway.site is not None:
        await gateway.site.load()


async def run_summaries(summaries: Summaries, policies: PolicyRepository) -> None:
    """Make summaries; what was built without them is built again when somebody needs it."""
    await summaries.run(lambda workspace: policies.snapshots().forget_injections(workspace))
