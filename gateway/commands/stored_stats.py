"""The figures in the configured store, whether or not a gateway runs on it."""

import time
from collections.abc import Mapping
from typing import Any

import msgspec

from gateway.analytics.reports import (
    AGENT,
    MODEL,
    BucketName,
    ExchangeFilter,
    PageChoice,
    Period,
    Reports,
    ResourceFilter,
    SortName,
)
from gateway.commands.common import require_lasting_store
from gateway.control.advice import build_advisor
from gateway.recording import build_counter
from gateway.settings import Settings
from gateway.stores.open import open_receipts, open_statistics


class StatsQuestion(msgspec.Struct, frozen=True):
    """What is asked."""

    view: str
    begin: float | None = None
    end: float | None = None
    bucket: BucketName = "day"
    filters: Mapping[str, str | None] = msgspec.field(default_factory=dict)
    sort: SortName = "injected"
    take: int = 50


async def read_stats(settings: Settings, workspace: str, question: StatsQuestion) -> dict[str, Any]:
    """The answer; receipts that nobody has counted yet are counted first."""
    require_lasting_store(settings, "keep figures in")
    receipts = await open_receipts(settings.store)
    try:
        enabled = settings.analytics.enabled and settings.receipts.enabled
        store = await open_statistics(settings.store, receipts, enabled=enabled)
        try:
            if enabled:
                await build_counter(settings, store).count()
            return await answer(settings, Reports(store), workspace, question)
        finally:
            await store.close()
    finally:
        await receipts.close()


async def answer(settings: Settings, reports: Reports, workspace: str, question: StatsQuestion) -> dict[str, Any]:
    """What the route of the same name answers."""
    series = question.view in ("summary", "quality")
    period = Period.choose(time.time(), question.begin, question.end, question.bucket if series else "day")
    agent, model, context = (question.filters.get(name) for name in ("agent", "model", "context"))
    match question.view:
        case "summary":
            return await reports.summarize(workspace, period, ExchangeFilter(agent, model))
        case "quality":
            return await reports.assess(workspace, period, ExchangeFilter(agent, model))
        case "cache":
            return await reports.describe_caches(workspace, period)
        case "agents" | "models":
            found = await reports.group(workspace, period, AGENT if question.view == "agents" else MODEL)
        case "contexts":
            found = (await reports.list_contexts(workspace, period, PageChoice(take=question.take))).items
        case "suggestions":
            found = await suggest(settings, reports, workspace, period)
        case _:
            wanted = ResourceFilter(context, agent=agent)
            part = PageChoice(question.sort, take=question.take)
            page = await reports.list_resources(workspace, period, wanted, part)
            found = page.items
    return {"items": found[: question.take]}


async def suggest(settings: Settings, reports: Reports, workspace: str, period: Period) -> list[dict[str, Any]]:
    from gateway.commands.offline_policies import open_policies

    async with open_policies(settings) as offline:
        advisor = build_advisor(reports, offline.policies, workspace, settings.defaults.budget)
        return await advisor.suggest(workspace, period)
