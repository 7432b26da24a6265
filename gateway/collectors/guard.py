"""Runs collectors side by side under one deadline: one that is late or fails is left out and delays nobody."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from gateway.collectors.registry import AppliedCollector
from gateway.domain.collector import Category, CollectorOutcome, Findings
from gateway.domain.search import SearchResult

log = logging.getLogger(__name__)

Collect = Callable[[AppliedCollector], Awaitable[Findings]]


async def run_collectors(
    applied: Sequence[AppliedCollector], collect: Collect, seconds: float
) -> tuple[CollectorOutcome, ...]:
    """What each collector found within its time, in their order."""
    tasks = [asyncio.ensure_future(collect(one)) for one in applied]
    try:
        await asyncio.wait(tasks, timeout=seconds)
    finally:
        for task in tasks:
            task.cancel()  # one that ignores it is not waited for
    return tuple(read_outcome(one, task) for one, task in zip(applied, tasks, strict=True))


def read_outcome(applied: AppliedCollector, task: "asyncio.Future[Findings]") -> CollectorOutcome:
    collector = applied.collector
    if not task.done():
        task.add_done_callback(_drop_result)
        return make_failure(applied, "late")
    try:
        return CollectorOutcome(collector.name, collector.category, task.result())
    except (Exception, asyncio.CancelledError) as error:
        log.warning("the collector %s failed: %s: %s", collector.name, type(error).__name__, error)
        return make_failure(applied, "failed")


def make_failure(applied: AppliedCollector, failure: str) -> CollectorOutcome:
    collector = applied.collector
    reason = "late" if failure == "late" else "unavailable"
    search = SearchResult(reason=reason) if collector.category is Category.SEMANTIC and collector.shared else None
    findings = Findings(search=search, degraded=collector.degraded, complete=False)
    return CollectorOutcome(collector.name, collector.category, findings, failure)


def _drop_result(task: "asyncio.Future[Findings]") -> None:
    """Its error has been told already: it was late."""
    if not task.cancelled():
        task.exception()
